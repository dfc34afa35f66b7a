"""Rows in and out of a store: CSV and Parquet."""

import csv
import dataclasses
import functools
import io
import itertools
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kandle._errors import UserError, must, unknown
from kandle.store import COLUMNS, TYPES, Gathered, Outcome, Store, gather
from kandle.study._builtin import get, names
from kandle.study._spec import DRAWS, FIELDS, RunSpec
from kandle.study._study import Study

REQUIRED = ("study", "problem", "scheme", "G", "width", "depth", "seed", "loss", "l2")
_RESULTS = ("status", "diverged_at", "loss", "l2", "l2_robust", "test_mse", "wall_s")
_ORIGIN = ("machine", "backend", "version", "reason")
_STATUSES = ("ok", "diverged", "failed")


def export(store: Store, path: Path, study: str | None = None) -> int:
    """Write the store's rows as CSV or Parquet, by the file's suffix; return how many."""
    write = {".csv": _to_csv, ".parquet": _to_parquet}.get(path.suffix)
    if write is None:
        raise must("The file to export to", "named *.csv or *.parquet", str(path))
    held = [name for (name,) in store.query("SELECT DISTINCT study FROM runs ORDER BY study")]
    if study is not None and study not in held:
        raise unknown("study in this store:", study, held)
    frame = store.frame(study)
    # A file that exists is whole: it is written beside and renamed.
    draft = path.with_name(f".{path.name}.part")
    try:
        write(frame, draft)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return len(frame)


def _to_csv(frame: Any, path: Path) -> None:
    frame.to_csv(path, index=False, lineterminator="\n")


def _to_parquet(frame: Any, path: Path) -> None:
    frame.to_parquet(path, index=False)


@dataclass(frozen=True)
class Imported:
    """What came of an import.

    `repeated` rows have the configuration of an earlier row of the file; `ignored` columns mean
    nothing here.
    """

    rows: int
    repeated: int
    ignored: tuple[str, ...]
    gathered: Gathered


def import_rows(path: Path, store: Store) -> Imported:
    """Put the rows of a CSV or Parquet file into `store`.

    Columns that are not there default to what the row's study does. Rows that repeat a
    configuration are kept as further replicates of it (`replicate` 1, 2, …), in the order of the
    file; importing the file again changes nothing.
    """
    columns, rows = _read(path)
    seen: Counter[RunSpec] = Counter()
    runs: list[tuple[str, dict[str, Any], Outcome]] = []
    repeated = 0
    for number, row in enumerate(rows, 1):
        place = f"{path}, row {number}: "
        spec = _spec(place, row)
        if "replicate" not in row:
            occurrence = seen[spec]
            seen[spec] += 1
            if occurrence:
                spec, repeated = spec.replace(replicate=occurrence), repeated + 1
        runs.append((spec.identity, spec.to_dict(), _outcome(place, row)))
    ignored = tuple(column for column in columns if column not in COLUMNS)
    return Imported(len(runs), repeated, ignored, gather(store, runs))


Row = dict[str, Any]
"""A row's values by column; columns that are empty there are left out."""


def _read(path: Path) -> tuple[list[str], Iterator[Row]]:
    """The columns and rows of a file."""
    if not path.is_file():
        raise UserError(f"There is no file {path}.")
    read = {".csv": _from_csv, ".parquet": _from_parquet}.get(path.suffix)
    if read is None:
        raise must("The file to import", "named *.csv or *.parquet", str(path))
    columns, rows = read(path)
    for column in REQUIRED:
        if column not in columns:
            raise UserError(f"{path} lacks the column {column!r}. Required: {', '.join(REQUIRED)}.")
    return columns, rows


def _from_csv(path: Path) -> tuple[list[str], Iterator[Row]]:
    # Spreadsheets begin a file with a mark of its encoding, which is no part of the first name.
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: {error}.") from None
    header = next(csv.reader(io.StringIO(text, newline="")), [])
    for column in header:
        if column in COLUMNS and header.count(column) > 1:
            raise UserError(f"{path} has the column {column!r} more than once.")

    def rows() -> Iterator[Row]:
        lines = csv.reader(io.StringIO(text, newline=""))
        next(lines)
        for number in itertools.count(1):
            try:
                line = next(lines)
            except StopIteration:
                return
            except csv.Error as error:
                raise UserError(f"{path}, row {number}: {error}.") from None
            if not line:
                continue
            if len(line) != len(header):
                raise UserError(
                    f"{path}, row {number}: it has {len(line)} fields, the header {len(header)}."
                )
            yield _row(f"{path}, row {number}: ", zip(header, line, strict=True))

    return header, rows()


def _from_parquet(path: Path) -> tuple[list[str], Iterator[Row]]:
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path)
    except pyarrow.ArrowInvalid as error:
        raise UserError(f"{path} is not a Parquet file: {error}.") from None
    lines = itertools.chain.from_iterable(batch.to_pylist() for batch in table.to_batches())
    rows = (_row(f"{path}, row {n}: ", row.items()) for n, row in enumerate(lines, 1))
    return table.column_names, rows


def _row(place: str, values: Iterable[tuple[str, Any]]) -> Row:
    parsed = (
        (column, _value(place, column, value))
        for column, value in values
        if column in TYPES and value is not None and value != ""
    )
    return {column: value for column, value in parsed if value is not None}


def _value(place: str, column: str, value: Any) -> Any:
    """A value of a file as its column has it; None for NaN, which is how "no number" is written."""
    kind = TYPES[column]
    try:
        if kind == "float64":
            number = float(value)
            return None if math.isnan(number) else number
        if kind in ("int64", "Int64"):
            # Other programs write whole numbers as 5.0 where a column has gaps.
            text = isinstance(value, str) and value.lstrip("-").isdigit()
            exact = text or isinstance(value, int)
            number = int(value) if exact else int(float(value))
            if not -(2**63) <= number < 2**63 or not (exact or number == float(value)):
                raise ValueError
            return number
        if kind == "bool":
            return {"true": True, "false": False}[str(value).lower()]
    except (ValueError, KeyError, OverflowError, TypeError):
        words = {"float64": "a number", "bool": "True or False"}.get(kind, "a whole number")
        raise must(f"{place}'{column}'", words, value) from None
    return str(value)


def _spec(place: str, row: Row) -> RunSpec:
    for name in ("study", "problem", "scheme", "G", "width", "depth", "seed"):
        if name not in row:
            raise must(f"{place}'{name}'", "given", None)
    if row["scheme"] == "power-law" and not ("alpha" in row and "beta" in row):
        raise must(f"{place}'alpha' and 'beta'", "given for power-law", None)
    given = {name: value for name, value in row.items() if name in FIELDS}
    # A row with an identity was exported by Kandle: its configuration is whole, and empty means
    # empty.
    for name, least in _LEAST.items():
        if row.get(name, least) < least:
            raise must(f"{place}'{name}'", f"a whole number of at least {least}", row[name])
    for name, known in _KNOWN.items():
        if row.get(name, known[0]) not in known:
            raise must(f"{place}'{name}'", f"one of {', '.join(known)}", row[name])
    for name, kind in _JSON.items():
        try:
            valid = isinstance(json.loads(row[name]), kind) if name in row else True
        except ValueError:
            valid = False
        if not valid:
            raise must(f"{place}'{name}'", f"a {kind.__name__} in JSON", row[name])
    for name in ("alpha", "beta", "gain", "learning_rate"):
        if not math.isfinite(row.get(name, 0.0)):
            raise must(f"{place}'{name}'", "a finite number", row[name])
    try:
        base = _EMPTY if "identity" in row else defaults(row["study"], row["problem"])
        spec = RunSpec.from_dict(base | given)
    except UserError as error:
        raise UserError(f"{place}{error}") from None
    if row.get("identity", spec.identity) != spec.identity:
        raise UserError(
            f"{place}'identity' does not fit the configuration: a column was changed or lost. "
            "Without the column 'identity', what is empty takes the study's defaults."
        )
    return spec


_LEAST = {"seed": 0, "replicate": 0} | dict.fromkeys(
    ("G", "width", "depth", "degree", "steps", "diverged_at"), 1
)
_KNOWN = {
    "dtype": ("float32", "float64"),
    "draws": DRAWS,
    "curve": ("log", "all"),
}
_JSON = {"settings": dict, "optimizer_arguments": dict, "domain": list, "checkpoints": list}
_EMPTY = dict.fromkeys(("rba", "reference", "settings", "optimizer_arguments", "checkpoints"), "")


def _outcome(place: str, row: Row) -> Outcome:
    loss = row.get("loss")
    status = row.get("status") or ("ok" if loss is not None and math.isfinite(loss) else "diverged")
    if status not in _STATUSES:
        raise must(f"{place}'status'", f"one of {', '.join(_STATUSES)}", status)
    given = {name: row[name] for name in (*_RESULTS, *_ORIGIN) if name in row}
    base = {} if "identity" in row else {"machine": "imported"}
    return Outcome(**{**base, **given, "status": status})


@functools.cache
def defaults(study: str, problem: str) -> dict[str, Any]:
    """What a row of a study holds where it does not say: the study's own choice, else Kandle's."""
    declared = get(study) if study in names() else Study(study, (), (), ())
    alone = dataclasses.replace(declared, problems=(problem,), architectures=((1, 1, 1),))
    return next(alone.trainings())
