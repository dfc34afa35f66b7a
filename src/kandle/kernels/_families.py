"""The bases that the native kernels accelerate, as attributes of their calls."""

import numpy as np

from kandle.bases import RBF, Basis, BSpline, Chebyshev, Fourier, Legendre

# Families without local support, in the order of the kernels' own enumeration.
_GLOBAL = (Chebyshev, Legendre, Fourier, RBF)
_MAX_FUNCTIONS = 1024


def is_local(basis: Basis) -> bool:
    """Whether a basis is of uniform B-splines, of which only k + 1 are not zero at a point."""
    return type(basis) is BSpline


def is_global(basis: Basis) -> bool:
    """Whether a basis has kernels that compute all of its functions at every point."""
    return type(basis) in _GLOBAL and basis.n_basis <= _MAX_FUNCTIONS


def spline_attributes(basis: BSpline) -> dict:
    """The attributes that describe a spline basis to its kernels."""
    lo, hi = basis.domain
    return {
        "grid": np.int64(basis.grid),
        "degree": np.int64(basis.degree),
        "lo": np.float64(lo),
        "hi": np.float64(hi),
    }


def global_attributes(basis: Basis) -> dict:
    """The attributes that describe a basis without local support to its kernels."""
    count, constant, tanh, scale = basis.n_basis, False, True, 1.0
    if isinstance(basis, Chebyshev | Legendre):
        count, constant, tanh = basis.degree, basis.constant, basis.squash == "tanh"
    elif isinstance(basis, Fourier):
        count, scale = basis.order, basis.frequency
    elif isinstance(basis, RBF):
        scale = basis.width
    lo, hi = basis.domain
    return {
        "family": np.int64(_GLOBAL.index(type(basis))),
        "count": np.int64(count),
        "constant": bool(constant),
        "tanh": bool(tanh),
        "lo": np.float64(lo),
        "hi": np.float64(hi),
        "scale": np.float64(scale),
    }
