"""The columns of exported rows, in their order: derived from what a run and its outcome are."""

from kandle.store._outcome import ORIGIN, OUTCOME_TYPES, RESULTS
from kandle.store._run import FIELDS, PYTHON_TYPES

# Results stand between two parts of the configuration, where readers of the first format look.
_SPLIT = FIELDS.index("reference") + 1
LEADING, TRAILING = FIELDS[:_SPLIT], FIELDS[_SPLIT:]
COLUMNS = (*LEADING, *RESULTS, *TRAILING, *ORIGIN, "identity")

PYTHON = {**PYTHON_TYPES, **OUTCOME_TYPES, "identity": str}
"""The Python type of each column."""

_DTYPES = {
    str: "str",
    bool: "bool",
    int: "int64",
    float: "float64",
    int | None: "Int64",
    float | None: "float64",
}
TYPES: dict[str, str] = {name: _DTYPES[PYTHON[name]] for name in COLUMNS}
"""The pandas type of each column. Where a column does not apply, text is empty and numbers are NaN.
"""
