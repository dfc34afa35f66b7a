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
from kandle.bases._recursion import check_knots, recursion
from kandle.bases._sample import quantile_knots, sample_values

# Beyond any use, and before the knots of a degree in a damaged file fill the memory.
_MAX_DEGREE = 100


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
        t = check_knots(self.knots, 0)
        h = np.diff(t)
        if self.left is None and not h[0] > 0:
            raise must("'knots' of Knots", "increasing where no 'left' is given", self.knots)
        if self.right is None and not h[-1] > 0:
            raise must("'knots' of Knots", "increasing where no 'right' is given", self.knots)
        steps = np.arange(1, k + 1)
        left = t[0] - steps[::-1] * h[0] if self.left is None else self.left
        right = t[-1] + steps * h[-1] if self.right is None else self.right
        for name, outer in (("left", left), ("right", right)):
            if np.shape(outer) != (k,):
                raise must(f"'{name}' of Knots", f"{k} numbers, one per degree", outer)
        full = check_knots([*left, *t, *right], k)
        object.__setattr__(self, "degree", k)
        for name, part in (
            ("left", full[:k]),
            ("knots", full[k : len(full) - k]),
            ("right", full[len(full) - k :]),
        ):
            object.__setattr__(self, name, tuple(part.tolist()))

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
        t = check_knots(knots, k)
        if len(t) < 2 * k + 2:
            raise must("'knots' of Knots.from_full", f"at least {2 * k + 2} numbers", knots)
        end = len(t) - k
        inner, left, right = (tuple(part.tolist()) for part in (t[k:end], t[:k], t[end:]))
        return cls(inner, k, left, right)

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
        return cls(tuple(quantile_knots(sample_values(x), grid).tolist()), degree)

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
