"""How a KAN layer's weights start: one small class a scheme, and their names.

Example:
    >>> get("power-law")
    PowerLaw(alpha=0.25, beta=1.75)
    >>> from_dict(to_dict(PowerLaw(beta=1.0)))
    PowerLaw(alpha=0.25, beta=1.0)
"""

from kandle.init._baseline import Baseline
from kandle.init._draw import DRAWS, draw_scaled
from kandle.init._glorot import Glorot
from kandle.init._lecun import LeCun
from kandle.init._power_law import PowerLaw
from kandle.init._quiet import Quiet
from kandle.init._registry import SCHEMES, from_dict, get, to_dict
from kandle.init._scheme import Scheme
from kandle.splines import Inputs, Moments, Normal, Sample, Uniform

__all__ = [
    "DRAWS",
    "SCHEMES",
    "Baseline",
    "Glorot",
    "Inputs",
    "LeCun",
    "Moments",
    "Normal",
    "PowerLaw",
    "Quiet",
    "Sample",
    "Scheme",
    "Uniform",
    "draw_scaled",
    "from_dict",
    "get",
    "to_dict",
]
