"""The LeCun-inspired schemes (Eqs. 2-4, Appendix A): outputs have the variance of the inputs."""

import math
from dataclasses import dataclass
from typing import Literal

from kandle._errors import must
from kandle.bases import Moments
from kandle.init._scheme import Scales, Scheme, check_number, check_reached


@dataclass(frozen=True)
class LeCun(Scheme):
    """Each of the T = n_basis + 1 terms of an edge carries the same share of Var(x).

        σ_r = √( Var(x) / (n_in T μ_R⁽⁰⁾) ),    σ_b = √( Var(x) / (n_in T μ_B⁽⁰⁾) )

    with μ_R⁽⁰⁾ = E[R(x)²] and μ_B⁽⁰⁾ = E[B_m(x)²] over inputs and m. Without a residual
    T = n_basis. A spline has n_basis = G + k functions.

    Args:
        normalized: False is LeCun-numerical. True is LeCun-normalized: the layer standardises
            its basis functions (Eq. 4), so μ_B⁽⁰⁾ = 1.
        split: "equal" as above; "half" gives one half of the variance to the residual and the
            other half to the basis functions together.
        gain: multiplies both standard deviations.

    Example:
        >>> sigma_r, sigma_b = LeCun(normalized=True).scales(n_in=4, n_out=4, grid=5)
        >>> round(sigma_b, 6)  # (1/√3) / √(4 · 9)
        0.096225
    """

    normalized: bool = False  # pyright: ignore[reportIncompatibleMethodOverride]
    split: Literal["equal", "half"] = "equal"
    gain: float = 1.0

    def __post_init__(self):
        if not isinstance(self.normalized, bool):
            raise must("The 'normalized' parameter of LeCun", "True or False", self.normalized)
        if self.split not in ("equal", "half"):
            raise must("The 'split' parameter of LeCun", "'equal' or 'half'", self.split)
        check_number(self, "gain", positive=True)

    @property
    def name(self) -> str:
        return "lecun-normalized" if self.normalized else "lecun-numerical"

    @property
    def label(self) -> str:
        return "LeCun–normalized" if self.normalized else "LeCun–numerical"

    @property
    def color(self) -> str:
        return "#CC79A7" if self.normalized else "#E69F00"

    def scales_from_moments(self, n_in: int, n_out: int, moments: Moments) -> Scales:
        mu_B0 = 1.0 if self.normalized else check_reached(moments.mu_B0, "E[B^2]")
        variance = self.gain**2 * moments.variance / n_in
        if moments.mu_R0 is None:
            return None, math.sqrt(variance / (moments.n_basis * mu_B0))

        mu_R0 = check_reached(moments.mu_R0, "E[R^2]")
        if self.split == "half":
            share_r, share_b = variance / 2, variance / (2 * moments.n_basis)
        else:
            share_r = share_b = variance / moments.terms
        return math.sqrt(share_r / mu_R0), math.sqrt(share_b / mu_B0)
