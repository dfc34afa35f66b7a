"""What sits on an edge: the `Basis` interface, its families, and exact moments.

Everything here works without JAX, except `evaluate`, which is imported when first used.
"""

from typing import TYPE_CHECKING, Any

from kandle.bases._basis import Basis
from kandle.bases._bspline import (
    MAX_DEGREE,
    BSpline,
    cardinal_coefficients,
    local_taps,
    locate,
    recursion,
)
from kandle.bases._chebyshev import Chebyshev
from kandle.bases._fourier import Fourier
from kandle.bases._inputs import Inputs, Normal, Sample, Uniform
from kandle.bases._knots import Knots
from kandle.bases._legendre import Legendre
from kandle.bases._moments import Moments, moments, residual_moment
from kandle.bases._rbf import RBF
from kandle.bases._registry import BASES, from_dict, get
from kandle.bases._transfer import transfer

if TYPE_CHECKING:
    from kandle.bases._jax import evaluate

__all__ = [
    "BASES",
    "MAX_DEGREE",
    "RBF",
    "BSpline",
    "Basis",
    "Chebyshev",
    "Fourier",
    "Inputs",
    "Knots",
    "Legendre",
    "Moments",
    "Normal",
    "Sample",
    "Uniform",
    "cardinal_coefficients",
    "evaluate",
    "from_dict",
    "get",
    "local_taps",
    "locate",
    "moments",
    "recursion",
    "residual_moment",
    "transfer",
]


def __getattr__(name: str) -> Any:
    if name == "evaluate":
        from kandle.bases._jax import evaluate

        return evaluate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
