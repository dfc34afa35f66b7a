"""The Glorot-inspired scheme (Eqs. 5-6, Appendix B): signals and gradients keep their variance."""

import math
from dataclasses import dataclass

from kandle._errors import must
from kandle.bases import Moments
from kandle.init._scheme import Scales, Scheme, check_number, check_reached


@dataclass(frozen=True)
class Glorot(Scheme):
    """LeCun's condition for signals and its counterpart for gradients, balanced.

        σ_r = g √( 1/T · 2 / (n_in μ_R⁽⁰⁾ + n_out μ_R⁽¹⁾) ),
        σ_b = g √( 1/T · 2 / (n_in μ_B⁽⁰⁾ + n_out μ_B⁽¹⁾) ),    T = n_basis + 1,

    with μ⁽⁰⁾ the mean square of R or B_m and μ⁽¹⁾ that of its derivative. Without a residual
    T = n_basis. A spline has n_basis = G + k functions.

    With `fine`, each basis function has its own variance,

        σ_b,m = g √( 1/T · 2 / (n_in μ_m⁽⁰⁾ + n_out μ_m⁽¹⁾) ),

    with μ_m⁽⁰⁾ = E[B_m²] and μ_m⁽¹⁾ = E[B_m′²] of that function alone, so that functions of high
    order or frequency, whose slopes are steep, get small weights. This is the refinement of the
    RGA-KAN paper, `glorot_fine` in jaxKAN.

    Args:
        gain: g; None is the inputs' standard deviation √Var(x), 1/√3 for U(-1, 1), as in the
            published results. 1.0 is Eq. 5 to the letter, which assumes inputs of unit variance.
        fine: whether σ_b is one number per basis function (`glorot-fine`) instead of one for all.

    Example:
        >>> sigma_r, sigma_b = Glorot(gain=1.0).scales(n_in=8, n_out=8, grid=5, degree=3)
        >>> round(sigma_r, 6), round(sigma_b, 6)
        (0.259163, 0.218702)
        >>> len(Glorot(fine=True).scales(n_in=8, n_out=8, grid=5, degree=3)[1])
        8
    """

    gain: float | None = None
    fine: bool = False

    def __post_init__(self):
        if self.gain is not None:
            check_number(self, "gain", positive=True)
        if not isinstance(self.fine, bool):
            raise must("The 'fine' parameter of Glorot", "True or False", self.fine)

    @property
    def name(self) -> str:
        return "glorot-fine" if self.fine else "glorot"

    @property
    def label(self) -> str:
        return "Glorot–fine" if self.fine else "Glorot"

    @property
    def color(self) -> str:
        return "#56B4E9" if self.fine else "#0072B2"

    def scales_from_moments(self, n_in: int, n_out: int, moments: Moments) -> Scales:
        gain = moments.std if self.gain is None else self.gain

        def sigma(mu_0: float, mu_1: float, what: str) -> float:
            mu = check_reached(n_in * mu_0 + n_out * mu_1, what)
            return gain * math.sqrt(1 / moments.terms * 2 / mu)

        sigma_b: float | tuple[float, ...]
        if self.fine:
            each = zip(moments.mu_B0_each, moments.mu_B1_each, strict=True)
            sigma_b = tuple(sigma(*mu, f"E[B_{m}^2]") for m, mu in enumerate(each))
            # Moments that were computed elsewhere may know the averages only.
            if len(sigma_b) != moments.n_basis:
                raise must("'moments' of Glorot(fine=True)", "known for every function", moments)
        else:
            sigma_b = sigma(moments.mu_B0, moments.mu_B1, "E[B^2]")
        if moments.mu_R0 is None or moments.mu_R1 is None:
            return None, sigma_b
        return sigma(moments.mu_R0, moments.mu_R1, "E[R^2]"), sigma_b
