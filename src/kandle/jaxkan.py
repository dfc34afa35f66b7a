"""Kandle's schemes for jaxKAN's models, and conversion of weights to a Kandle network and back.

kandle.jaxkan.initialize(model, init.PowerLaw(0.25, 1.75))
"""

from kandle._errors import needs_extra

with needs_extra("kandle.jaxkan", "jaxkan"):
    import flax as _flax  # noqa: F401
    import jaxkan as _jaxkan  # noqa: F401

from kandle.interop import Report
from kandle.interop._jaxkan import initialize
from kandle.interop._jaxkan_convert import from_kandle, to_kandle

__all__ = ["Report", "from_kandle", "initialize", "to_kandle"]
