"""The weighted residuals ρ of a model, and their derivatives along directions.

All functions take the method that trains, as a static argument, a vector of its `Layout`, and the
arrays that its objective's residuals are made of (`LeastSquares.arrays`). Only the first entries of
a vector are trained; constants follow them, and callers leave these directions out.
"""

import functools
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kandle.train._normal_equations import quantities

if TYPE_CHECKING:
    from kandle.train._least_squares import LeastSquares

# The step along δ for second differences of the residuals, relative to δ.
_DIFFERENCE = 0.1


def weighted_residuals(method: "LeastSquares", vector: Array, arrays: Any) -> list[Array]:
    """ρ as one vector per part of the loss, or in one vector where it is computed row by row."""
    if method.objective.squares == "by layer":
        network = method.layout.network(vector)
        return [
            jnp.ravel(jnp.sqrt(term.weight) * (quantities(network, term) - term.y))
            for term in arrays
        ]
    data, aux = arrays
    model, parts = method.model(vector), []
    for group in method.objective.groups:
        r = method.objective.residual(group, model, data)
        parts.append(np.sqrt(group.weight / r.size) * aux.get(group.name, 1.0) * r)
    return [jnp.concatenate(parts)]


_jitted = functools.partial(jax.jit, static_argnums=0)


@_jitted
def total_loss(method: "LeastSquares", vector: Array, arrays: Any) -> Float[Array, ""]:
    """‖ρ‖²."""
    parts = [jnp.vdot(r, r) for r in weighted_residuals(method, vector, arrays)]
    return functools.reduce(jnp.add, parts)


@_jitted
def values(method: "LeastSquares", vector: Array, arrays: Any) -> Float[Array, " B"]:
    """ρ."""
    return jnp.concatenate(weighted_residuals(method, vector, arrays))


@_jitted
def errors(method: "LeastSquares", vector: Array, arrays: Any) -> list[Array]:
    """The residuals of each part, without weights."""
    if method.objective.squares == "by layer":
        network = method.layout.network(vector)
        return [quantities(network, term) - term.y for term in arrays]
    data, _ = arrays
    model = method.model(vector)
    return [method.objective.residual(group, model, data) for group in method.objective.groups]


@_jitted
def push(method: "LeastSquares", vector: Array, step: Array, arrays: Any) -> Float[Array, " B"]:
    """J δ."""
    return jax.jvp(lambda v: values(method, v, arrays), (vector,), (step,))[1]


@_jitted
def pull(method: "LeastSquares", vector: Array, z: Array, arrays: Any) -> Array:
    """Jᵀ z, by constants as well."""
    (pulled,) = jax.vjp(lambda v: values(method, v, arrays), vector)[1](z)
    return pulled


@_jitted
def second(method: "LeastSquares", vector: Array, step: Array, arrays: Any) -> Float[Array, " B"]:
    """∂²ρ/∂δ², by central differences."""
    ahead = values(method, vector + _DIFFERENCE * step, arrays)
    behind = values(method, vector - _DIFFERENCE * step, arrays)
    return (ahead - 2 * values(method, vector, arrays) + behind) / _DIFFERENCE**2


@_jitted
def curvature(method: "LeastSquares", vector: Array, step: Array, arrays: Any) -> Array:
    """Jᵀ ∂²ρ/∂δ²."""
    return pull(method, vector, second(method, vector, step, arrays), arrays)
