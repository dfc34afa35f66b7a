"""Grids from data: the interval that a sample spans, never of width zero."""

import math
from typing import Any

import numpy as np

from kandle._errors import UserError, must
from kandle.bases._basis import real_points

# An interval narrower than this, relative to the size of its values, counts as a single point.
_NARROW = 1e-6

# How much of equal intervals is mixed into quantiles, so that repeated values leave them apart.
_EQUAL = 0.02


def sample_values(x: Any) -> np.ndarray:
    """All values of a sample as one float64 vector, or an error if there are none or not finite."""
    try:
        values = np.asarray(real_points(x, np)).ravel()
    except (TypeError, ValueError):
        raise must("'x' of from_sample", "an array of real numbers", x) from None
    if values.size == 0 or not np.isfinite(values).all():
        raise UserError("'x' of from_sample must be at least one number, and all finite.")
    return values


def span(values: np.ndarray) -> tuple[float, float]:
    """The interval from the smallest to the largest value; wider around a single value."""
    lo, hi = float(values.min()), float(values.max())
    if not math.isfinite(hi - lo):
        raise must("'x' of from_sample", "of a range that is finite in float64", (lo, hi))
    size = max(abs(lo), abs(hi), 1.0)
    if hi - lo <= _NARROW * size:
        middle = lo + (hi - lo) / 2
        return middle - 0.5 * size, middle + 0.5 * size
    return lo, hi


def quantile_knots(values: np.ndarray, grid: int) -> np.ndarray:
    """Breakpoints with the same share of the values in every interval, kept apart from each other.

    A mixture of 98 % quantiles and 2 % equal intervals, so that the shortest interval is at least
    a fiftieth of an equal one however often a value repeats.
    """
    lo, hi = span(values)
    equal = np.linspace(lo, hi, grid + 1)
    inside = np.quantile(np.clip(values, lo, hi), np.linspace(0.0, 1.0, grid + 1))
    inside[0], inside[-1] = lo, hi
    return (1.0 - _EQUAL) * inside + _EQUAL * equal
