"""Polynomials by a three-term recurrence, of inputs brought to [-1, 1], where they are bounded.

A function of x + ε is represented by its Taylor coefficients in ε, [f(x), f'(x), f''(x)/2, …], with
None for a coefficient that is zero everywhere. Sums and products of such series give derivatives of
every order without writing any of them down.
"""

import math
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Float

from kandle._errors import must, unknown
from kandle.bases._basis import Basis, check_count, check_domain

SQUASHES = ("tanh", "clip")

Series = list[Any]


@dataclass(frozen=True)
class Polynomials(Basis):
    """B_m(x) = P_m(s(x)), m = 1, …, D, of a family with

        P_0 = 1,    P_1(u) = u,    P_{n+1}(u) = a_n u P_n(u) - b_n P_{n-1}(u)

    With z = (2x - lo - hi) / (hi - lo), s(x) is tanh(z) or z clipped to [-1, 1]. Derivatives of
    every order follow from the recurrence in power series.

    Args:
        degree: D, the highest degree; also the number of functions, unless `constant` is true.
        domain: (lo, hi), which is mapped to [-1, 1].
        squash: "tanh", which never reaches ±1, as in ChebyKAN and jaxKAN; or "clip", which leaves
            inputs inside the domain as they are: the edge functions are then polynomials there and
            constant outside.
        constant: whether P_0 = 1 is one of the functions. A layer has a bias, so it is left out by
            default.
    """

    degree: int = 8
    domain: tuple[float, float] = (-1.0, 1.0)  # pyright: ignore[reportIncompatibleMethodOverride]
    squash: str = "tanh"
    constant: bool = False

    def __post_init__(self):
        kind = type(self).__name__
        object.__setattr__(self, "degree", check_count(f"'degree' of {kind}", self.degree))
        object.__setattr__(self, "domain", check_domain(self.domain))
        if self.squash not in SQUASHES:
            raise unknown("squash", self.squash, SQUASHES)
        if not isinstance(self.constant, bool):
            raise must(f"'constant' of {kind}", "True or False", self.constant)

    def recurrence(self, n: int) -> tuple[float, float]:
        """(a_n, b_n)."""
        raise NotImplementedError

    @property
    def n_basis(self) -> int:
        return self.degree + self.constant

    @property
    def breakpoints(self) -> Float[np.ndarray, " n_breakpoints"]:
        # Clipping bends the functions at the ends of the domain; tanh leaves them smooth.
        if self.squash == "clip":
            return np.array(self.domain)
        return np.empty(0)

    def table(self, x: Float[Any, "..."], order: int, xp: ModuleType) -> Float[Any, "n_basis ..."]:
        u = _squashed(x, self.domain, self.squash, order, xp)
        one = xp.ones_like(x) + 0.0 * x
        previous: Series = [one, *[None] * order]
        current: Series = u
        columns = [previous] * self.constant + [current]
        for n in range(1, self.degree):
            a, b = self.recurrence(n)
            previous, current = current, _combine(a, _multiply(u, current), -b, previous)
            columns.append(current)
        # The coefficient of ε^ν is the derivative of order ν divided by ν!.
        derivatives = []
        for series in columns:
            if series[order] is None:
                derivatives.append(0.0 * x)  # which keeps NaN where x is not finite
            else:
                derivatives.append(series[order] * math.factorial(order))
        return xp.stack(derivatives)


# --- truncated power series -----------------------------------------------------------------------


def _squashed(
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
        # Straight pieces: every derivative beyond the first is zero.
        series = [xp.clip(z, -1.0, 1.0) + nan, inside + nan, *[None] * order]
        return series[: order + 1]
    # t' = 1 - t² gives each coefficient of tanh from those before it.
    t: Series = [xp.tanh(z) + nan]
    for k in range(order):
        one = 1.0 if k == 0 else 0.0
        square = sum(t[i] * t[k - i] for i in range(k + 1))
        t.append(((one - square) / (k + 1)) * slope)
    return t


def _multiply(a: Series, b: Series) -> Series:
    """The product of two series of the same length."""
    product: Series = []
    for k in range(len(a)):
        terms = [a[i] * b[k - i] for i in range(k + 1) if a[i] is not None and b[k - i] is not None]
        product.append(sum(terms[1:], terms[0]) if terms else None)
    return product


def _combine(p: float, a: Series, q: float, b: Series) -> Series:
    """p a + q b of two series of the same length."""
    combined: Series = []
    for f, g in zip(a, b, strict=True):
        if f is None and g is None:
            combined.append(None)
        elif f is None:
            combined.append(q * g)
        elif g is None:
            combined.append(p * f)
        else:
            combined.append(p * f + q * g)
    return combined
