"""Kandle's starts for spline layers of PyTorch: pykan, efficient-kan, and your own.

kandle.torch.initialize_(model, init.PowerLaw(0.25, 1.75))
"""

from kandle._errors import MissingExtra

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError:
    raise MissingExtra("kandle.torch", "torch") from None

from kandle.interop import Report, SplineLayer
from kandle.interop._torch import initialize_
from kandle.interop._torch_adapters import Adapter, assign, register, torch_residual, unregister

__all__ = [
    "Adapter",
    "Report",
    "SplineLayer",
    "assign",
    "initialize_",
    "register",
    "torch_residual",
    "unregister",
]
