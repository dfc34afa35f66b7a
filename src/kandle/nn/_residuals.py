"""Residual functions by name, so that a saved model needs no code to be loaded."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array

from kandle._errors import must, unknown


def identity(x: Array) -> Array:
    """R(x) = x."""
    return x


RESIDUALS: dict[str, Callable[[Array], Array]] = {
    "silu": jax.nn.silu,
    "relu": jax.nn.relu,
    "gelu": jax.nn.gelu,
    "elu": jax.nn.elu,
    "softplus": jax.nn.softplus,
    "sigmoid": jax.nn.sigmoid,
    "tanh": jnp.tanh,
    "sin": jnp.sin,
    "identity": identity,
}


def get_residual(residual: str | Callable | None) -> Callable[[Array], Array] | None:
    """A residual function by name; a function and None are returned as they are."""
    if isinstance(residual, str):
        if residual not in RESIDUALS:
            raise unknown("residual function", residual, RESIDUALS)
        return RESIDUALS[residual]
    if residual is not None and not callable(residual):
        raise must("'residual'", "an elementwise function, the name of one, or None", residual)
    return residual


def residual_name(residual: Callable) -> str | None:
    """The name under which a function is known here, None for a caller's own."""
    return next((name for name, known in RESIDUALS.items() if known is residual), None)
