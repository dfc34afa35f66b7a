"""B-splines on uniform knots, in closed form."""

import functools
import numbers
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from kandle._errors import must
from kandle.bases._basis import Basis, check_count, real_points
from kandle.bases._cardinal import local_taps
from kandle.bases._domain import check_domain
from kandle.bases._recursion import recursion
from kandle.bases._sample import sample_values, span

MAX_DEGREE = 5


@dataclass(frozen=True)
class BSpline(Basis):
    """The G + k B-splines of degree k on G equal intervals of a domain [lo, hi].

    The knots continue k steps beyond either end, t_i = lo + (i - k) h with h = (hi - lo) / G and
    i = 0, …, G + 2k, so that the functions sum to one everywhere on the domain. Function m is
    supported on [t_m, t_{m+k+1}), so beyond k steps outside the domain all functions are zero.
    Derivatives of order above k are zero.

    Args:
        grid: G, the number of intervals in the domain.
        degree: k, from 1 to 5.
        domain: (lo, hi).

    Example:
        >>> BSpline(grid=5, degree=3).n_basis
        8
    """

    name: ClassVar[str] = "bspline"

    grid: int = 5
    degree: int = 3
    domain: tuple[float, float] = (-1.0, 1.0)  # pyright: ignore[reportIncompatibleMethodOverride]

    def __post_init__(self):
        degree = self.degree
        grid = check_count("'grid'", self.grid)
        if isinstance(degree, bool) or not isinstance(degree, numbers.Integral):
            raise must("'degree'", f"an integer from 1 to {MAX_DEGREE}", degree)
        if not 1 <= degree <= MAX_DEGREE:
            raise must("'degree'", f"an integer from 1 to {MAX_DEGREE}", degree)
        object.__setattr__(self, "grid", grid)
        object.__setattr__(self, "degree", int(degree))
        object.__setattr__(self, "domain", check_domain(self.domain, grid))

    @classmethod
    def from_sample(cls, x: Any, grid: int = 5, degree: int = 3) -> "BSpline":
        """The uniform splines whose domain spans a sample, an array of any shape.

        Values that are equal, or differ by at most a millionth of their size or of one, whichever
        is larger, get a domain as wide as that size around them.

        Example:
            >>> BSpline.from_sample([0.0, 3.0, 1.0], grid=4).domain
            (0.0, 3.0)
            >>> BSpline.from_sample([0.25, 0.25]).domain
            (-0.25, 0.75)
        """
        return cls(grid, degree, span(sample_values(x)))

    @property
    def n_basis(self) -> int:
        """G + k, the number of basis functions."""
        return self.grid + self.degree

    @property
    def step(self) -> float:
        """h, the distance between neighbouring knots."""
        lo, hi = self.domain
        return (hi - lo) / self.grid

    @functools.cached_property
    def knots(self) -> Float[np.ndarray, " n_knots"]:
        """The G + 2k + 1 knots in float64, read-only."""
        lo, hi = self.domain
        k, G = self.degree, self.grid
        # Weighting both ends, rather than adding steps to one, makes `lo` and `hi` knots exactly.
        w = np.arange(-k, G + k + 1) / G
        knots = (1.0 - w) * lo + w * hi
        knots.flags.writeable = False
        return knots

    @property
    def breakpoints(self) -> Float[np.ndarray, " n_knots"]:
        return self.knots

    def values(self, x: Any, order: int = 0, xp: ModuleType = np) -> Float[Any, "... n_basis"]:
        x = real_points(x, xp)
        B = recursion(x, self.knots, self.degree, self.check_order(order), xp)
        return xp.moveaxis(B, 0, -1)

    def table(self, x: Float[Any, "..."], order: int, xp: ModuleType) -> Float[Any, "n_basis ..."]:
        cell, u = locate(x, self, xp)
        m = xp.arange(self.n_basis, dtype=x.dtype).reshape(-1, *[1] * x.ndim)
        tap = m - cell
        # 0 · x is zero where x is finite and NaN where it is not: no tap matches there.
        table = xp.broadcast_to(0.0 * x, tap.shape)
        for j, p in enumerate(local_taps(u, self.degree, order, xp)):
            table = xp.where(tap == j, p * self.step**-order, table)
        return table


def locate(
    x: Float[Any, "..."], basis: BSpline, xp: ModuleType = np
) -> tuple[Float[Any, "..."], Float[Any, "..."]]:
    """Cell and local coordinate of each point: x = lo + (cell + u) h, 0 ≤ u < 1.

    Cells 0, …, G - 1 cover the domain, -k, …, G + k - 1 the interval between the outermost knots.
    They are returned as whole floating-point numbers, which no x however large can overflow.
    """
    lo, _ = basis.domain
    s = (x - lo) * (1.0 / basis.step)
    cell = xp.floor(s)
    return cell, s - cell
