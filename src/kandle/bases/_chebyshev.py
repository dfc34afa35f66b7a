"""Chebyshev polynomials of the first kind."""

from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from kandle._errors import must
from kandle.bases._basis import Basis, check_count
from kandle.bases._domain import check_domain
from kandle.bases._polynomials import polynomial_breakpoints, polynomial_table
from kandle.bases._squash import check_squash


@dataclass(frozen=True)
class Chebyshev(Basis):
    """B_m(x) = T_m(s(x)), m = 1, …, D, with inputs squashed to [-1, 1].

        T_0 = 1,    T_1(u) = u,    T_{n+1}(u) = 2u T_n(u) - T_{n-1}(u)

    For any input |T_m| ≤ 1: with z = (2x - lo - hi) / (hi - lo), s(x) is tanh(z) or z clipped to
    [-1, 1]. Derivatives of every order follow from the recurrence in power series.

    Args:
        degree: D, the highest degree; also the number of functions, unless `constant` is true.
        domain: (lo, hi), which is mapped to [-1, 1].
        squash: "tanh", which never reaches ±1, as in ChebyKAN and jaxKAN; or "clip", which leaves
            inputs inside the domain as they are: the edge functions are then polynomials there and
            constant outside.
        constant: whether P_0 = 1 is one of the functions. A layer has a bias, so it is left out by
            default.

    Example:
        >>> Chebyshev(degree=3, squash="clip").values(0.5)
        array([ 0.5, -0.5, -1. ])
    """

    name: ClassVar[str] = "chebyshev"

    degree: int = 8
    domain: tuple[float, float] = (-1.0, 1.0)  # pyright: ignore[reportIncompatibleMethodOverride]
    squash: str = "tanh"
    constant: bool = False

    def __post_init__(self):
        object.__setattr__(self, "degree", check_count("'degree' of Chebyshev", self.degree))
        object.__setattr__(self, "domain", check_domain(self.domain))
        check_squash(self.squash)
        if not isinstance(self.constant, bool):
            raise must("'constant' of Chebyshev", "True or False", self.constant)

    @property
    def n_basis(self) -> int:
        return self.degree + self.constant

    @property
    def breakpoints(self) -> Float[np.ndarray, " n_breakpoints"]:
        return polynomial_breakpoints(self.domain, self.squash)

    def table(self, x: Float[Any, "..."], order: int, xp: ModuleType) -> Float[Any, "n_basis ..."]:
        return polynomial_table(
            x,
            lambda n: (2.0, 1.0),
            self.degree,
            self.constant,
            self.domain,
            self.squash,
            order,
            xp,
        )
