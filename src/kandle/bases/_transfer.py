"""Splines on other knots: the L² projection from one spline basis to another."""

import numpy as np
from jaxtyping import Float

from kandle._errors import must
from kandle.bases._basis import Basis
from kandle.bases._bspline import BSpline
from kandle.bases._knots import Knots


def transfer(old: Basis, new: Basis) -> Float[np.ndarray, "n_new n_old"]:
    """The matrix M that takes weights on the splines B to weights on the splines B'.

    For weights b on the old basis, M b is the minimizer b' of

        ∫ ( Σ_n b'_n B'_n(x) - Σ_m b_m B_m(x) )² dx    over the domain of the new basis.

    The integral is exact, so functions that both bases represent on that domain keep their values
    to rounding, as after dividing every interval by a whole number. Any two domains will do:
    outside its own domain the old spline is what it computes there, which fades to zero within the
    k outermost intervals, and is zero beyond. A new function that vanishes on its whole domain, as
    one on a knot of multiplicity k + 2, has the weight zero.

    Args:
        old, new: splines with uniform or any other knots (`BSpline`, `Knots`), of any degrees.

    Example:
        >>> coarse, fine = BSpline(grid=1, degree=1), BSpline(grid=2, degree=1)
        >>> line = transfer(coarse, fine) @ [0.0, 1.0]  # from 0 at -1 to 1 at 1
        >>> np.allclose(line, [0.0, 0.5, 1.0])
        True
    """
    if not isinstance(old, BSpline | Knots):
        raise must("'old' of transfer", "a BSpline or Knots", old)
    if not isinstance(new, BSpline | Knots):
        raise must("'new' of transfer", "a BSpline or Knots", new)
    lo, hi = new.domain

    # Between neighbouring knots of either basis the integrand is a polynomial, of at most twice the
    # larger degree k. Gauss-Legendre with k + 1 points is exact up to the degree 2k + 1.
    knots = np.concatenate([old.breakpoints, new.breakpoints])
    edges = np.unique(np.clip(knots, lo, hi))
    nodes, weights = np.polynomial.legendre.leggauss(max(old.degree, new.degree) + 1)
    middle = (edges[:-1] + edges[1:]) / 2
    half = np.diff(edges) / 2
    x = (middle[:, None] + half[:, None] * nodes).ravel()
    root = np.sqrt(half[:, None] * weights).ravel()

    # With rows scaled by the roots of their weights, sums of squares are integrals. This is least
    # squares in place of the normal equations, whose condition number is the square. Of weights
    # that the integral does not determine, `lstsq` returns the smallest.
    target = root[:, None] * old.values(x)
    matrix = root[:, None] * new.values(x)
    M, *_ = np.linalg.lstsq(matrix, target, rcond=None)
    return M
