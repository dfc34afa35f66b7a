"""Inputs brought to [-1, 1], where polynomials are bounded, as truncated power series.

A function of x + ε is represented by its Taylor coefficients in ε, [f(x), f'(x), f''(x)/2, …], with
None for a coefficient that is zero everywhere. Sums and products of such series give derivatives of
every order without writing any of them down.
"""

from types import ModuleType
from typing import Any

from kandle._errors import unknown

SQUASHES = ("tanh", "clip")

Series = list[Any]


def check_squash(squash: str) -> str:
    if squash not in SQUASHES:
        raise unknown("squash", squash, SQUASHES)
    return squash


def squashed(
    x: Any, domain: tuple[float, float], squash: str, order: int, xp: ModuleType
) -> Series:
    """The series of s(x + ε) up to ε^order, with values in [-1, 1]; NaN where x is not finite.

    With z = (2x - lo - hi) / (hi - lo), which maps the domain to [-1, 1], s is tanh(z) for "tanh",
    and for "clip" z itself inside the domain and ±1 outside.
    """
    lo, hi = domain
    slope = 2.0 / (hi - lo)
    z = (x - 0.5 * (lo + hi)) * slope
    nan = 0.0 * x  # zero, or NaN where x is not finite
    if squash == "clip":
        inside = xp.where((z >= -1.0) & (z <= 1.0), slope, 0.0).astype(x.dtype)
        return [xp.clip(z, -1.0, 1.0) + nan, inside + nan, *[None] * order][: order + 1]
    # t' = 1 - t² gives each coefficient of tanh from those before it.
    t: Series = [xp.tanh(z) + nan]
    for k in range(order):
        square = sum(t[i] * t[k - i] for i in range(k + 1))
        t.append((((1.0 if k == 0 else 0.0) - square) / (k + 1)) * slope)
    return t


def multiply(a: Series, b: Series) -> Series:
    """The product of two series of the same length."""
    product: Series = []
    for k in range(len(a)):
        terms = [a[i] * b[k - i] for i in range(k + 1) if a[i] is not None and b[k - i] is not None]
        product.append(sum(terms[1:], terms[0]) if terms else None)
    return product


def combine(p: float, a: Series, q: float, b: Series) -> Series:
    """p a + q b of two series of the same length."""
    combined: Series = []
    for f, g in zip(a, b, strict=True):
        if f is None or g is None:
            combined.append(q * g if f is None and g is not None else None if f is None else p * f)
        else:
            combined.append(p * f + q * g)
    return combined
