"""The Cox-de Boor recursion: the reference that everything else is compared with."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, ArrayLike, Float

from kandle._errors import must
from kandle.splines._basis import as_floating, check_order


def cox_de_boor(
    x: Float[ArrayLike, "..."], knots: Float[ArrayLike, " n_knots"], degree: int, order: int = 0
) -> Float[Array, "... n_basis"]:
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
        knots: t, (n_knots,).
        degree: k, at least 0.
        order: ν; zero everywhere for ν > k.

    Returns:
        (..., n_knots - k - 1).
    """
    if not isinstance(knots, Tracer):
        check_knots(knots, degree)
    x = as_floating(x)
    return _compiled(x, jnp.asarray(knots, x.dtype), degree, check_order(order), jnp)


def check_knots(knots: Any, degree: int) -> np.ndarray:
    """The knots as a float64 vector, or an error that says what they must be."""
    t = np.asarray(knots, dtype=np.float64)
    requirement = f"a vector of at least {degree + 2} finite non-decreasing numbers"
    if t.ndim != 1 or t.size < degree + 2 or not np.isfinite(t).all() or (np.diff(t) < 0).any():
        raise must("'knots'", requirement, knots)
    return t


def recursion(x: Any, t: Any, degree: int, order: int, xp: Any) -> Any:
    """The recursion above over an array namespace: `jax.numpy`, or `numpy` for true float64."""
    x = x[..., None]
    if order > degree:
        return xp.zeros_like(x * t[: -degree - 1]) + 0.0 * x
    B = xp.where((t[:-1] <= x) & (x < t[1:]), xp.ones_like(x), xp.zeros_like(x))
    for p in range(1, degree - order + 1):
        left = (x - t[: -p - 1]) * _reciprocal(t[p:-1] - t[: -p - 1], xp)
        right = (t[p + 1 :] - x) * _reciprocal(t[p + 1 :] - t[1:-p], xp)
        B = left * B[..., :-1] + right * B[..., 1:]
    for p in range(degree - order + 1, degree + 1):
        left = _reciprocal(t[p:-1] - t[: -p - 1], xp)
        right = _reciprocal(t[p + 1 :] - t[1:-p], xp)
        B = p * (left * B[..., :-1] - right * B[..., 1:])
    return B + 0.0 * x  # NaN where x is not finite


_compiled = jax.jit(recursion, static_argnums=(2, 3, 4), inline=True)


def _reciprocal(d: Any, xp: Any) -> Any:
    safe = xp.where(d == 0, xp.ones_like(d), d)
    return xp.where(d == 0, xp.zeros_like(d), 1.0 / safe)
