"""Find every damaged record of a store, and rescue the others."""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kandle._errors import UserError
from kandle.store import _sessions
from kandle.store._blobs import Unreadable, unpack
from kandle.store._checks import checksum, curve_checksum, spectra_checksum
from kandle.store._errors import StoreError
from kandle.store._outcome import Curve, Spectrum
from kandle.store._place import WriterLock, refuse_network
from kandle.store._rows import Row, parse, read_row, vanished
from kandle.store._schema import FILE, connect_reader
from kandle.store._store import SchemeLook, Store

_RUNS_PER_TRANSACTION = 1000


@dataclass(frozen=True)
class Verification:
    """What a store holds: intact runs, how many of them have no checksum (they were stored by an
    earlier version), and one line for each damaged record.
    """

    intact: int
    unchecked: int
    damaged: tuple[str, ...]


@dataclass(frozen=True)
class Repaired:
    """How many runs a repair kept, what it dropped, and where it left the damaged file."""

    kept: int
    dropped: tuple[str, ...]
    backup: Path | None


class _Intact(NamedTuple):
    row: Row
    curve: Curve | None
    spectra: tuple[Spectrum, ...]


def verify(directory: str | Path) -> Verification:
    """Compare everything in a store with its checksum. Nothing is changed."""
    connection = connect_reader(Path(directory) / FILE)
    try:
        checked = _is_checked(connection)
        found = list(_runs(connection, checked))
        intact = [run.row for run in found if isinstance(run, _Intact)]
        damaged = [run for run in found if isinstance(run, str)]
        damaged += _other_damage(connection, intact, checked, bool(damaged))
    finally:
        connection.close()
    return Verification(len(intact), sum(row.checksum is None for row in intact), tuple(damaged))


def repair(directory: str | Path) -> Repaired:
    """Copy the intact records of a damaged store into a new file, which takes its place.

    The damaged file stays beside it as `runs.sqlite.damaged`. Runs that are dropped are missing
    from then on, so that the same study trains them again.
    """
    directory = Path(directory)
    found = verify(directory)
    if not found.damaged:
        return Repaired(found.intact, (), None)
    refuse_network(directory)
    lock = WriterLock(directory)
    draft = Path(tempfile.mkdtemp(prefix=".repair-", dir=directory))
    try:
        connection = connect_reader(directory / FILE)
        try:
            with Store.open(draft, "w") as store:
                _copy_intact(connection, store)
                kept = len(store)
        finally:
            connection.close()
        return Repaired(kept, found.damaged, _take_place(draft, directory))
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        lock.release()


def _is_checked(connection: sqlite3.Connection) -> bool:
    """Whether the store is of a format with checksums."""
    for query in ("SELECT count(*) FROM digests", "SELECT count(checksum) FROM runs"):
        try:
            if connection.execute(query).fetchone()[0]:
                return True
        except (sqlite3.Error, UnicodeDecodeError):
            return True  # tables of an older format are shown as empty ones
    return False


def _runs(connection: sqlite3.Connection, checked: bool) -> Iterator[_Intact | str]:
    """Every run that can be read whole, and a line for each that cannot."""
    for number in _numbers(connection):
        name = f"run number {number}"
        try:
            row = read_row(connection, number)
            if row is None:
                continue
            name = row.name
            yield _whole(connection, row, checked)
        except (Unreadable, UserError) as error:
            yield f"{name}: {error}"
        except (sqlite3.Error, UnicodeDecodeError) as error:
            yield f"{name}: cannot be read ({error})"


def _numbers(connection: sqlite3.Connection) -> list[int]:
    """The numbers of all rows; where the table cannot be read through, all that there may be."""
    try:
        return [number for (number,) in connection.execute("SELECT id FROM runs ORDER BY id")]
    except (sqlite3.Error, UnicodeDecodeError):
        # Numbers are given in order, and no row is shorter than this.
        (size,) = connection.execute(
            "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
        ).fetchone()
        return list(range(1, size // 128 + 2))


def _whole(connection: sqlite3.Connection, row: Row, checked: bool) -> _Intact:
    """A run with its curve and spectra, or an error that says what is damaged."""
    if not row.is_intact(checked=checked):
        raise Unreadable("its configuration or results were changed")
    row.check_configuration()
    curve = connection.execute("SELECT steps, loss FROM curves WHERE run = ?", (row.id,)).fetchone()
    if checked and row.curve_sum != curve_checksum(row.identity, curve or ()):
        raise Unreadable("its curve was changed or lost")
    spectra = connection.execute(
        "SELECT block, step, eigenvalues, error_share FROM spectra WHERE run = ? "
        "ORDER BY block, step",
        (row.id,),
    ).fetchall()
    if checked and row.spectra_sum != spectra_checksum(row.identity, spectra):
        raise Unreadable("its spectra were changed or lost")
    return _Intact(
        row,
        Curve(*map(unpack, curve)) if curve else None,
        tuple(
            Spectrum(block, step, unpack(values), None if share is None else unpack(share))
            for block, step, values, share in spectra
        ),
    )


def _other_damage(
    connection: sqlite3.Connection, rows: list[Row], checked: bool, runs_damaged: bool
) -> list[str]:
    """Lines for what is wrong beyond single runs."""
    lines = []
    try:
        lines += _sessions.read(connection)[1]
        lines += _schemes(connection)[1]
        if checked and not runs_damaged:
            recorded = connection.execute("SELECT study, runs, digest FROM digests").fetchall()
            lines += vanished(rows, recorded)
        # Damage that hides in an index, or in pages that no record uses.
        pages = [text for (text,) in connection.execute("PRAGMA integrity_check(10)")]
        if pages != ["ok"] and not (lines or runs_damaged):
            lines += [f"the file: {' '.join(str(text).split())}" for text in pages]
    except (sqlite3.Error, TypeError, ValueError, AttributeError) as error:
        lines.append(f"the file: {error}")
    return lines


def _schemes(
    connection: sqlite3.Connection,
) -> tuple[dict[tuple[str, str], SchemeLook], list[str]]:
    intact, damaged = {}, []
    for *values, found in connection.execute("SELECT * FROM schemes"):
        if found == checksum(tuple(values)):
            intact[values[0], values[1]] = SchemeLook(values[2], values[3])
        else:
            damaged.append(f"scheme {values[0]!r}: its label or color was changed")
    return intact, damaged


def _copy_intact(connection: sqlite3.Connection, store: Store) -> None:
    chunk: list[_Intact] = []
    for run in _runs(connection, _is_checked(connection)):
        if isinstance(run, _Intact):
            chunk.append(run)
        if len(chunk) == _RUNS_PER_TRANSACTION:
            _put(store, chunk)
            chunk = []
    _put(store, chunk)
    try:
        store.add_sessions(_sessions.read(connection)[0].values())
        store.add_schemes(_schemes(connection)[0])
    except sqlite3.Error:
        pass  # a record of past commands; the runs are what counts


def _put(store: Store, runs: list[_Intact]) -> None:
    with store.transaction():
        for row, curve, spectra in runs:
            store.put(row.identity, parse(row.configuration), row.outcome(curve, spectra))


def _take_place(draft: Path, directory: Path) -> Path:
    """Put the new file in the place of the damaged one, which is renamed."""
    backup = directory / f"{FILE}.damaged"
    count = 1
    while backup.exists():
        count += 1
        backup = directory / f"{FILE}.damaged-{count}"
    for suffix in ("-wal", "-shm"):
        if (beside := directory / (FILE + suffix)).exists():
            os.replace(beside, backup.with_name(backup.name + suffix))
    os.replace(directory / FILE, backup)
    try:
        os.replace(draft / FILE, directory / FILE)
    except OSError as error:
        raise StoreError(f"The repaired store cannot be written: {error}.") from None
    return backup
