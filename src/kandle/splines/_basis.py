"""What a B-spline basis is: a grid, a degree and the interval they live on."""

import functools
import math
import numbers
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from kandle._errors import must

MAX_DEGREE = 5


def check_order(order: int) -> int:
    """The order of a derivative as a plain integer, or an error that says what it must be."""
    if isinstance(order, bool) or not isinstance(order, numbers.Integral) or order < 0:
        raise must("'order'", "an integer of at least 0", order)
    return int(order)


def as_floating(x: ArrayLike) -> Array:
    """The points as a floating-point array: as they are, or in JAX's default precision."""
    x = jnp.asarray(x)
    return x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(jnp.result_type(float))


@dataclass(frozen=True)
class SplineBasis:
    """The G + k B-splines of degree k on G equal intervals of a domain [lo, hi].

    The knots continue k steps beyond either end, t_i = lo + (i - k) h with h = (hi - lo) / G and
    i = 0, …, G + 2k, so that the functions sum to one everywhere on the domain. Function m is
    supported on [t_m, t_{m+k+1}).

    Args:
        grid: G, the number of intervals in the domain.
        degree: k, from 1 to 5.
        domain: (lo, hi).

    Example:
        >>> SplineBasis(grid=5, degree=3).n_basis
        8
    """

    grid: int
    degree: int = 3
    domain: tuple[float, float] = (-1.0, 1.0)

    def __post_init__(self):
        grid, degree = self.grid, self.degree
        if isinstance(grid, bool) or not isinstance(grid, numbers.Integral) or grid < 1:
            raise must("'grid'", "an integer of at least 1", grid)
        if isinstance(degree, bool) or not isinstance(degree, numbers.Integral):
            raise must("'degree'", f"an integer from 1 to {MAX_DEGREE}", degree)
        if not 1 <= degree <= MAX_DEGREE:
            raise must("'degree'", f"an integer from 1 to {MAX_DEGREE}", degree)
        object.__setattr__(self, "grid", int(grid))
        object.__setattr__(self, "degree", int(degree))
        object.__setattr__(self, "domain", _check_domain(self.domain, self.grid))

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
    def knots(self) -> np.ndarray:
        """The G + 2k + 1 knots in float64, read-only."""
        lo, hi = self.domain
        k, G = self.degree, self.grid
        # Weighting both ends, rather than adding steps to one, makes `lo` and `hi` knots exactly.
        w = np.arange(-k, G + k + 1) / G
        knots = (1.0 - w) * lo + w * hi
        knots.flags.writeable = False
        return knots


def _check_domain(domain: object, grid: int) -> tuple[float, float]:
    requirement = "a pair of finite numbers (lo, hi) with lo < hi"
    try:
        lo, hi = (float(end) for end in domain)  # pyright: ignore[reportGeneralTypeIssues]
    except (TypeError, ValueError):
        raise must("'domain'", requirement, domain) from None
    if not (math.isfinite(lo) and math.isfinite(hi) and lo < hi and math.isfinite(hi - lo)):
        raise must("'domain'", requirement, domain)
    if (hi - lo) / grid <= 2.0 * math.ulp(max(abs(lo), abs(hi))):
        raise must("'domain'", f"wide enough for {grid} distinct intervals", domain)
    return lo, hi
