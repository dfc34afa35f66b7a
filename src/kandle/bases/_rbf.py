"""Gaussian radial basis functions on uniform centres."""

import math
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from kandle.bases._basis import Basis, check_count, check_domain, check_positive


@dataclass(frozen=True)
class RBF(Basis):
    """B_m(x) = exp(-z_m²/2) with z_m = (x - c_m) / w, on M equally spaced centres c_1, …, c_M.

    The first centre is lo, the last hi. The derivative of order ν is (-1/w)^ν He_ν(z_m) B_m(x) with
    the Hermite polynomials He_0 = 1, He_1(z) = z, He_{n+1}(z) = z He_n(z) - n He_{n-1}(z). Outside
    the domain the functions decay to zero.

    Args:
        centers: M, at least 2.
        domain: (lo, hi).
        width: w; None is FastKAN's, the distance between centres divided by √2.

    Example:
        >>> RBF(centers=3, width=1.0).values(0.0).round(4)
        array([0.6065, 1.    , 0.6065])
    """

    name: ClassVar[str] = "rbf"

    centers: int = 8
    domain: tuple[float, float] = (-1.0, 1.0)  # pyright: ignore[reportIncompatibleMethodOverride]
    width: float | None = None

    def __post_init__(self):
        centers = check_count("'centers' of RBF", self.centers, 2)
        lo, hi = check_domain(self.domain, centers)
        fastkan = (hi - lo) / (centers - 1) / math.sqrt(2.0)
        width = check_positive(
            "'width' of RBF",
            fastkan if self.width is None else self.width,
            "a positive finite number, or None",
        )
        object.__setattr__(self, "centers", centers)
        object.__setattr__(self, "domain", (lo, hi))
        object.__setattr__(self, "width", width)

    @property
    def n_basis(self) -> int:
        return self.centers

    @property
    def breakpoints(self) -> Float[np.ndarray, " n_breakpoints"]:
        # The functions are smooth, but quadrature could miss peaks that are far apart and narrow.
        lo, hi = self.domain
        width = float(self.width)  # pyright: ignore[reportArgumentType]
        if 32 * width * (self.centers - 1) > hi - lo:
            return np.empty(0)
        centers = np.linspace(lo, hi, self.centers)
        return np.unique(np.add.outer(centers, width * np.arange(-8.0, 9.0, 4.0)))

    def table(self, x: Float[Any, "..."], order: int, xp: ModuleType) -> Float[Any, "n_basis ..."]:
        width = float(self.width)  # pyright: ignore[reportArgumentType]
        centers = xp.asarray(np.linspace(*self.domain, self.centers), x.dtype)
        z = (x - centers.reshape(-1, *[1] * x.ndim)) * (1.0 / width)
        hermite, previous = xp.ones_like(z), xp.zeros_like(z)
        for n in range(order):
            hermite, previous = z * hermite - n * previous, hermite
        # Where the exponential underflows, a Hermite polynomial may overflow: 0 · ∞ would be NaN.
        value = xp.exp(-0.5 * z * z)
        value = xp.where(value == 0, 0.0, hermite * value) * (-1.0 / width) ** order
        return value.astype(x.dtype) + 0.0 * x  # NaN where x is not finite
