"""The rows of the table `runs`: read, compared with their checksums, and parsed."""

import json
import math
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from kandle.store._blobs import Unreadable
from kandle.store._checks import checksum, combined
from kandle.store._outcome import OUTCOME_KINDS, OUTCOME_TYPES, Curve, Outcome, Spectrum
from kandle.store._run import ADDED_DEFAULTS, FIELDS, RunSpec

STORED = tuple(OUTCOME_TYPES)
"""The columns of an outcome, in the order of the table."""
_COLUMNS = (
    *("id", "identity", "study", "configuration"),
    *(*STORED, "curve_sum", "spectra_sum", "checksum"),
)
_NUMBERS = tuple(name for name in STORED if OUTCOME_TYPES[name] is float)


class Row(NamedTuple):
    """One row of the table `runs`, as SQLite holds it."""

    id: int
    identity: str
    study: str
    configuration: str
    status: str
    diverged_at: int | None
    loss: float | None
    l2: float | None
    l2_robust: float | None
    test_mse: float | None
    wall_s: float | None
    machine: str
    backend: str
    version: str
    reason: str
    curve_sum: str | None
    spectra_sum: str | None
    checksum: str | None

    def compute_checksum(self) -> str:
        return checksum(self[1:-1])

    def is_intact(self, *, checked: bool) -> bool:
        """Whether the row is as it was written; in a store of an older format, which is not
        `checked`, that is not known.
        """
        return self.checksum == self.compute_checksum() if checked else self.checksum is None

    @property
    def name(self) -> str:
        """What a message calls the run."""
        return f"run {str(self.identity)[:12]} of study {str(self.study)!r}"

    def check_configuration(self) -> None:
        """An error unless this is a run: a configuration, its identity, and a machine's name."""
        if RunSpec.from_dict(parse(self.configuration)).identity != self.identity:
            raise Unreadable("its configuration does not fit its identity")
        OUTCOME_KINDS["machine"].check("'machine' of a run", self.machine)

    def outcome(self, curve: Curve | None = None, spectra: tuple[Spectrum, ...] = ()) -> Outcome:
        values: dict[str, Any] = {name: getattr(self, name) for name in STORED}
        for name in _NUMBERS:
            if values[name] is None:
                values[name] = math.nan
        return Outcome(**values, curve=curve, spectra=spectra)

    def record(self) -> dict[str, Any]:
        """The run's values by exported column."""
        configuration = ADDED_DEFAULTS | parse(self.configuration)
        if missing := [name for name in FIELDS if name not in configuration]:
            raise Unreadable(f"{self.name} lacks {missing[0]!r}")
        stored = {name: getattr(self, name) for name in (*STORED, "identity")}
        return {**configuration, **stored}


def parse(configuration: str) -> dict[str, Any]:
    """The values of a configuration, which is JSON."""
    try:
        values = json.loads(configuration)
    except (ValueError, TypeError, RecursionError) as error:
        raise Unreadable(f"a configuration cannot be read: {error}") from None
    if not isinstance(values, dict):
        raise Unreadable("a configuration is not a table")
    return values


def read_row(connection: sqlite3.Connection, number: int) -> Row | None:
    """One row by its number, unchecked; None if there is none."""
    select = f"SELECT {', '.join(_COLUMNS)} FROM runs WHERE id = ?"
    found = connection.execute(select, (number,)).fetchone()
    return None if found is None else Row._make(found)


def read_rows(
    connection: sqlite3.Connection, study: str | None = None
) -> tuple[list[Row], list[str]]:
    """The intact rows (of one study) in the order they were stored, and the names of what is
    damaged.
    """
    # A plus sign keeps SQLite from using an index: a damaged one would hide rows.
    condition, parameters = ("WHERE +study = ?", (study,)) if study is not None else ("", ())
    select = f"SELECT {', '.join(_COLUMNS)} FROM runs {condition} ORDER BY id"
    # Both queries see one state of the file, also while another process writes to it.
    own = not connection.in_transaction
    if own:
        connection.execute("BEGIN")
    try:
        found = list(map(Row._make, connection.execute(select, parameters)))
        recorded = connection.execute(
            f"SELECT study, runs, digest FROM digests {condition}", parameters
        ).fetchall()
    finally:
        if own:
            connection.execute("COMMIT")
    checked = has_checksums(found, recorded)
    rows = [row for row in found if row.is_intact(checked=checked)]
    damaged = [row.name for row in found if not row.is_intact(checked=checked)]
    # A damaged row is named already; only where there is none must vanished rows be looked for.
    return rows, damaged or (vanished(rows, recorded) if checked else [])


def has_checksums(rows: Sequence[Row], recorded: Sequence[tuple]) -> bool:
    """Whether a store is of a format with checksums: a store that has any has them all."""
    return bool(recorded) or any(row.checksum is not None for row in rows)


def vanished(rows: list[Row], recorded: list[tuple[str, int, str]]) -> list[str]:
    """A line for each study whose rows are not those that were recorded."""
    identities: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        identities[row.study].append(row.identity)
    expected = {study: (runs, digest) for study, runs, digest in recorded}
    return [
        f"study {study!r} ({len(identities[study]):,} runs found, "
        f"{expected.get(study, (0, ''))[0]} recorded)"
        for study in sorted({*expected, *identities}, key=str)
        if expected.get(study, (0, combined([])))
        != (len(identities[study]), combined(identities[study]))
    ]
