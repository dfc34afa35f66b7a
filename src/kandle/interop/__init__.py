"""What `kandle.torch` and `kandle.jaxkan` have in common: starting other libraries' layers."""

from kandle.interop._report import LayerReport, Report
from kandle.interop._scales import check_scheme, layer_scales
from kandle.interop._spline import SplineLayer

__all__ = ["LayerReport", "Report", "SplineLayer", "check_scheme", "layer_scales"]
