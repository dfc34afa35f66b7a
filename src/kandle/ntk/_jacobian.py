"""The Jacobian itself, by automatic differentiation: the route that takes any model."""

import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, ArrayLike, Float

from kandle.nn import KAN
from kandle.ntk._tangents import Directions, Residual


def coupled(model: KAN) -> bool:
    """Whether rows depend on each other: normalized layers take statistics from the batch."""
    return any(layer.normalized and layer.mean is None for layer in model.layers)


def jacobian(
    model: KAN,
    x: Float[ArrayLike, "N n_in"],
    residual: Residual | None = None,
    directions: Directions | None = None,
) -> Float[Array, "N Q P"]:
    """∂q_n/∂θ for all Q quantities at each point and all P weights, flattened in tree order.

    The quantities are the network's outputs, or a residual of their derivatives, carried forward.
    Frozen statistics are no weights. Of a model whose rows are coupled, all points are one batch,
    and statistics are differentiated with respect to the weights that they depend on.
    """
    x = jnp.asarray(x)
    found = _jacobian(model, x, residual=residual, directions=directions or Directions())
    return found.reshape(len(x), -1, found.shape[-1])


@functools.partial(jax.jit, static_argnames=("residual", "directions"))
def _jacobian(model: KAN, x: Array, *, residual: Residual | None, directions: Directions) -> Array:
    theta, build = _flattened(model)

    def quantities(theta: Array, x: Float[Array, "N n_in"]) -> Float[Array, "N Q"]:
        network = build(theta)
        if residual is None:
            return network(x)
        derivatives = network.derivatives(x, directions.first, directions.second)
        return residual(x, derivatives).reshape(len(x), -1)

    if coupled(model):
        return jax.jacrev(quantities)(theta, x)
    return jax.vmap(lambda row: jax.jacrev(quantities)(theta, row[None])[0])(x)


def _flattened(model: KAN) -> tuple[Float[Array, " P"], Callable[[Array], KAN]]:
    """The trained weights as one vector, and the way back."""

    def weights(model: KAN) -> list[Array]:
        every = [w for layer in model.layers for w in (layer.r, layer.c, layer.b, layer.bias)]
        return [w for w in every if w is not None]

    theta, unravel = ravel_pytree(weights(model))
    return theta, lambda theta: eqx.tree_at(weights, model, unravel(theta))


def gram(J: Float[Array, "N Q P"], L: Float[Array, "M Q P"]) -> Float[Array, "N M"]:
    """Σ_q J_q L_qᵀ."""
    return jnp.reshape(J, (len(J), -1)) @ jnp.reshape(L, (len(L), -1)).T
