"""Fitting a network to rows of data: scikit-learn estimators, and what `kandle fit` shares.

The estimators are resolved when first used: fitting itself does not need scikit-learn.
"""

from typing import TYPE_CHECKING, Any

from kandle._errors import MissingExtra
from kandle.estimators._fit import FitSettings, fit_classes, fit_values
from kandle.estimators._saved import Fitted, load_fitted, save_fitted

if TYPE_CHECKING:
    from kandle.estimators._classifier import KANClassifier
    from kandle.estimators._regressor import KANRegressor

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


def __getattr__(name: str) -> Any:
    if name not in ("KANClassifier", "KANRegressor"):
        raise AttributeError(f"module 'kandle.estimators' has no attribute {name!r}")
    try:
        import sklearn  # noqa: F401
    except ModuleNotFoundError:
        raise MissingExtra(name, "sklearn") from None
    from kandle.estimators._classifier import KANClassifier
    from kandle.estimators._regressor import KANRegressor

    return {"KANClassifier": KANClassifier, "KANRegressor": KANRegressor}[name]
