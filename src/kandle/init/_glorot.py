"""The Glorot-inspired start (Eqs. 5-6, Appendix B): signals and gradients keep their variance."""

import math
from dataclasses import dataclass

from kandle.init._scheme import Scales, Scheme, check_number, check_reached
from kandle.splines import Moments


@dataclass(frozen=True)
class Glorot(Scheme):
    """LeCun's forward condition and its counterpart for gradients, balanced.

        σ_r = g √( 1/T · 2 / (n_in μ_R⁽⁰⁾ + n_out μ_R⁽¹⁾) ),
        σ_b = g √( 1/T · 2 / (n_in μ_B⁽⁰⁾ + n_out μ_B⁽¹⁾) ),    T = G + k + 1,

    with μ⁽⁰⁾ the mean square of R or B_m and μ⁽¹⁾ that of its derivative. Without a residual
    T = G + k.

    Args:
        gain: g; None is the inputs' standard deviation √Var(x), 1/√3 for U(-1, 1), with which
            the published results were made. 1.0 is Eq. 5 to the letter, which assumes
            inputs of unit variance.

    Example:
        >>> sigma_r, sigma_b = Glorot(gain=1.0).scales(n_in=8, n_out=8, grid=5, degree=3)
        >>> round(sigma_r, 6), round(sigma_b, 6)
        (0.259163, 0.218702)
    """

    gain: float | None = None

    def __post_init__(self):
        if self.gain is not None:
            check_number(self, "gain", positive=True)

    @property
    def name(self) -> str:
        return "glorot"

    def scales_from_moments(self, n_in: int, n_out: int, moments: Moments) -> Scales:
        gain = moments.std if self.gain is None else self.gain

        def sigma(mu_0: float, mu_1: float, what: str) -> float:
            mu = check_reached(n_in * mu_0 + n_out * mu_1, what)
            return gain * math.sqrt(1 / moments.terms * 2 / mu)

        sigma_b = sigma(moments.mu_B0, moments.mu_B1, "E[B^2]")
        if moments.mu_R0 is None or moments.mu_R1 is None:
            return None, sigma_b
        return sigma(moments.mu_R0, moments.mu_R1, "E[R^2]"), sigma_b
