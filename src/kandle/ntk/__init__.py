"""Empirical tangent kernels K = J Jᵀ of networks and of PDE residuals, and their spectra."""

from kandle.ntk._kernel import ROUTES, kernel
from kandle.ntk._problem import spectra
from kandle.ntk._reading import reading
from kandle.ntk._residuals import blocks
from kandle.ntk._spectrum import Spectrum, spectrum

__all__ = ["ROUTES", "Spectrum", "blocks", "kernel", "reading", "spectra", "spectrum"]
