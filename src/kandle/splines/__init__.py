"""What a B-spline basis is: knots, the reference recursion, closed forms, exact moments."""

from kandle.splines._basis import MAX_DEGREE, SplineBasis
from kandle.splines._cardinal import cardinal_coefficients, local_taps
from kandle.splines._evaluate import evaluate, locate
from kandle.splines._inputs import Inputs, Normal, Sample, Uniform
from kandle.splines._moments import (
    Moments,
    basis_means,
    basis_moments,
    moments,
    residual_moment,
)
from kandle.splines._recursion import cox_de_boor

__all__ = [
    "MAX_DEGREE",
    "Inputs",
    "Moments",
    "Normal",
    "Sample",
    "SplineBasis",
    "Uniform",
    "basis_means",
    "basis_moments",
    "cardinal_coefficients",
    "cox_de_boor",
    "evaluate",
    "local_taps",
    "locate",
    "moments",
    "residual_moment",
]
