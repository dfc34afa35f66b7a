"""KANs in PyTorch: layers on Kandle's kernels, and Kandle's initializations for other libraries.

Example:
    >>> import torch, kandle
    >>> model = kandle.torch.KAN([2, 8, 1], grid_size=5, spline_order=3, init="power-law")
    >>> model(torch.zeros(10, 2)).shape
    torch.Size([10, 1])
"""

from kandle._errors import needs_extra
from kandle._route import route

with needs_extra("kandle.torch", "torch"):
    import torch as _torch  # noqa: F401

from kandle.interop import Report, SplineLayer
from kandle.torch._adapters import Adapter, assign, register, unregister
from kandle.torch._convert import from_kandle, from_module, load, save, to_kandle
from kandle.torch._initialize import initialize_
from kandle.torch._layer import KANLinear
from kandle.torch._network import KAN
from kandle.torch._residuals import torch_residual

# The classes are pickled by their public names, so that their files may be renamed.
for _class in (KAN, KANLinear):
    _class.__module__ = "kandle.torch"

__all__ = [
    "KAN",
    "Adapter",
    "KANLinear",
    "Report",
    "SplineLayer",
    "assign",
    "from_kandle",
    "from_module",
    "initialize_",
    "load",
    "register",
    "route",
    "save",
    "to_kandle",
    "torch_residual",
    "unregister",
]
