"""The Cox-de Boor recursion: B-splines on any knots, by their definition."""

from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Float

from kandle._errors import must


def recursion(
    x: Float[Any, "..."], knots: Any, degree: int, order: int, xp: ModuleType = np
) -> Float[Any, "n_basis ..."]:
    """B_{m,k}^{(ν)}(x) for every m, on any non-decreasing knots t.

        B_{m,0}(x) = 1 if t_m ≤ x < t_{m+1} else 0,
        B_{m,p}(x) = (x - t_m) / (t_{m+p} - t_m) B_{m,p-1}(x)
                     + (t_{m+p+1} - x) / (t_{m+p+1} - t_{m+1}) B_{m+1,p-1}(x),
        B_{m,p}'(x) = p [ B_{m,p-1}(x) / (t_{m+p} - t_m)
                          - B_{m+1,p-1}(x) / (t_{m+p+1} - t_{m+1}) ],

    where a quotient with a zero denominator (a repeated knot) is zero. The functions are
    right-continuous, zero outside the knots, and NaN where x is not finite.

    Args:
        x: points, (...).
        knots: t, (n_knots,), converted to the precision of x.
        degree: k, at least 0.
        order: ν; zero everywhere for ν > k.
        xp: the array namespace, `numpy` or `jax.numpy`.

    Returns:
        (n_knots - k - 1, ...), the functions along the first axis.

    Example:
        >>> import numpy as np
        >>> recursion(np.array([0.5, 1.0]), [0.0, 1.0, 2.0], degree=1, order=0)
        array([[0.5, 1. ]])
    """
    t = xp.asarray(knots, x.dtype).reshape(-1, *[1] * x.ndim)
    x = x[None]
    if order > degree:
        return xp.zeros_like(x * t[: -degree - 1]) + 0.0 * x
    B = xp.where((t[:-1] <= x) & (x < t[1:]), xp.ones_like(x), xp.zeros_like(x))
    for p in range(1, degree - order + 1):
        left = (x - t[: -p - 1]) * _reciprocal(t[p:-1] - t[: -p - 1], xp)
        right = (t[p + 1 :] - x) * _reciprocal(t[p + 1 :] - t[1:-p], xp)
        B = left * B[:-1] + right * B[1:]
    for p in range(degree - order + 1, degree + 1):
        left = _reciprocal(t[p:-1] - t[: -p - 1], xp)
        right = _reciprocal(t[p + 1 :] - t[1:-p], xp)
        B = p * (left * B[:-1] - right * B[1:])
    return B + 0.0 * x  # NaN where x is not finite


def check_knots(knots: Any, degree: int) -> Float[np.ndarray, " n_knots"]:
    """The knots as a float64 vector, or an error that says what they must be."""
    requirement = f"a vector of at least {degree + 2} finite non-decreasing numbers"
    try:
        t = np.asarray(knots, dtype=np.float64)
    except (TypeError, ValueError):
        raise must("'knots'", requirement, knots) from None
    if t.ndim != 1 or t.size < degree + 2 or not np.isfinite(t).all() or (np.diff(t) < 0).any():
        raise must("'knots'", requirement, knots)
    return t


def _reciprocal(d: Any, xp: ModuleType) -> Any:
    safe = xp.where(d == 0, xp.ones_like(d), d)
    return xp.where(d == 0, xp.zeros_like(d), 1.0 / safe)
