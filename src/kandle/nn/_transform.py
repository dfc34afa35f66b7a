"""A field that is a function of a network's outputs, with its derivatives: hard constraints."""

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from kandle.nn._derivatives import Derivatives, MultiIndex, by_order, closure, factorial
from kandle.nn._network import KAN

Transform = Callable[[Array, Array], Array]
"""From points (N, n_in) and the network's outputs v (N, n_out) to the field u (N, n_out)."""


def field_derivatives(
    model: KAN,
    x: Float[Array, "N n_in"],
    wanted: Sequence[MultiIndex],
    transform: Transform | None = None,
) -> Derivatives:
    """The field u = transform(x, v(x)) of a network v with the derivatives `wanted`.

    The Taylor polynomial of v at x, carried through the layers in one pass, replaces v along

        s ↦ transform(x + s, Σ_α v_α s^α),

    whose derivatives at s = 0 are those of u, by nested forward-mode autodiff of the transform.
    """
    if transform is None:
        if not wanted:
            return Derivatives(model(x))
        first, second, further = by_order(wanted)
        return model.derivatives(x, first, second, further)
    indices = closure(wanted)
    if indices == ((),):
        return Derivatives(transform(x, model(x)))
    first, second, further = by_order(indices)
    v = model.derivatives(x, first, second, further)
    series = {index: (v[index] if index else v.value) / factorial(index) for index in indices}
    unit = jnp.eye(x.shape[-1], dtype=x.dtype)

    def along(s: dict[int, Array]) -> Array:
        shifted = x + sum(s_i * unit[i] for i, s_i in s.items())
        value = series[()]
        for index in indices[1:]:
            value = value + functools.reduce(jnp.multiply, [s[i] for i in index]) * series[index]
        return transform(shifted, value)

    origin = {i: jnp.zeros((), x.dtype) for i in sorted({i for index in indices for i in index})}
    table = {index: _derivative(along, index)(origin) for index in wanted}
    return Derivatives(transform(x, v.value), further=table)


def _derivative(f: Callable, index: MultiIndex) -> Callable:
    """∂^α f of a function of a dictionary of numbers."""
    for i in index:
        f = functools.partial(_partial, f, i)
    return f


def _partial(f: Callable, i: int, s: dict[int, Array]) -> Array:
    one = jnp.ones_like(s[i])
    return jax.jvp(lambda s_i: f({**s, i: s_i}), (s[i],), (one,))[1]
