"""From a CSV, TSV or Parquet file to numbers, or to an error that names the column and the row."""

import collections
import csv
import os
import re
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kandle._errors import UserError, must, needs_extra, unknown
from kandle._text import printable

if TYPE_CHECKING:
    import pandas as pd

# More columns than this are no table that a network could learn from.
MOST_COLUMNS = 100_000

# Characters of a cell that a message shows.
_LONGEST_SHOWN = 60

_SEPARATORS = ",;\t|"

_DATE = re.compile(r"\b(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})\b")
_ABOUT_DATES = (
    "Replace dates by numbers, such as days, months or weekdays, or leave the column out of the "
    "inputs (`kandle fit --inputs`)."
)
_ABOUT_TEXT = "`kandle fit --categorical` encodes columns of text."
_ABOUT_MISSING = "`kandle fit --missing impute` replaces missing numbers by the median."


def read_frame(
    data: "str | os.PathLike | pd.DataFrame", separator: str | None = None
) -> "pd.DataFrame":
    """The table of a `.csv`, `.tsv` or `.parquet` file, or a DataFrame, with columns named by text.

    Args:
        data: the file or the frame.
        separator: between the columns of a text file; None finds out from its first line.
    """
    with needs_extra("Reading a table", "table"):
        import pandas as pd

    if isinstance(data, pd.DataFrame):
        return data.set_axis([str(column) for column in data.columns], axis=1)
    if not isinstance(data, str | os.PathLike):
        raise must("A table", "a path or a pandas DataFrame", type(data).__name__)
    path = Path(data)
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".tsv", ".parquet", ".pq"):
        requirement = "a file that ends in .csv, .tsv, .parquet, .pq"
        raise must(f"Table {str(path)!r}", requirement, path.suffix)
    if not path.is_file():
        raise UserError(f"There is no file {str(path)!r}.")
    # Damaged metadata of a Parquet file surface in pandas as errors of many types.
    unreadable = (
        *(ValueError, TypeError, KeyError, OverflowError, NotImplementedError),
        pd.errors.ParserWarning,
    )
    try:
        if suffix in (".parquet", ".pq"):
            return read_frame(_read_parquet(path))
        return read_frame(_read_text(path, separator))
    except pd.errors.EmptyDataError:
        raise UserError(f"File {str(path)!r} is empty.") from None
    except UserError:
        raise
    except UnicodeDecodeError:
        raise UserError(
            f"File {str(path)!r} cannot be read as a table: it is not in UTF-8. Save it in that "
            "encoding."
        ) from None
    except unreadable as error:  # what pandas or Arrow cannot parse
        reason = str(error).strip().replace("\n", " ")
        if not isinstance(error, ValueError):  # its text alone would say little
            reason = f"{type(error).__name__}: {reason}"
        raise UserError(f"File {str(path)!r} cannot be read as a table: {reason}") from None


def unnamed(column: str) -> bool:
    """Whether a column has no name of its own, like an index that pandas wrote beside the data."""
    return not column.strip() or re.fullmatch(r"Unnamed: \d+", column) is not None


def is_text(series: "pd.Series") -> bool:
    """Whether a column holds text (or categories, or booleans of text) and not numbers or dates."""
    return series.dtype.kind in "OSUT" or str(series.dtype) in ("category", "string", "str")


def check_columns(frame: "pd.DataFrame", columns: Iterable[str]) -> None:
    """Every named column must be there, once, and have rows."""
    known = [str(column) for column in frame.columns]
    if len(frame) == 0:
        raise UserError(f"The table has no rows, only columns: {listed(known)}.")
    count = collections.Counter(known)
    for name in columns:
        if name not in count and len(known) == 1 and name in re.split(r"\W+", known[0]):
            raise UserError(
                f"The table has one column, {known[0]!r}: its columns are separated by something "
                "other than commas, semicolons, tabs or bars. --separator says by what."
            )
        if name not in count:
            raise unknown("column", name, known if len(known) <= 20 else [*known[:20], "…"])
        if count[name] > 1:
            raise UserError(f"Column {name!r} occurs more than once.")


def numbers(
    frame: "pd.DataFrame",
    columns: Sequence[str],
    first_row: int = 0,
    advice: str | None = None,
) -> np.ndarray:
    """The named columns as float64 (rows, columns), every one of them finite.

    Rows are counted from 1, the header not included; `first_row` come before these. An error ends
    with `advice`, or, without it, with the option of `kandle fit` that helps.
    """
    check_columns(frame, columns)
    chosen = frame.loc[:, list(columns)]
    if all(dtype.kind in "iufb" and isinstance(dtype, np.dtype) for dtype in chosen.dtypes):
        values = chosen.to_numpy(np.float64)
        if np.isfinite(values).all():
            return values
    rest = {"first_row": first_row, "advice": advice}
    return np.stack([column_numbers(chosen[n], n, **rest) for n in columns], axis=-1)


def column_numbers(
    series: "pd.Series",
    name: str,
    fill: float | None = None,
    first_row: int = 0,
    advice: str | None = None,
) -> np.ndarray:
    """A column as float64, finite; `fill` replaces missing values, which are an error without.

    `first_row` and `advice` are those of `numbers`.
    """
    import pandas as pd

    if series.dtype.kind in "mMc":  # pandas would count a date's nanoseconds
        error = must(f"Column {name!r}, row 1", "a real number", str(series.iloc[0]))
        raise error if series.dtype.kind == "c" else UserError(f"{error} {_ABOUT_DATES}")
    try:
        found = pd.to_numeric(series, errors="coerce")
    except OverflowError:  # whole numbers beyond float64
        found = [_float(value) for value in series]
    values = pd.Series(found).to_numpy(np.float64, na_value=np.nan)
    if np.isfinite(values).all():
        return values
    missing = series.isna().to_numpy()
    if fill is not None:
        values = np.where(missing, fill, values)
    bad = np.flatnonzero(~np.isfinite(values) & ~(missing if fill is not None else False))
    if not bad.size:
        return values
    row = int(bad[0])
    cell, shown_row = series.iloc[row], first_row + row + 1
    if missing[row]:
        check_present(series, f"Column {name!r}", advice or _ABOUT_MISSING, first_row)
    shown = cell
    if isinstance(cell, int) and cell.bit_length() > 1024:
        shown = "a whole number beyond float64"
    elif isinstance(cell, str):
        shown = repr(cell if len(cell) <= _LONGEST_SHOWN else f"{cell[:_LONGEST_SHOWN]}…")
    if advice is None:
        is_date = isinstance(cell, str) and _DATE.search(cell) is not None
        advice = _ABOUT_DATES if is_date else _ABOUT_TEXT if isinstance(cell, str) else ""
    raise UserError(
        f"Column {name!r}, row {shown_row} is {shown}, which is not a finite number{_more(bad)}. "
        f"{advice}".rstrip()
    )


def check_apart(inputs: Iterable[str], target: Iterable[str]) -> None:
    """No column may be both."""
    if both := set(inputs) & set(target):
        raise UserError(f"Column {min(both)!r} is a target and cannot be an input as well.")


def check_present(
    series: "pd.Series", what: str, advice: str = _ABOUT_MISSING, first_row: int = 0
) -> None:
    """No value of a column may be missing; an error calls it `what` and ends with the advice."""
    missing = np.flatnonzero(series.isna())
    if missing.size:
        row, more = first_row + missing[0] + 1, _more(missing)
        raise UserError(f"{what}, row {row} is missing{more}. {advice}")


def _more(rows: np.ndarray) -> str:
    return f" (and {rows.size - 1} more of its rows)" if rows.size > 1 else ""


def _float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return np.nan


def listed(names: Sequence[str], most: int = 20) -> str:
    """Names with commas between, safe to show; the first ones if there are many."""
    more = f", … ({len(names):,} in all)" if len(names) > most else ""
    return ", ".join(map(printable, names[:most])) + more


def _separator(path: Path) -> str:
    """The one that divides the first line into most parts, outside quotation marks; a comma, if
    none divides it.
    """
    if path.suffix.lower() == ".tsv":
        return "\t"
    with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
        line = file.readline()
    try:
        counts = {s: len(next(csv.reader([line], delimiter=s), [])) for s in _SEPARATORS}
    except csv.Error:
        return ","
    return max(_SEPARATORS, key=lambda s: counts[s])


def _read_text(path: Path, separator: str | None) -> "pd.DataFrame":
    import pandas as pd

    detected = _separator(path)
    if separator is None:
        separator = detected
    options: dict[str, Any] = {
        "sep": separator,
        "encoding": "utf-8-sig",
        "index_col": False,
        "skipinitialspace": True,
    }
    header = pd.read_csv(path, header=None, nrows=1, dtype=str, keep_default_na=False, **options)
    names = [str(name).strip() for name in header.iloc[0]]
    if len(names) == 1 and separator != detected and detected in names[0]:
        raise UserError(
            f"File {str(path)!r} has only one column if separated by {separator!r}: {names[0]!r}. "
            f"Its columns seem to be separated by {detected!r}."
        )
    if len(names) > MOST_COLUMNS:
        raise UserError(
            f"File {str(path)!r} has {len(names):,} columns, more than the {MOST_COLUMNS:,} that "
            "are read."
        )
    # pandas would call the second 'a' 'a.1'.
    for name, count in collections.Counter(names).items():
        if name and count > 1:
            raise UserError(f"Column {name!r} occurs more than once in {str(path)!r}.")
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
        frame = pd.read_csv(path, low_memory=False, **options)
        if separator != "," and _has_decimal_commas(frame):
            frame = pd.read_csv(path, low_memory=False, decimal=",", **options)
    return frame.rename(columns=str.strip)


def _has_decimal_commas(frame: "pd.DataFrame") -> bool:
    """Whether a column of text holds numbers such as 0,25 and nothing else at its beginning."""
    number = r"\s*[+-]?\d*,\d+(?:[eE][+-]?\d+)?\s*"
    beginnings = (frame[name].dropna().head(100) for name in frame if is_text(frame[name]))
    return any(
        len(values) and values.astype(str).str.fullmatch(number).all() for values in beginnings
    )


def _read_parquet(path: Path) -> "pd.DataFrame":
    with needs_extra("Reading a Parquet file", "table"):
        import pandas as pd
        import pyarrow  # noqa: F401

    frame = pd.read_parquet(path)
    # An index with a name is a column of the file like any other.
    named = [name for name in frame.index.names if name is not None]
    return frame.reset_index(named) if named else frame
