"""The pieces of the cardinal B-spline: the closed form that uniform knots allow.

Write x = lo + (c + u) h with an integer cell c and a local coordinate 0 ≤ u < 1. Only the functions
m = c, …, c + k are non-zero there, and tap j is a fixed polynomial of u,

    B_{c+j}(x) = p_{k,j}(u),
    p_{k,j}(u) = [ (u + k - j) p_{k-1,j-1}(u) + (1 + j - u) p_{k-1,j}(u) ] / k,    p_{0,0} = 1,

the same for every cell, grid and domain. A derivative of order ν is p_{k,j}^{(ν)}(u) / h^ν.
"""

import functools
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Float

_Polynomial = tuple[Fraction, ...]  # lowest power first


def _shifted_sum(a: Fraction, p: _Polynomial, b: Fraction, q: _Polynomial) -> _Polynomial:
    """(a + u) p(u) + (b - u) q(u)."""
    constant = (*(a * pi + b * qi for pi, qi in zip(p, q, strict=True)), Fraction(0))
    linear = (Fraction(0), *(pi - qi for pi, qi in zip(p, q, strict=True)))
    return tuple(x + y for x, y in zip(constant, linear, strict=True))


def _pieces(k: int) -> list[_Polynomial]:
    if k == 0:
        return [(Fraction(1),)]
    zero = (Fraction(0),) * k
    below = [zero, *_pieces(k - 1), zero]  # below[j + 1] = p_{k-1,j}
    sums = (
        _shifted_sum(Fraction(k - j), below[j], Fraction(1 + j), below[j + 1]) for j in range(k + 1)
    )
    return [tuple(c / k for c in p) for p in sums]


@functools.cache
def cardinal_coefficients(degree: int, order: int = 0) -> Float[np.ndarray, "taps powers"]:
    """Coefficients of p_{k,j}^{(ν)}, exact before they are rounded to float64.

    Returns:
        (k + 1, k + 1 - ν): tap j in row j, the lowest power of u first; no columns for ν > k.
    """
    pieces = _pieces(degree)
    for _ in range(order):
        pieces = [tuple(i * c for i, c in enumerate(p))[1:] for p in pieces]
    table = np.array([[float(c) for c in p] for p in pieces]).reshape(degree + 1, -1)
    table.flags.writeable = False
    return table


def local_taps(
    u: Float[Any, "..."], degree: int, order: int = 0, xp: ModuleType = np
) -> tuple[Float[Any, "..."], ...]:
    """p_{k,0}^{(ν)}(u), …, p_{k,k}^{(ν)}(u) by Horner's rule, not yet divided by h^ν."""
    taps = []
    for coefficients in cardinal_coefficients(degree, order).tolist():
        p = xp.zeros_like(u)
        for c in reversed(coefficients):
            p = p * u + c
        taps.append(p)
    return tuple(taps)
