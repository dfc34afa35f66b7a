"""The curves and spectra of runs, in tables beside theirs and under checksums of their own."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from kandle.store._blobs import pack, unpack
from kandle.store._checks import curve_checksum, spectra_checksum
from kandle.store._errors import damaged_records, explained
from kandle.store._outcome import Curve, Outcome, Spectrum
from kandle.store._rows import Row

# How many runs one query asks for.
CHUNK = 500


def attach(connection: sqlite3.Connection, run: int, identity: str, outcome: Outcome) -> bool:
    """Add what a run lacks of its curve and spectra; False, and nothing is added, if any of them
    contradicts what is there. The checksum of the run itself is the caller's.
    """
    execute = connection.execute
    curve = () if outcome.curve is None else tuple(map(pack, outcome.curve))
    old_curve = execute("SELECT steps, loss FROM curves WHERE run = ?", (run,)).fetchone()
    rows = execute("SELECT * FROM spectra WHERE run = ?", (run,)).fetchall()
    old = {(block, step): packed for _, block, step, *packed in rows}
    spectra = {
        (block, int(step)): [pack(eigenvalues), None if share is None else pack(share)]
        for block, step, eigenvalues, share in outcome.spectra
    }
    if (curve and old_curve and curve != old_curve) or any(
        _contradict(packed, old[key]) for key, packed in spectra.items() if key in old
    ):
        return False
    if curve and not old_curve:
        execute("INSERT INTO curves VALUES (?, ?, ?)", (run, *curve))
    for key, packed in spectra.items():
        if key not in old:
            execute("INSERT INTO spectra VALUES (?, ?, ?, ?, ?)", (run, *key, *packed))
    every = [(*key, *packed) for key, packed in (spectra | old).items()]
    execute(
        "UPDATE runs SET curve_sum = ?, spectra_sum = ? WHERE id = ?",
        (curve_checksum(identity, old_curve or curve), spectra_checksum(identity, every), run),
    )
    return True


def read_curves(
    connection: sqlite3.Connection, path: Path, rows: Sequence[Row]
) -> dict[str, Curve]:
    """The loss curves of runs, by identity; runs without one are left out."""
    found = _of_runs(connection, path, "curves", "run, steps, loss", rows)
    packed = {run: curve for run, *curve in found}
    damaged = [
        f"curve of {row.name}"
        for row in rows
        if row.checksum and row.curve_sum != curve_checksum(row.identity, packed.get(row.id, ()))
    ]
    if damaged:
        raise damaged_records(path, damaged)
    with explained(path):
        return {
            row.identity: Curve(*map(unpack, packed[row.id])) for row in rows if row.id in packed
        }


def read_spectra(
    connection: sqlite3.Connection, path: Path, rows: Sequence[Row]
) -> dict[str, list[Spectrum]]:
    """The kernel spectra of runs, by identity, in order of block and step."""
    packed: defaultdict[int, list[tuple]] = defaultdict(list)
    columns = "run, block, step, eigenvalues, error_share"
    for run, *found in _of_runs(connection, path, "spectra", columns, rows):
        packed[run].append(tuple(found))
    damaged = [
        f"spectra of {row.name}"
        for row in rows
        if row.checksum
        and row.spectra_sum != spectra_checksum(row.identity, packed.get(row.id, ()))
    ]
    if damaged:
        raise damaged_records(path, damaged)
    with explained(path):
        return {
            row.identity: [
                Spectrum(block, step, unpack(values), None if share is None else unpack(share))
                for block, step, values, share in sorted(packed[row.id], key=lambda r: r[:2])
            ]
            for row in rows
            if row.id in packed
        }


def _of_runs(
    connection: sqlite3.Connection, path: Path, table: str, columns: str, rows: Sequence[Row]
) -> Iterator[tuple]:
    """The rows that another table holds for some runs."""
    with explained(path):
        for start in range(0, len(rows), CHUNK):
            chunk = [row.id for row in rows[start : start + CHUNK]]
            where = f"WHERE run IN ({','.join('?' * len(chunk))})"
            yield from connection.execute(f"SELECT {columns} FROM {table} {where}", chunk)


def _contradict(one: Sequence[bytes | None], other: Sequence[bytes | None]) -> bool:
    """Whether two packed spectra differ; a share that one of them lacks is no difference."""
    return any(a is not None and b is not None and a != b for a, b in zip(one, other, strict=True))
