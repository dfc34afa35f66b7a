"""How a KAN layer's weights are initialized: one small class per scheme, and their names.

The schemes' formulas, and `draw_weights` from a source such as `NumPySource`, work without JAX;
drawing from JAX keys imports it.

Example:
    >>> get("power-law")
    PowerLaw(alpha=0.25, beta=1.75)
    >>> from_dict(to_dict(PowerLaw(beta=1.0)))
    PowerLaw(alpha=0.25, beta=1.0)
"""

from typing import TYPE_CHECKING, Any

from kandle.bases import Inputs, Moments, Normal, Sample, Uniform
from kandle.init._baseline import Baseline
from kandle.init._data import DataDependent
from kandle.init._glorot import Glorot
from kandle.init._lecun import LeCun
from kandle.init._power_law import PowerLaw
from kandle.init._quiet import Quiet
from kandle.init._registry import SCHEMES, from_dict, get, identifier, to_dict
from kandle.init._scheme import Scheme
from kandle.init._weights import NumPySource, Source, draw_weights

if TYPE_CHECKING:
    from kandle.init._draw import Sampler, draw_scaled

__all__ = [
    "SCHEMES",
    "Baseline",
    "DataDependent",
    "Glorot",
    "Inputs",
    "LeCun",
    "Moments",
    "Normal",
    "NumPySource",
    "PowerLaw",
    "Quiet",
    "Sample",
    "Sampler",
    "Scheme",
    "Source",
    "Uniform",
    "draw_scaled",
    "draw_weights",
    "from_dict",
    "get",
    "identifier",
    "to_dict",
]

_DRAWING = ("Sampler", "draw_scaled")


def __getattr__(name: str) -> Any:
    if name in _DRAWING:
        from kandle.init import _draw

        return getattr(_draw, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
