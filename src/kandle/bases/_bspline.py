"""B-splines: on uniform knots in closed form, and on any knots by the Cox-de Boor recursion.

On uniform knots, write x = lo + (c + u) h with an integer cell c and a local coordinate
0 ≤ u < 1. Only the functions m = c, …, c + k are non-zero there, and tap j is a fixed polynomial
of u,

    B_{c+j}(x) = p_{k,j}(u),
    p_{k,j}(u) = [ (u + k - j) p_{k-1,j-1}(u) + (1 + j - u) p_{k-1,j}(u) ] / k,    p_{0,0} = 1,

the same for every cell, grid and domain. A derivative of order ν is p_{k,j}^{(ν)}(u) / h^ν.
"""

import functools
import math
import numbers
from dataclasses import dataclass
from fractions import Fraction
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from kandle._errors import UserError, must
from kandle.bases._basis import Basis, check_count, check_domain, real_points

MAX_DEGREE = 5

# An interval narrower than this, relative to the size of its values, counts as a single point.
_NARROW = 1e-6


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
        whole = isinstance(degree, numbers.Integral) and not isinstance(degree, bool)
        if not whole or not 1 <= degree <= MAX_DEGREE:
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


# --- the closed form: pieces of the cardinal B-spline ---------------------------------------------


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


_Polynomial = tuple[Fraction, ...]  # lowest power first


def _shifted_sum(a: Fraction, p: _Polynomial, b: Fraction, q: _Polynomial) -> _Polynomial:
    """(a + u) p(u) + (b - u) q(u)."""
    constant = (*(a * pi + b * qi for pi, qi in zip(p, q, strict=True)), Fraction(0))
    linear = (Fraction(0), *(pi - qi for pi, qi in zip(p, q, strict=True)))
    return tuple(x + y for x, y in zip(constant, linear, strict=True))


def _slope(p: _Polynomial) -> _Polynomial:
    """p'(u)."""
    return tuple(power * c for power, c in enumerate(p))[1:]


def _pieces(k: int) -> list[_Polynomial]:
    """p_{k,0}, …, p_{k,k} by the recurrence."""
    if k == 0:
        return [(Fraction(1),)]
    zero = (Fraction(0),) * k
    below = [zero, *_pieces(k - 1), zero]  # below[j + 1] = p_{k-1,j}
    pieces = []
    for j in range(k + 1):
        p = _shifted_sum(Fraction(k - j), below[j], Fraction(1 + j), below[j + 1])
        pieces.append(tuple(c / k for c in p))
    return pieces


@functools.cache
def cardinal_coefficients(degree: int, order: int = 0) -> Float[np.ndarray, "taps powers"]:
    """Coefficients of p_{k,j}^{(ν)}, exact before they are rounded to float64.

    Returns:
        (k + 1, k + 1 - ν): tap j in row j, the lowest power of u first; no columns for ν > k.
    """
    pieces = _pieces(degree)
    for _ in range(order):
        pieces = [_slope(p) for p in pieces]
    table = np.array([[float(c) for c in p] for p in pieces]).reshape(degree + 1, -1)
    table.flags.writeable = False
    return table


def local_taps(
    u: Float[Any, "..."], degree: int, order: int = 0, xp: ModuleType = np
) -> tuple[Float[Any, "..."], ...]:
    """p_{k,0}^{(ν)}(u), …, p_{k,k}^{(ν)}(u) by Horner's rule, not yet divided by h^ν."""
    taps = []
    for coefficients in cardinal_coefficients(degree, order).tolist():
        p = xp.zeros_like(u)
        for c in reversed(coefficients):
            p = p * u + c
        taps.append(p)
    return tuple(taps)


# --- any knots: the definition --------------------------------------------------------------------


def recursion(
    x: Float[Any, "..."], knots: Any, degree: int, order: int, xp: ModuleType = np
) -> Float[Any, "n_basis ..."]:
    """B_{m,k}^{(ν)}(x) for every m, on any non-decreasing knots t.

        B_{m,0}(x) = 1 if t_m ≤ x < t_{m+1} else 0,
        B_{m,p}(x) = (x - t_m) / (t_{m+p} - t_m) B_{m,p-1}(x)
                     + (t_{m+p+1} - x) / (t_{m+p+1} - t_{m+1}) B_{m+1,p-1}(x),
        B_{m,p}'(x) = p [ B_{m,p-1}(x) / (t_{m+p} - t_m)
                          - B_{m+1,p-1}(x) / (t_{m+p+1} - t_{m+1}) ],

    where a quotient with a zero denominator (a repeated knot) is zero. The functions are
    right-continuous, zero outside the knots, and NaN where x is not finite.

    Args:
        x: points, (...).
        knots: t, (n_knots,), converted to the precision of x.
        degree: k, at least 0.
        order: ν; zero everywhere for ν > k.
        xp: the array namespace, `numpy` or `jax.numpy`.

    Returns:
        (n_knots - k - 1, ...), the functions along the first axis.

    Example:
        >>> import numpy as np
        >>> recursion(np.array([0.5, 1.0]), [0.0, 1.0, 2.0], degree=1, order=0)
        array([[0.5, 1. ]])
    """
    t = xp.asarray(knots, x.dtype).reshape(-1, *[1] * x.ndim)
    x = x[None]
    if order > degree:
        return xp.zeros_like(x * t[: -degree - 1]) + 0.0 * x
    B = xp.where((t[:-1] <= x) & (x < t[1:]), xp.ones_like(x), xp.zeros_like(x))
    for p in range(1, degree - order + 1):
        left = (x - t[: -p - 1]) * _reciprocal(t[p:-1] - t[: -p - 1], xp)
        right = (t[p + 1 :] - x) * _reciprocal(t[p + 1 :] - t[1:-p], xp)
        B = left * B[:-1] + right * B[1:]
    for p in range(degree - order + 1, degree + 1):
        left = _reciprocal(t[p:-1] - t[: -p - 1], xp)
        right = _reciprocal(t[p + 1 :] - t[1:-p], xp)
        B = p * (left * B[:-1] - right * B[1:])
    return B + 0.0 * x  # NaN where x is not finite


def _reciprocal(d: Any, xp: ModuleType) -> Any:
    """1 / d, and 0 where d = 0."""
    safe = xp.where(d == 0, xp.ones_like(d), d)
    return xp.where(d == 0, xp.zeros_like(d), 1.0 / safe)


# --- grids from data: the interval that a sample spans, never of width zero -----------------------


def sample_values(x: Any) -> np.ndarray:
    """All values of a sample as one float64 vector, or an error if there are none or not finite."""
    try:
        values = np.asarray(real_points(x, np)).ravel()
    except (TypeError, ValueError):
        raise must("'x' of from_sample", "an array of real numbers", x) from None
    if values.size == 0 or not np.isfinite(values).all():
        raise UserError("'x' of from_sample must be at least one number, and all finite.")
    return values


def span(values: np.ndarray) -> tuple[float, float]:
    """The interval from the smallest to the largest value; wider around a single value."""
    lo, hi = float(values.min()), float(values.max())
    if not math.isfinite(hi - lo):
        raise must("'x' of from_sample", "of a range that is finite in float64", (lo, hi))
    size = max(abs(lo), abs(hi), 1.0)
    if hi - lo <= _NARROW * size:
        middle = lo + (hi - lo) / 2
        return middle - 0.5 * size, middle + 0.5 * size
    return lo, hi
