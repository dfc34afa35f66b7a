"""What a layer of another library is, as far as its start is concerned."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from kandle._errors import UserError, must

# From float64 points (N,) and an order of derivative, 0 or 1, to values (N,).
Residual = Callable[[np.ndarray, int], np.ndarray]


@dataclass(frozen=True, eq=False)
class SplineLayer:
    """A layer y_j = Σ_i [ r_ji R(x_i) + Σ_m b_jim B_im(x_i) ], whatever holds its weights.

    Args:
        n_in, n_out: its widths.
        knots: of every input, (n_in, n_basis + k + 1), non-decreasing; or one row for all.
        degree: k.
        residual: R and its derivative, or None.
    """

    n_in: int
    n_out: int
    knots: Float[np.ndarray, "*n_in n_knots"]
    degree: int
    residual: Residual | None

    def __post_init__(self):
        knots = np.atleast_2d(np.asarray(self.knots, np.float64))
        if len(knots) == 1:
            knots = np.repeat(knots, self.n_in, axis=0)
        if knots.ndim != 2 or len(knots) != self.n_in or knots.shape[1] < 2 * self.degree + 2:
            requirement = f"{self.n_in} rows of at least {2 * self.degree + 2} knots"
            raise must("'knots' of a SplineLayer", requirement, f"shape {knots.shape}")
        with np.errstate(invalid="ignore"):
            steps = np.diff(knots, axis=1)
        wrong = np.argwhere(~(np.isfinite(steps) & (steps >= 0)))
        if len(wrong):
            i, m = wrong[0]
            got = f"{knots[i, m]:g}, {knots[i, m + 1]:g} for input {i}"
            raise UserError(
                f"'knots' of a SplineLayer must be finite and non-decreasing. Got {got} instead."
            )
        object.__setattr__(self, "knots", knots)

    @property
    def n_basis(self) -> int:
        return self.knots.shape[1] - self.degree - 1

    def domain(self, i: int) -> tuple[float, float]:
        """The interval of input i on which its basis functions sum to one."""
        row = self.knots[i]
        return float(row[self.degree]), float(row[-self.degree - 1])
