"""The empirical power law (Eq. 7): two exponents on the number of terms in an output's sum."""

from dataclasses import dataclass
from typing import ClassVar

from kandle._errors import must
from kandle.bases import Moments
from kandle.init._scheme import Scales, Scheme, check_number


@dataclass(frozen=True)
class PowerLaw(Scheme):
    """Standard deviations as powers of the number of terms in an output's sum (Eq. 1).

        σ_r = (1 / (n_in T))^α,    σ_b = (1 / (n_in T))^β,    T = n_basis + 1

    Without a residual each edge has one term less: T = n_basis. A spline has n_basis = G + k
    functions.

    Args:
        alpha: α, for the residual weights.
        beta: β, for the basis weights.

    Example:
        >>> PowerLaw(alpha=0.5, beta=1.0).scales(n_in=4, n_out=1, grid=5, degree=3)
        (0.16666666666666666, 0.027777777777777776)
    """

    name: ClassVar[str] = "power-law"  # pyright: ignore
    label: ClassVar[str] = "Power law"  # pyright: ignore
    color: ClassVar[str] = "#D55E00"  # pyright: ignore

    alpha: float = 0.25
    beta: float = 1.75

    def __post_init__(self):
        check_number(self, "alpha")
        check_number(self, "beta")

    def scales_from_moments(self, n_in: int, n_out: int, moments: Moments) -> Scales:
        terms = n_in * moments.terms
        try:
            sigma_r, sigma_b = (1 / terms) ** self.alpha, (1 / terms) ** self.beta
        except OverflowError:
            exponents = (self.alpha, self.beta)
            requirement = f"exponents of a finite power of 1/{terms}"
            raise must("'alpha' and 'beta' of PowerLaw", requirement, exponents) from None
        return (None if moments.mu_R0 is None else sigma_r), sigma_b
