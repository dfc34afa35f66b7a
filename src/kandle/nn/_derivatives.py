"""What `KAN.derivatives` returns, and the jet it starts from."""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from kandle._errors import must


class Derivatives(NamedTuple):
    """A network's value with derivatives along chosen input dimensions.

    `value` is u, (..., n_out); `first[i]` is ∂u/∂x_i and `second[i]` is ∂²u/∂x_i², of its shape.
    """

    value: Float[Array, "... n_out"]
    first: dict[int, Float[Array, "... n_out"]]
    second: dict[int, Float[Array, "... n_out"]]


def check_dimensions(name: str, dimensions: Sequence[int], n_in: int) -> tuple[int, ...]:
    """Distinct dimensions of the input, or an error that says which argument is not."""
    given = tuple(dimensions)
    valid = all(isinstance(i, int) and 0 <= i < n_in for i in given)
    if not valid or len(set(given)) != len(given):
        raise must(f"'{name}' of derivatives", f"distinct integers from 0 to {n_in - 1}", given)
    return given


def seed_jet(
    x: Float[Array, "N n_in"], directions: Sequence[int], second: int
) -> Float[Array, "C N n_in"]:
    """The inputs as a jet: x itself, ∂x/∂x_i = e_i for each direction, and ∂²x/∂x_i² = 0."""
    N, n_in = x.shape
    units = jnp.eye(n_in, dtype=x.dtype)[jnp.asarray(directions, int)]  # (first, n_in)
    first = jnp.broadcast_to(units[:, None, :], (len(directions), N, n_in))
    return jnp.concatenate([x[None], first, jnp.zeros((second, N, n_in), x.dtype)])
