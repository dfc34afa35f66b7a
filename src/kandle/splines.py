"""Deprecated: the former name of `kandle.bases`, kept for one release."""

import warnings
from typing import Any

import jax.numpy as jnp
import numpy as np

from kandle import bases as _bases
from kandle.bases import (
    MAX_DEGREE,
    Inputs,
    Moments,
    Normal,
    Sample,
    Uniform,
    cardinal_coefficients,
    evaluate,
    moments,
    residual_moment,
)
from kandle.bases import BSpline as SplineBasis
from kandle.bases._jax import as_floating as _as_floating

__all__ = [
    "MAX_DEGREE",
    "Inputs",
    "Moments",
    "Normal",
    "Sample",
    "SplineBasis",
    "Uniform",
    "basis_means",
    "basis_moments",
    "cardinal_coefficients",
    "cox_de_boor",
    "evaluate",
    "local_taps",
    "locate",
    "moments",
    "residual_moment",
]

warnings.warn(
    "kandle.splines is now kandle.bases, and SplineBasis is bases.BSpline; the old names will be "
    "removed in the next release.",
    DeprecationWarning,
    stacklevel=2,
)


def basis_moments(knots: Any, degree: int, inputs: Inputs, order: int = 0) -> np.ndarray:
    """Deprecated: use `bases.Knots.from_full(knots, degree).moments(inputs, order)`."""
    return _bases.Knots.from_full(knots, degree).moments(inputs, order)


def basis_means(knots: Any, degree: int, inputs: Inputs, order: int = 0) -> np.ndarray:
    """Deprecated: use `bases.Knots.from_full(knots, degree).means(inputs, order)`."""
    return _bases.Knots.from_full(knots, degree).means(inputs, order)


def cox_de_boor(x: Any, knots: Any, degree: int, order: int = 0) -> Any:
    """Deprecated: use `bases.recursion`, or `bases.Knots.from_full(knots, degree).values`."""
    B = _bases.recursion(_as_floating(x), knots, degree, order, jnp)
    return jnp.moveaxis(B, 0, -1)


def local_taps(u: Any, degree: int, order: int = 0) -> tuple:
    """Deprecated: use `bases.local_taps`."""
    return _bases.local_taps(jnp.asarray(u), degree, order, jnp)


def locate(x: Any, basis: SplineBasis) -> tuple:
    """Deprecated: use `bases.locate`."""
    return _bases.locate(jnp.asarray(x), basis, jnp)
