"""The initialization of the original KAN formulation (Section 2.1)."""

import math
from dataclasses import dataclass
from typing import ClassVar

from kandle.bases import Moments
from kandle.init._scheme import Scales, Scheme
from kandle.init._weights import Law


@dataclass(frozen=True)
class Baseline(Scheme):
    """Glorot-uniform residual weights and small normal basis weights, whatever the basis.

        r ~ U(±√(6 / (n_in + n_out))),    b ~ N(0, 0.1²)

    `scales` reports the standard deviation of that uniform law, σ_r = √(2 / (n_in + n_out)).

    Example:
        >>> Baseline().scales(n_in=1, n_out=1, grid=5)
        (1.0, 0.1)
    """

    residual_law: ClassVar[Law] = "uniform"
    name: ClassVar[str] = "baseline"  # pyright: ignore
    label: ClassVar[str] = "Baseline"  # pyright: ignore
    color: ClassVar[str] = "#4D4D4D"  # pyright: ignore

    def scales_from_moments(self, n_in: int, n_out: int, moments: Moments) -> Scales:
        sigma_r = math.sqrt(2.0 / (n_in + n_out))
        return (None if moments.mu_R0 is None else sigma_r), 0.1
