"""The weighted residuals of a program's models, and their derivatives by automatic differentiation.

A program has `model(vector)` and an `objective` that is a sum of squares. Only the first weights of
a vector are trained; constants follow them.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from kandle.train._jacobian import quantities
from kandle.train._objective import SumOfSquares
from kandle.train._terms import Term

# The step along δ for second differences of the residuals, relative to δ.
_DIFFERENCE = 0.1


def arrays_of(terms: Sequence[Term]) -> tuple[tuple[Array, ...], ...]:
    """The arrays of the terms, which are arguments of compiled programs."""
    return tuple(tuple(term[:3]) for term in terms)


def weighted_residuals(program: Any, vector: Array, arrays: Any) -> list[Array]:
    """√w (q(x) - y), one vector per term; the program has a model and an objective."""
    model, statics = program.model(vector), _statics(program.objective)
    return [
        jnp.ravel(jnp.sqrt(weight) * (quantities(model, x, *static) - y))
        for (x, y, weight), static in zip(arrays, statics, strict=True)
    ]


def _statics(objective: SumOfSquares) -> list[tuple[Any, Any]]:
    """Residual and directions of each term, which do not depend on the data."""
    empty = {name: jnp.zeros((1, 1)) for name in objective.arrays}
    if "weight" in empty:
        empty["weight"] = jnp.zeros(1)
    return [(term.residual, term.directions) for term in objective.terms(empty, {})]


jitted = functools.partial(jax.jit, static_argnums=0)


@jitted
def total_loss(program: Any, vector: Array, arrays: Any) -> Float[Array, ""]:
    return sum(jnp.vdot(r, r) for r in weighted_residuals(program, vector, arrays))  # pyright: ignore


@jitted
def values(program: Any, vector: Array, arrays: Any) -> Float[Array, " B"]:
    """ρ of all terms."""
    return jnp.concatenate(weighted_residuals(program, vector, arrays))


@jitted
def errors(program: Any, vector: Array, arrays: Any) -> list[Array]:
    """q(x) - y of each term, unweighted."""
    arrays = [(x, y, jnp.ones_like(y)) for x, y, _ in arrays]
    found = weighted_residuals(program, vector, arrays)
    return [r.reshape(y.shape) for r, (_, y, _) in zip(found, arrays, strict=True)]


@jitted
def push(program: Any, vector: Array, step: Array, arrays: Any) -> Float[Array, " B"]:
    """J δ."""
    return jax.jvp(lambda v: values(program, v, arrays), (vector,), (step,))[1]


@jitted
def pull(program: Any, vector: Array, z: Array, arrays: Any) -> Array:
    """Jᵀ z, by constants as well."""
    (pulled,) = jax.vjp(lambda v: values(program, v, arrays), vector)[1](z)
    return pulled


@jitted
def second(program: Any, vector: Array, step: Array, arrays: Any) -> Float[Array, " B"]:
    """∂²ρ/∂δ², by central differences."""
    ahead, behind = (
        values(program, vector + sign * _DIFFERENCE * step, arrays) for sign in (1, -1)
    )
    return (ahead - 2 * values(program, vector, arrays) + behind) / _DIFFERENCE**2


@jitted
def curvature(program: Any, vector: Array, step: Array, arrays: Any) -> Array:
    """Jᵀ ∂²ρ/∂δ²."""
    return pull(program, vector, second(program, vector, step, arrays), arrays)
