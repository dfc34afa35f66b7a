"""One operation, the value of a KAN layer with all its derivatives, and its backends.

`reference` is the equation, `dense` plain JAX for any accelerator; both accept any basis. `native`
is C++ for the CPU and accelerates uniform B-splines, Chebyshev, Legendre, Fourier and RBF bases.
`route` says which of them compute a network, and how.
"""

from kandle._route import Route, route
from kandle.kernels._api import (
    BACKENDS,
    accelerates,
    check_backend,
    default_backend,
    jet,
    layer,
    spread,
    statistics,
    total,
)
from kandle.kernels._residual import Residual, residual_derivatives

__all__ = [
    "BACKENDS",
    "Residual",
    "Route",
    "accelerates",
    "check_backend",
    "default_backend",
    "jet",
    "layer",
    "residual_derivatives",
    "route",
    "spread",
    "statistics",
    "total",
]
