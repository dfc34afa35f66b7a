"""Cosines and sines of integer multiples of one frequency."""

from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

from jaxtyping import Float

from kandle.bases._basis import Basis, check_count, check_domain, check_positive


@dataclass(frozen=True)
class Fourier(Basis):
    """cos(n ω x) for n = 1, …, K, then sin(n ω x) for the same n.

    The derivative of order ν of cos(nωx) is (nω)^ν cos(nωx + νπ/2), and likewise for sin. The
    functions are bounded everywhere and periodic with period 2π/ω, outside the domain too. The
    constant function is left out, since a layer has a bias.

    Args:
        order: K, the highest multiple; there are 2K functions.
        domain: (lo, hi), the interval that inputs are assumed to fill. It does not enter the
            functions.
        frequency: ω. With 1, as in FourierKAN and jaxKAN, inputs on [-1, 1] cover a third of the
            period, so that an edge function need not take the same value at both ends.

    Example:
        >>> import math
        >>> Fourier(order=1, frequency=math.pi).values(0.0)
        array([1., 0.])
    """

    name: ClassVar[str] = "fourier"

    order: int = 4
    domain: tuple[float, float] = (-1.0, 1.0)  # pyright: ignore[reportIncompatibleMethodOverride]
    frequency: float = 1.0

    def __post_init__(self):
        object.__setattr__(self, "order", check_count("'order' of Fourier", self.order))
        object.__setattr__(self, "domain", check_domain(self.domain))
        requirement = "a positive finite number"
        frequency = check_positive("'frequency' of Fourier", self.frequency, requirement)
        object.__setattr__(self, "frequency", frequency)

    @property
    def n_basis(self) -> int:
        return 2 * self.order

    def table(self, x: Float[Any, "..."], order: int, xp: ModuleType) -> Float[Any, "n_basis ..."]:
        angle = self.frequency * x
        c1, s1 = xp.cos(angle), xp.sin(angle)
        cosines, sines = [c1], [s1]
        for _ in range(self.order - 1):
            # Rotating by one more angle is faster than a cosine and a sine of every multiple.
            c, s = cosines[-1], sines[-1]
            cosines.append(c * c1 - s * s1)
            sines.append(s * c1 + c * s1)
        signs = ((1, 1), (-1, 1), (-1, -1), (1, -1))[order % 4]
        pair = (sines, cosines) if order % 2 else (cosines, sines)
        return xp.stack(
            [
                sign * (n * self.frequency) ** order * f
                for sign, functions in zip(signs, pair, strict=True)
                for n, f in enumerate(functions, 1)
            ]
        )
