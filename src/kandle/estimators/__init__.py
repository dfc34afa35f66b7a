"""The former name of `kandle.tabular`."""

import warnings
from typing import Any

from kandle import tabular

# pyright: reportUnsupportedDunderAll=false
__all__ = [
    "FitSettings",
    "Fitted",
    "KANClassifier",
    "KANRegressor",
    "fit_classes",
    "fit_values",
    "load_fitted",
    "save_fitted",
]

warnings.warn(
    "kandle.estimators is now called kandle.tabular; the old name goes with the next release.",
    DeprecationWarning,
    stacklevel=2,
)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'kandle.estimators' has no attribute {name!r}")
    return getattr(tabular, name)
