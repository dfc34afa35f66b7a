"""Residual functions by name, so that a saved model needs no code to be loaded."""

import importlib
import sys
from collections.abc import Callable

from jaxtyping import Array

from kandle._errors import must, unknown
from kandle.bases._residual import IN_JAX, residual_name

__all__ = ["RESIDUALS", "get_residual", "identity", "residual_name"]


def identity(x: Array) -> Array:
    """R(x) = x."""
    return x


def _in_jax(module: str, attribute: str) -> Callable[[Array], Array]:
    if module == __name__:
        return getattr(sys.modules[__name__], attribute)
    return getattr(importlib.import_module(module), attribute)


RESIDUALS: dict[str, Callable[[Array], Array]] = {
    name: _in_jax(*place) for name, place in IN_JAX.items()
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
