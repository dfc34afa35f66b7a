"""From a CSV or Parquet file to numbers, or to an error that names the column and the row."""

import os
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kandle._errors import UserError, must, unknown

if TYPE_CHECKING:
    import pandas as pd


def read_frame(data: "str | os.PathLike | pd.DataFrame") -> "pd.DataFrame":
    """The table of a `.csv` or `.parquet` file, or a DataFrame; columns go by their names as
    text.
    """
    import pandas as pd

    if isinstance(data, pd.DataFrame):
        return data.set_axis([str(column) for column in data.columns], axis=1)
    if not isinstance(data, str | os.PathLike):
        raise must("A table", "a path or a pandas DataFrame", type(data).__name__)
    path = Path(data)
    readers = {".csv": _read_csv, ".parquet": _read_parquet, ".pq": _read_parquet}
    if path.suffix.lower() not in readers:
        raise must(f"Table {str(path)!r}", f"a file that ends in {', '.join(readers)}", path.suffix)
    if not path.is_file():
        raise UserError(f"There is no file {str(path)!r}.")
    try:
        return read_frame(readers[path.suffix.lower()](path))
    except pd.errors.EmptyDataError:
        raise UserError(f"File {str(path)!r} is empty.") from None
    except UserError:
        raise
    except (ValueError, pd.errors.ParserWarning) as error:  # what pandas or Arrow cannot parse
        reason = str(error).strip().replace("\n", " ")
        raise UserError(f"File {str(path)!r} cannot be read as a table: {reason}") from None


def unnamed(column: str) -> bool:
    """Whether a column has no name of its own, like an index that pandas wrote beside the data."""
    return not column.strip() or re.fullmatch(r"Unnamed: \d+", column) is not None


def numbers(frame: "pd.DataFrame", columns: Sequence[str]) -> np.ndarray:
    """The named columns as float64 (rows, columns), every one of them finite.

    Rows are counted from 1, the header not included.
    """
    if len(frame) == 0:
        raise UserError(
            f"The table has no rows, only columns: {', '.join(map(str, frame.columns))}."
        )
    for name in columns:
        if name not in frame.columns:
            raise unknown("column", name, map(str, frame.columns))
        if list(frame.columns).count(name) > 1:
            raise UserError(f"Column {name!r} occurs more than once.")
    return np.stack([_column(frame.loc[:, name], name) for name in columns], axis=-1)


def _column(series: "pd.Series", name: str) -> np.ndarray:
    import pandas as pd

    if series.dtype.kind in "mMc":  # pandas would count a date's nanoseconds
        raise must(f"Column {name!r}, row 1", "a real number", str(series.iloc[0]))
    values = pd.Series(pd.to_numeric(series, errors="coerce")).to_numpy(np.float64, na_value=np.nan)
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        row = int(bad[0])
        cell = series.iloc[row]
        what = (
            "is missing"
            if pd.api.types.is_scalar(cell) and pd.isna(cell)
            else f"is {repr(cell) if isinstance(cell, str) else cell}, which is not a finite number"
        )
        more = f" (and {bad.size - 1} more of its rows)" if bad.size > 1 else ""
        raise UserError(f"Column {name!r}, row {row + 1} {what}{more}.")
    return values


def _read_csv(path: Path) -> "pd.DataFrame":
    import pandas as pd

    options: dict[str, Any] = {
        "encoding": "utf-8-sig",
        "index_col": False,
        "skipinitialspace": True,
    }
    header = pd.read_csv(path, header=None, nrows=1, dtype=str, keep_default_na=False, **options)
    names = [str(name).strip() for name in header.iloc[0]]
    # pandas would call the second 'a' 'a.1'.
    if twice := [name for name in names if name and names.count(name) > 1]:
        raise UserError(f"Column {twice[0]!r} occurs more than once in {str(path)!r}.")
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
        frame = pd.read_csv(path, low_memory=False, **options)
    return frame.rename(columns=str.strip)


def _read_parquet(path: Path) -> "pd.DataFrame":
    import pandas as pd

    frame = pd.read_parquet(path)
    # An index with a name is a column of the file like any other.
    named = [name for name in frame.index.names if name is not None]
    return frame.reset_index(named) if named else frame
