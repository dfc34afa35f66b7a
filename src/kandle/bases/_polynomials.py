"""Polynomials by a three-term recurrence, with the derivatives of every order."""

import math
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Float

from kandle._errors import must
from kandle.bases._basis import Basis, check_count
from kandle.bases._domain import check_domain
from kandle.bases._squash import Series, check_squash, combine, multiply, squashed


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
        check_squash(self.squash)
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
        return np.array(self.domain) if self.squash == "clip" else np.empty(0)

    def table(self, x: Float[Any, "..."], order: int, xp: ModuleType) -> Float[Any, "n_basis ..."]:
        u = squashed(x, self.domain, self.squash, order, xp)
        one = xp.ones_like(x) + 0.0 * x
        previous: Series = [one, *[None] * order]
        current: Series = u
        columns = [previous] * self.constant + [current]
        for n in range(1, self.degree):
            a, b = self.recurrence(n)
            previous, current = current, combine(a, multiply(u, current), -b, previous)
            columns.append(current)
        # 0 · x keeps NaN where x is not finite.
        return xp.stack(
            [0.0 * x if f[order] is None else f[order] * math.factorial(order) for f in columns]
        )
