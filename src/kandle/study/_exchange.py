"""Rows in and out of a store: CSV and Parquet."""

import csv
import dataclasses
import functools
import io
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kandle import init
from kandle._errors import UserError, must, needs_extra, unknown
from kandle._text import printable
from kandle.store import (
    COLUMNS,
    FIELDS,
    KINDS,
    OUTCOME_KINDS,
    PYTHON,
    REQUIRED,
    Gathered,
    Outcome,
    RunSpec,
    Store,
    gather,
)
from kandle.study._catalogue import Facts, listed_facts, listed_problems, scheme_facts
from kandle.study._registry import INDEPENDENT, draws_names, get, names
from kandle.study._study import Study

if TYPE_CHECKING:
    import pandas as pd

REQUIRED_COLUMNS = (*REQUIRED, "loss", "l2")


def export(store: Store, path: Path, study: str | None = None) -> int:
    """Write the store's rows as CSV or Parquet, by the file's suffix; return how many."""
    write = {".csv": _to_csv, ".parquet": _to_parquet}.get(path.suffix)
    if write is None:
        raise must("The file to export to", "named *.csv or *.parquet", str(path))
    if study is not None and study not in (stored := store.studies()):
        raise unknown("study in this store:", study, stored)
    frame = store.frame(study)
    # The file appears under its name only when it is complete.
    draft = path.with_name(f".{path.name}.part")
    try:
        write(frame, draft)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return len(frame)


def _to_csv(frame: "pd.DataFrame", path: Path) -> None:
    # A received store may hold names that would break the file, or a terminal that shows it.
    text = [name for name in frame if PYTHON[str(name)] is str]
    frame = frame.assign(**{str(name): frame[name].map(printable) for name in text})
    frame.to_csv(path, index=False, lineterminator="\n")


def _to_parquet(frame: "pd.DataFrame", path: Path) -> None:
    with needs_extra("Writing a Parquet file", "study"):
        import pyarrow  # noqa: F401

    frame.to_parquet(path, index=False)


@dataclass(frozen=True)
class Imported:
    """The result of an import.

    `repeated` rows have the configuration of an earlier row of the file; `ignored` columns are
    unknown.
    """

    rows: int
    repeated: int
    ignored: tuple[str, ...]
    gathered: Gathered


def import_rows(path: Path, store: Store) -> Imported:
    """Put the rows of a CSV or Parquet file into `store`, as `read_file` returns them."""
    return read_file(path).into(store)


@dataclass(frozen=True)
class Rows:
    """The rows of a file: whole runs, how many repeat an earlier configuration, and the columns
    that were ignored.
    """

    runs: list[tuple[str, dict[str, Any], Outcome]]
    repeated: int
    ignored: tuple[str, ...]

    def into(self, store: Store) -> Imported:
        return Imported(len(self.runs), self.repeated, self.ignored, gather(store, self.runs))


def read_file(path: Path) -> Rows:
    """Read and check the rows of a CSV or Parquet file.

    Missing columns take the defaults of the row's study. Rows that repeat a configuration are
    stored as further replicates of it (`replicate` 1, 2, …), in the order of the file; importing
    the file again changes nothing. Nothing that a row names is imported: no code of others runs.
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
    return Rows(runs, repeated, ignored)


Row = dict[str, Any]
"""A row's values by column; empty ones are left out."""


def _read(path: Path) -> tuple[list[str], Iterator[Row]]:
    """The columns and rows of a file."""
    if not path.is_file():
        raise UserError(f"There is no file {path}.")
    read = {".csv": _from_csv, ".parquet": _from_parquet}.get(path.suffix)
    if read is None:
        raise must("The file to import", "named *.csv or *.parquet", str(path))
    columns, rows = read(path)
    for column in REQUIRED_COLUMNS:
        if column not in columns:
            raise UserError(
                f"{path} lacks the column {column!r}. Required: {', '.join(REQUIRED_COLUMNS)}."
            )
    return columns, rows


def _from_csv(path: Path) -> tuple[list[str], Iterator[Row]]:
    # Spreadsheets write a byte order mark, which is not part of the first name.
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
    with needs_extra("Reading a Parquet file", "study"):
        import pyarrow
        import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path)
        columns = table.column_names
    except (pyarrow.ArrowException, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not a Parquet file: {error}.") from None

    def lines() -> Iterator[dict[str, Any]]:
        try:
            for batch in table.to_batches():
                yield from batch.to_pylist()
        except UnicodeDecodeError as error:
            raise UserError(f"{path} has text that is not UTF-8: {error}.") from None

    rows = (_row(f"{path}, row {n}: ", row.items()) for n, row in enumerate(lines(), 1))
    return columns, rows


def _row(place: str, values: Iterable[tuple[str, Any]]) -> Row:
    parsed = (
        (column, _value(place, column, value))
        for column, value in values
        if column in PYTHON and value is not None and value != ""
    )
    return {column: value for column, value in parsed if value is not None}


def _value(place: str, column: str, value: Any) -> Any:
    """A value of a file in the type of its column; None for NaN, which means "no number"."""
    kind = PYTHON[column]
    try:
        if kind in (float, float | None):
            number = float(value)
            return None if math.isnan(number) else number
        if kind in (int, int | None):
            # Other programs write whole numbers as 5.0 where a column has gaps.
            text = isinstance(value, str) and value.lstrip("-").isdigit()
            exact = text or isinstance(value, int)
            number = int(value) if exact else int(float(value))
            if not -(2**63) <= number < 2**63 or not (exact or number == float(value)):
                raise ValueError
            return number
        if kind is bool:
            return {"true": True, "false": False}[str(value).lower()]
    except (ValueError, KeyError, OverflowError, TypeError):
        words = {float: "a number", float | None: "a number", bool: "True or False"}
        raise must(f"{place}'{column}'", words.get(kind, "a whole number"), value) from None
    return str(value)


def _spec(place: str, row: Row) -> RunSpec:
    """The run that a row describes. Nothing that it names is imported."""
    given = {name: value for name, value in row.items() if name in FIELDS}
    for name in REQUIRED:
        if name not in given:
            raise must(f"{place}'{name}'", "given", None)
    for name, value in given.items():
        KINDS[name].check(f"{place}'{name}'", value)
    if given.get("draws", INDEPENDENT) not in draws_names():
        raise must(f"{place}'draws'", f"one of {', '.join(draws_names())}", given["draws"])
    # An exported row has an identity. Its configuration is complete: empty means empty.
    whole = "identity" in row
    built_in = given["scheme"] in init.SCHEMES
    for name in scheme_facts(given["scheme"]).exponents if built_in else ():
        if name not in given:
            raise must(f"{place}'{name}'", f"given for {given['scheme']}", None)
    try:
        base = {} if whole else defaults(given["study"], given["problem"], given.get("steps"))
    except UserError as error:
        raise UserError(f"{place}{error}") from None
    spec = RunSpec.from_dict(base | given)
    if row.get("identity", spec.identity) != spec.identity:
        raise UserError(
            f"{place}'identity' does not fit the configuration: a column was changed or lost. "
            "Without the column 'identity', what is empty takes the study's defaults."
        )
    return spec


def _outcome(place: str, row: Row) -> Outcome:
    loss = row.get("loss")
    finished = loss is not None and math.isfinite(loss)
    origin = {} if "identity" in row else {"machine": "imported"}
    given = {name: value for name, value in row.items() if name in OUTCOME_KINDS}
    values = {"status": "ok" if finished else "diverged", **origin, **given}
    for name, value in values.items():
        OUTCOME_KINDS[name].check(f"{place}'{name}'", value)
    return Outcome(**values)


@functools.cache
def defaults(study: str, problem: str, steps: int | None = None) -> dict[str, Any]:
    """What a row of a study holds where a column is missing: the study's own choice, else
    Kandle's.

    A user's own problem is not imported: `steps` must be given, and it counts as a function.
    """
    facts = listed_facts(problem)
    if facts is None:
        if ":" not in problem:
            known = [*listed_problems(), "or your own as module:object"]
            raise unknown("problem", problem, known)
        if steps is None:
            raise must("'steps'", "given for a problem of your own", None)
        facts = Facts("function", default_steps=steps)
    declared = get(study) if study in names() else Study(study, (), (), ())
    alone = dataclasses.replace(
        declared,
        problems=(problem,),
        architectures=((1, 1, 1),),
        # A recipe's schedule and the checkpoints are those of a run of so many steps.
        steps=steps or declared.steps,
    )
    return next(alone.trainings(lambda _: facts))
