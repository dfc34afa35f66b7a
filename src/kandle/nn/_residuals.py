"""Residual functions by name, so that a saved model needs no code to be loaded."""

import importlib
from collections.abc import Callable

from jaxtyping import Array

from kandle._errors import must, unknown
from kandle.bases._moments import IN_JAX, residual_name

__all__ = ["RESIDUALS", "get_residual", "identity", "residual_name"]


def identity(x: Array) -> Array:
    """R(x) = x."""
    return x


RESIDUALS: dict[str, Callable[[Array], Array]] = {}
for _name, (_module, _attribute) in IN_JAX.items():
    RESIDUALS[_name] = getattr(importlib.import_module(_module), _attribute)


def get_residual(residual: str | Callable | None) -> Callable[[Array], Array] | None:
    """A residual function by name; a function and None are returned as they are."""
    if isinstance(residual, str):
        if residual not in RESIDUALS:
            raise unknown("residual function", residual, RESIDUALS)
        return RESIDUALS[residual]
    if residual is not None and not callable(residual):
        raise must("'residual'", "an elementwise function, the name of one, or None", residual)
    return residual
