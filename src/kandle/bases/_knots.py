"""B-splines on knots of any spacing."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from kandle._errors import must
from kandle.bases._basis import Basis, check_count
from kandle.bases._bspline import recursion, sample_values, span

# Beyond any use, and before the knots of a degree in a damaged file fill the memory.
_MAX_DEGREE = 100

# How much of equal intervals is mixed into quantiles, so that repeated values leave them apart.
_EQUAL = 0.02


@dataclass(frozen=True)
class Knots(Basis):
    """The B-splines of degree k with given breakpoints t_0 < … < t_G on the domain [t_0, t_G].

    As many functions as for a uniform grid, G + k. The knots continue k steps beyond either end,
    each as long as the outermost interval on that side,

        t_{-j} = t_0 - j (t_1 - t_0),    t_{G+j} = t_G + j (t_G - t_{G-1}),    j = 1, …, k,

    so that the functions sum to one on the domain, and equally spaced breakpoints give `BSpline`.
    Outside the outermost knots all functions are zero; derivatives of order above k are zero.

    Args:
        knots: the breakpoints, at least two.
        degree: k, from 0 to 100.
        left, right: the k knots before t_0 and after t_G, in increasing order; None continues the
            breakpoints as above.

    Example:
        >>> basis = Knots([-1.0, -0.2, 0.0, 0.2, 1.0])
        >>> basis.n_basis, basis.domain
        (7, (-1.0, 1.0))
        >>> round(float(basis.values(0.1).sum()), 12)
        1.0
    """

    name: ClassVar[str] = "knots"

    knots: tuple[float, ...]
    degree: int = 3
    left: tuple[float, ...] | None = None
    right: tuple[float, ...] | None = None

    def __post_init__(self):
        k = check_count("'degree' of Knots", self.degree, 0)
        if k > _MAX_DEGREE:
            raise must("'degree' of Knots", f"at most {_MAX_DEGREE}", k)
        t = _check_knots(self.knots, 0)
        h = np.diff(t)
        if self.left is None and not h[0] > 0:
            raise must("'knots' of Knots", "increasing where no 'left' is given", self.knots)
        if self.right is None and not h[-1] > 0:
            raise must("'knots' of Knots", "increasing where no 'right' is given", self.knots)

        # Outside of the breakpoints, the outermost intervals go on unless other knots are given.
        steps = np.arange(1, k + 1)
        left: Any = self.left
        if left is None:
            left = t[0] - steps[::-1] * h[0]
        right: Any = self.right
        if right is None:
            right = t[-1] + steps * h[-1]
        for name, outer in (("left", left), ("right", right)):
            if np.shape(outer) != (k,):
                raise must(f"'{name}' of Knots", f"{k} numbers, one per degree", outer)

        full = _check_knots([*left, *t, *right], k).tolist()
        end = len(full) - k
        object.__setattr__(self, "degree", k)
        object.__setattr__(self, "left", tuple(full[:k]))
        object.__setattr__(self, "knots", tuple(full[k:end]))
        object.__setattr__(self, "right", tuple(full[end:]))

    @classmethod
    def from_full(cls, knots: Sequence[float] | np.ndarray, degree: int = 3) -> "Knots":
        """The B-splines on a full knot vector, with the k knots beyond either end given too.

        The domain reaches from knot k to the k-th before the last. The knots may repeat, as they do
        at the ends of a clamped spline. The functions are continuous from the right, so those of a
        clamped spline are all zero at the upper end of the domain itself: choose a last knot above
        the largest input.

        Example:
            >>> Knots.from_full([-1.5, -1.0, 0.0, 1.0, 1.5], degree=1).domain
            (-1.0, 1.0)
        """
        k = check_count("'degree' of Knots", degree, 0)
        t = _check_knots(knots, k).tolist()
        if len(t) < 2 * k + 2:
            raise must("'knots' of Knots.from_full", f"at least {2 * k + 2} numbers", knots)
        end = len(t) - k
        return cls(tuple(t[k:end]), k, left=tuple(t[:k]), right=tuple(t[end:]))

    @classmethod
    def from_sample(cls, x: Any, grid: int = 5, degree: int = 3) -> "Knots":
        """The splines with as many values of a sample in one interval as in another.

        2 % of equal intervals are mixed in, so that repeated values leave the breakpoints apart.
        Equal values are treated as in `BSpline.from_sample`.

        Example:
            >>> Knots.from_sample([0.0, 0.1, 0.2, 10.0], grid=2).domain
            (0.0, 10.0)
        """
        check_count("'grid'", grid)
        knots = _quantile_knots(sample_values(x), grid)
        return cls(tuple(knots.tolist()), degree)

    @property
    def n_basis(self) -> int:
        """G + k, the number of basis functions."""
        return len(self.knots) - 1 + self.degree

    @property
    def domain(self) -> tuple[float, float]:
        return self.knots[0], self.knots[-1]

    @functools.cached_property
    def full(self) -> Float[np.ndarray, " n_knots"]:
        """All G + 2k + 1 knots in float64, read-only."""
        full = np.array([*(self.left or ()), *self.knots, *(self.right or ())])
        full.flags.writeable = False
        return full

    @property
    def breakpoints(self) -> Float[np.ndarray, " n_knots"]:
        return self.full

    def table(self, x: Float[Any, "..."], order: int, xp: ModuleType) -> Float[Any, "n_basis ..."]:
        return recursion(x, self.full, self.degree, order, xp)


def _check_knots(knots: Any, degree: int) -> Float[np.ndarray, " n_knots"]:
    """The knots as a float64 vector, or an error that says what they must be."""
    requirement = f"a vector of at least {degree + 2} finite non-decreasing numbers"
    try:
        t = np.asarray(knots, dtype=np.float64)
    except (TypeError, ValueError):
        raise must("'knots'", requirement, knots) from None
    is_vector = t.ndim == 1 and t.size >= degree + 2
    if not is_vector or not np.isfinite(t).all() or (np.diff(t) < 0).any():
        raise must("'knots'", requirement, knots)
    return t


def _quantile_knots(values: np.ndarray, grid: int) -> np.ndarray:
    """Breakpoints with the same share of the values in every interval, kept apart from each other.

    A mixture of 98 % quantiles and 2 % equal intervals, so that the shortest interval is at least
    a fiftieth of an equal one however often a value repeats.
    """
    lo, hi = span(values)
    equal = np.linspace(lo, hi, grid + 1)
    inside = np.quantile(np.clip(values, lo, hi), np.linspace(0.0, 1.0, grid + 1))
    inside[0], inside[-1] = lo, hi
    return (1.0 - _EQUAL) * inside + _EQUAL * equal
