"""Legendre polynomials."""

from dataclasses import dataclass
from typing import ClassVar

from kandle.bases._polynomials import Polynomials


@dataclass(frozen=True)
class Legendre(Polynomials):
    """B_m(x) = P_m(s(x)), m = 1, …, D, with inputs squashed to [-1, 1].

        P_0 = 1,    P_1(u) = u,    (n + 1) P_{n+1}(u) = (2n + 1) u P_n(u) - n P_{n-1}(u)

    With z = (2x - lo - hi) / (hi - lo), s(x) is tanh(z) or z clipped to [-1, 1], so that
    |P_m| ≤ 1.

    Args:
        degree: D, the highest degree; also the number of functions, unless `constant` is true.
        domain: (lo, hi), which is mapped to [-1, 1].
        squash: "tanh" or "clip".
        constant: whether P_0 = 1 is one of the functions.

    Example:
        >>> Legendre(degree=3, squash="clip").values(0.5)
        array([ 0.5   , -0.125 , -0.4375])
    """

    name: ClassVar[str] = "legendre"

    def recurrence(self, n: int) -> tuple[float, float]:
        return (2 * n + 1) / (n + 1), n / (n + 1)
