"""Chebyshev polynomials of the first kind."""

from dataclasses import dataclass
from typing import ClassVar

from kandle.bases._polynomials import Polynomials


@dataclass(frozen=True)
class Chebyshev(Polynomials):
    """B_m(x) = T_m(s(x)), m = 1, …, D, with inputs squashed to [-1, 1].

        T_0 = 1,    T_1(u) = u,    T_{n+1}(u) = 2u T_n(u) - T_{n-1}(u)

    With z = (2x - lo - hi) / (hi - lo), s(x) is tanh(z) or z clipped to [-1, 1], so that
    |T_m| ≤ 1.

    Args:
        degree: D, the highest degree; also the number of functions, unless `constant` is true.
        domain: (lo, hi), which is mapped to [-1, 1].
        squash: "tanh" or "clip".
        constant: whether T_0 = 1 is one of the functions.

    Example:
        >>> Chebyshev(degree=3, squash="clip").values(0.5)
        array([ 0.5, -0.5, -1. ])
    """

    name: ClassVar[str] = "chebyshev"

    def recurrence(self, n: int) -> tuple[float, float]:
        return 2.0, 1.0
