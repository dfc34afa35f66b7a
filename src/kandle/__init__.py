"""Kandle: fast Kolmogorov-Arnold networks, and how to initialize them.

Public names are resolved when first used, so that importing the package (and printing the
program's help) does not wait for JAX.
"""

import importlib
from typing import TYPE_CHECKING, Any

# The one place where the version is written: the build reads it from here.
__version__ = "0.2.0"

# name -> the module that defines it
_PUBLIC = {
    "KAN": "kandle.nn",
    "KANLayer": "kandle.nn",
    "save": "kandle.nn",
    "load": "kandle.nn",
    "KANRegressor": "kandle.tabular",
    "KANClassifier": "kandle.tabular",
    "plot": "kandle.drawing",
    "UserError": "kandle._errors",
    "MissingExtra": "kandle._errors",
}
_MODULES = (
    "bases",
    "kernels",
    "init",
    "nn",
    "problems",
    "train",
    "ntk",
    "store",
    "study",
    "analysis",
    "report",
    "paper",
    "tabular",
    "tune",
    "drawing",
    "export",
    "torch",
    "jaxkan",
)

__all__ = [*_PUBLIC, *_MODULES, "__version__"]  # pyright: ignore[reportUnsupportedDunderAll]

if TYPE_CHECKING:
    from kandle import bases, init, kernels, nn, problems, train  # noqa: F401
    from kandle._errors import MissingExtra, UserError  # noqa: F401
    from kandle.nn import KAN, KANLayer, load, save  # noqa: F401


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        value = getattr(importlib.import_module(_PUBLIC[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"kandle.{name}")
    else:
        raise AttributeError(f"module 'kandle' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
