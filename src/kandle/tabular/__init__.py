"""Tables of data: read, scale, split, fit, save; and the scikit-learn estimators.

The estimators are imported when first used: everything else works without scikit-learn.
"""

from typing import TYPE_CHECKING, Any

from kandle._errors import needs_extra
from kandle.tabular._encode import Encoder
from kandle.tabular._fit import Outcome, fit_classes, fit_rows, fit_values
from kandle.tabular._fit_table import TableFit, fit_parquet, fit_table
from kandle.tabular._read import numbers, read_frame
from kandle.tabular._saved import Fitted, load_fitted, save_fitted
from kandle.tabular._scaler import Scaler
from kandle.tabular._settings import RECIPES, FitSettings
from kandle.tabular._stream import ParquetRows
from kandle.tabular._table import Table

if TYPE_CHECKING:
    from kandle.tabular._classifier import KANClassifier
    from kandle.tabular._regressor import KANRegressor

__all__ = [
    "RECIPES",
    "Encoder",
    "FitSettings",
    "Fitted",
    "KANClassifier",
    "KANRegressor",
    "Outcome",
    "ParquetRows",
    "Scaler",
    "Table",
    "TableFit",
    "fit_classes",
    "fit_parquet",
    "fit_rows",
    "fit_table",
    "fit_values",
    "load_fitted",
    "numbers",
    "read_frame",
    "save_fitted",
]


def __getattr__(name: str) -> Any:
    if name not in ("KANClassifier", "KANRegressor"):
        raise AttributeError(f"module 'kandle.tabular' has no attribute {name!r}")
    with needs_extra(name, "sklearn"):
        import sklearn  # noqa: F401
    from kandle.tabular._classifier import KANClassifier
    from kandle.tabular._regressor import KANRegressor

    return {"KANClassifier": KANClassifier, "KANRegressor": KANRegressor}[name]
