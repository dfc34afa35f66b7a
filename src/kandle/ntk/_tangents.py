"""What reaches each layer from both sides: its inputs forward, the outputs' gradient backward.

These two are all that the gradient of a quantity with respect to a layer's weights is made of, and
they grow with points and width, not with the number of weights.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from kandle.nn import KAN, Derivatives

Residual = Callable[[Array, Derivatives], Array]


class Tangent(NamedTuple):
    """Of one layer: its input jets x, and ∂q_n/∂y of its output jets y, for one q a row.

    `x` is (C, N, n_in), `cotangent` (C, N, n_out), with the components of `kernels.jet`.
    """

    x: Float[Array, "C N n_in"]
    cotangent: Float[Array, "C N n_out"]


class Directions(NamedTuple):
    """The derivatives that jets carry: ∂/∂x_i for i in `first`, ∂²/∂x_i² for i in `second`."""

    first: tuple[int, ...] = ()
    second: tuple[int, ...] = ()

    @property
    def along(self) -> tuple[int, ...]:
        """All directions in the kernels' order: those with a second derivative come first."""
        return (*self.second, *(i for i in self.first if i not in self.second))

    @property
    def components(self) -> int:
        return 1 + len(self.along) + len(self.second)

    def read(self, jet: Float[Array, "C N n_out"]) -> Derivatives:
        """The jet of the network's outputs as `KAN.derivatives` would return it."""
        n = len(self.along)
        along = dict(zip(self.along, jet[1 : 1 + n], strict=True))
        curved = dict(zip(self.second, jet[1 + n :], strict=True))
        return Derivatives(jet[0], {i: along[i] for i in self.first}, curved)


def tangents(
    model: KAN, x: Float[Array, "N n_in"], residual: Residual | None, directions: Directions
) -> list[tuple[Tangent, ...]]:
    """A tangent for every layer, for every quantity at a point.

    The quantities are the network's outputs, or a residual made of their derivatives. Points must
    not depend on each other: then the gradient of Σ_n q_n holds that of each q_n in its rows, and
    one reverse pass a quantity serves all points.
    """
    jets: list[Array] = []

    def quantities(shifts: list[Array]) -> tuple[Array, list[Array]]:
        """q, (N, Q), with something added to every layer's outputs."""
        jets.clear()
        jet = _seed(x, directions)
        for layer, shift in zip(model.layers, shifts, strict=True):
            jets.append(jet)
            jet = _through(layer, jet, directions) + shift
        q = jet[0] if residual is None else residual(x, directions.read(jet))
        return q.reshape(len(x), -1), list(jets)

    shape = (directions.components, len(x))
    zeros = [jnp.zeros((*shape, layer.n_out), x.dtype) for layer in model.layers]
    q, pull, inputs = jax.vjp(quantities, zeros, has_aux=True)
    unit = jnp.eye(q.shape[1], dtype=q.dtype)
    found = []
    for one in unit:
        (cotangents,) = pull(jnp.broadcast_to(one, q.shape))
        found.append(tuple(map(Tangent, inputs, cotangents)))
    return found


def _through(layer, jet: Array, directions: Directions) -> Array:
    if directions.components == 1:
        return layer(jet[0])[None]
    return layer.jet(jet, first=len(directions.along), second=len(directions.second))


def _seed(x: Array, directions: Directions) -> Float[Array, "C N n_in"]:
    """x, its derivatives along the directions (unit vectors), and its second ones (zero)."""
    unit = jnp.eye(x.shape[1], dtype=x.dtype)
    rows = [jnp.broadcast_to(unit[i], x.shape) for i in directions.along]
    return jnp.stack([x, *rows, *[jnp.zeros_like(x)] * len(directions.second)])
