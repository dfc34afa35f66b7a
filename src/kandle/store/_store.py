"""Every finished run, crash-safe, in one SQLite file."""

import math
import os
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

from kandle._errors import must, needs_extra
from kandle.store import _sessions
from kandle.store._attachments import CHUNK, attach, read_curves, read_spectra
from kandle.store._blobs import Unreadable
from kandle.store._checks import checksum, combined
from kandle.store._columns import COLUMNS, TYPES
from kandle.store._errors import StoreError, StoreMoved, damaged_records, explained
from kandle.store._outcome import Curve, Outcome, Spectrum
from kandle.store._packed import open_packed, refuse_writing
from kandle.store._place import WriterLock, refuse_network
from kandle.store._rows import STORED, Row, parse, read_row, read_rows
from kandle.store._run import compact
from kandle.store._schema import FILE, connect_reader, connect_writer

if TYPE_CHECKING:
    import pandas as pd


class Run(Protocol):
    """What a store asks of a run's configuration: its identity, and its plain values."""

    @property
    def identity(self) -> str: ...
    def to_dict(self) -> dict[str, Any]: ...


AnyRun = TypeVar("AnyRun", bound=Run)
Put = Literal["added", "kept", "conflict"]


class SchemeLook(NamedTuple):
    """How an own scheme appears in tables and figures; empty text means the default."""

    label: str = ""
    color: str = ""


_INSERT = (
    f"INSERT INTO runs (identity, study, configuration, {', '.join(STORED)}) "
    f"VALUES (?, ?, ?, {', '.join('?' * len(STORED))})"
)
# Results are equal whatever time they took and wherever they were computed.
_COMPARED = ("status", "diverged_at", "loss", "l2", "l2_robust", "test_mse")


class Store:
    """The finished runs in a directory. One process writes at a time; any number read, at any time.

    Everything that is read is compared with its checksum; a damaged record is an error that names
    it.

    >>> with Store.open("own-runs", "w") as store:
    ...     len(store.frame("functions"))
    0
    """

    def __init__(
        self,
        directory: Path,
        connection: sqlite3.Connection,
        lock: WriterLock | None,
        path: Path | None = None,
    ):
        self.directory = directory
        self.path = path or directory / FILE
        self._connection = connection
        self._lock = lock
        self._added: defaultdict[str, list[str]] = defaultdict(list)
        self._file = _file_id(self.path)

    @classmethod
    def open(cls, directory: str | Path, mode: Literal["r", "w"] = "r") -> "Store":
        """Open the store in `directory`, for reading or as its one writer (which creates it if
        needed). Packed stores, such as the one shipped as `results`, can only be read.
        """
        directory = Path(directory)
        if mode == "r":
            path = open_packed(directory) / FILE
            return cls(directory, connect_reader(path), None, path)
        if mode != "w":
            raise must("'mode' of Store.open", "'r' or 'w'", mode)
        refuse_writing(directory)
        path = directory / FILE
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise must("The store", "a directory", str(directory)) from None
        refuse_network(directory)
        lock = WriterLock(directory)
        try:
            connection, without_digests = connect_writer(path)
            store = cls(directory, connection, lock)
            if without_digests:
                with store.transaction():
                    store._seal_all()
            return store
        except BaseException:
            lock.release()
            raise

    def close(self) -> None:
        with explained(self.path):
            self._connection.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __len__(self) -> int:
        with explained(self.path):
            return self._connection.execute("SELECT count(*) FROM runs").fetchone()[0]

    # writing

    def add(self, spec: Run, outcome: Outcome) -> None:
        """Store one finished run; when this returns, the run survives any crash."""
        self.add_many([(spec, outcome)])

    def add_many(self, runs: Iterable[tuple[Run, Outcome]], *, session: int | None = None) -> None:
        """Store finished runs in one transaction: all of them, or none.

        A run that failed again keeps its last reason. Runs that are there already are not counted.
        """
        with self.transaction():
            stored = 0
            for spec, outcome in runs:
                put = self.put(spec.identity, spec.to_dict(), outcome)
                if put == "conflict":
                    raise StoreError(
                        f"{self.path} holds other results for run {spec.identity[:12]}."
                    )
                if put == "kept" and outcome.status == "failed":
                    self._record_failure(spec.identity, outcome)
                stored += put == "added"
            if session is not None:
                _sessions.update(self._connection, session, more=stored)

    def put(self, identity: str, configuration: Mapping[str, Any], outcome: Outcome) -> Put:
        """Store a run unless it is there; to be called within `transaction()`.

        A finished run is never changed: equal results are `kept` (a missing curve or spectrum is
        added), different ones are a `conflict` and left alone. A `failed` run is no result, and is
        replaced by one.
        """
        execute = self._connection.execute
        found = execute(
            f"SELECT id, {', '.join(_COMPARED)} FROM runs WHERE identity = ?", (identity,)
        ).fetchone()
        if found is not None:
            run, *old = found
            if outcome.status == "failed":
                return "kept"
            if old[0] != "failed":
                if old != [_plain(getattr(outcome, name)) for name in _COMPARED]:
                    return "conflict"
                return self._attach(run, identity, outcome)
            execute("DELETE FROM runs WHERE id = ?", (run,))
        study = configuration["study"]
        values = [_plain(getattr(outcome, name)) for name in STORED]
        cursor = execute(_INSERT, (identity, study, compact(configuration), *values))
        if found is None:
            self._added[study].append(identity)
        self._attach(cursor.lastrowid or 0, identity, outcome)
        return "added"

    def _record_failure(self, identity: str, outcome: Outcome) -> None:
        """Let a run that failed again keep its last reason."""
        execute = self._connection.execute
        for (run,) in execute(
            "UPDATE runs SET reason = ?, version = ? "
            "WHERE identity = ? AND status = 'failed' RETURNING id",
            (outcome.reason, outcome.version, identity),
        ).fetchall():
            self._seal(run)

    def _seal_all(self) -> None:
        """Write the checksums that the runs of an older format lack."""
        for row in read_rows(self._connection)[0]:
            self._added[row.study].append(row.identity)
            self._attach(row.id, row.identity, Outcome(row.status))

    def _seal(self, run: int) -> None:
        """Write the checksum of a row."""
        row = read_row(self._connection, run)
        assert row is not None
        self._connection.execute(
            "UPDATE runs SET checksum = ? WHERE id = ?", (row.compute_checksum(), run)
        )

    def _attach(self, run: int, identity: str, outcome: Outcome) -> Put:
        """Add the curve and spectra that a run lacks, and seal it, unless any of them contradicts
        what is there.
        """
        if not attach(self._connection, run, identity, outcome):
            return "conflict"
        self._seal(run)
        return "kept"

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is written within is stored together when it ends, or not at all."""
        with explained(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            self._added.clear()
            try:
                yield
                self._extend_digests()
                self._connection.execute("COMMIT")
            except BaseException:
                # Some errors (a full disk among them) have rolled back already.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        self.check_in_place()

    def check_in_place(self) -> None:
        """Raise unless the file that is open is still the one at the store's path."""
        if self._file is None or _file_id(self.path) != self._file:
            raise StoreMoved(
                f"{self.path} was deleted, moved or replaced while it was being written."
            )

    def save_copy(self, directory: Path) -> None:
        """Write all runs to a new store in `directory`, even if this one's file was deleted."""
        directory.mkdir(parents=True)
        with explained(directory / FILE):
            copy = sqlite3.connect(directory / FILE)
            try:
                self._connection.backup(copy)
            finally:
                copy.close()

    def _extend_digests(self) -> None:
        for study, identities in self._added.items():
            old = self._connection.execute(
                "SELECT runs, digest FROM digests WHERE study = ?", (study,)
            ).fetchone()
            runs, digest = old or (0, "0")
            self._connection.execute(
                "INSERT OR REPLACE INTO digests VALUES (?, ?, ?)",
                (study, runs + len(identities), combined(identities, digest)),
            )

    def begin_session(
        self, study: str, scale: str, command: str, *, planned: int, done: int
    ) -> int:
        """Record that a command starts to fill this store, and return the session's number."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        # Arguments that are not valid text (a path, say) cannot be stored as they are.
        command = command.encode("utf-8", "backslashreplace").decode()
        with self.transaction():
            session = _sessions.Session(study, scale, command, now, planned, done)
            return _sessions.insert(self._connection, session)

    def end_session(self, number: int, ended: str) -> None:
        """Record how a session ended: `complete` or `stopped`."""
        with self.transaction():
            _sessions.update(self._connection, number, ended=ended)

    def add_sessions(self, sessions: Iterable[_sessions.Session]) -> None:
        """Copy sessions of another store."""
        with self.transaction():
            for session in sessions:
                _sessions.insert(self._connection, session)

    def add_schemes(self, schemes: Mapping[tuple[str, str], SchemeLook]) -> None:
        """Record how own schemes appear, by (scheme, settings); the newest look counts."""
        with self.transaction():
            for key, look in schemes.items():
                self._connection.execute(
                    "INSERT OR REPLACE INTO schemes VALUES (?, ?, ?, ?, ?)",
                    (*key, *look, checksum((*key, *look))),
                )

    # reading

    def rows(self, study: str | None = None) -> list[Row]:
        """The runs (of one study), compared with their checksums, in the order they were stored."""
        with explained(self.path):
            rows, damaged = read_rows(self._connection, study=study)
        if damaged:
            raise damaged_records(self.path, damaged)
        return rows

    def studies(self) -> dict[str, int]:
        """How many runs each study has, in alphabetical order."""
        counts: dict[str, int] = defaultdict(int)
        for row in self.rows():
            counts[row.study] += 1
        return dict(sorted(counts.items()))

    def sessions(self) -> dict[int, _sessions.Session]:
        """All sessions by number, oldest first."""
        with explained(self.path):
            sessions, damaged = _sessions.read(self._connection)
        if damaged:
            raise damaged_records(self.path, damaged)
        return sessions

    def schemes(self) -> dict[tuple[str, str], SchemeLook]:
        """How own schemes appear, by (scheme, settings)."""
        with explained(self.path):
            rows = self._connection.execute("SELECT * FROM schemes").fetchall()
        damaged = [f"scheme {row[0]!r}" for row in rows if checksum(row[:-1]) != row[-1]]
        if damaged:
            raise damaged_records(self.path, damaged)
        return {(scheme, settings): SchemeLook(*look) for scheme, settings, *look, _ in rows}

    def missing(self, specs: Iterable[AnyRun], *, retry_failed: bool = False) -> list[AnyRun]:
        """Those of `specs` that the store lacks, in their order; failed runs count as missing if
        they are retried.
        """
        stored = {r.identity for r in self.rows() if not (retry_failed and r.status == "failed")}
        return [spec for spec in specs if spec.identity not in stored]

    def frame(self, study: str | None = None) -> "pd.DataFrame":
        """The runs as a pandas frame with the exported columns, one row per run, in the order they
        were stored.
        """
        with needs_extra("Store.frame", "study"):
            import pandas as pd

        with explained(self.path):
            records = [row.record() for row in self.rows(study)]
            try:
                return pd.DataFrame(
                    {
                        name: pd.Series([record[name] for record in records], dtype=TYPES[name])
                        for name in COLUMNS
                    }
                )
            except (ValueError, TypeError, OverflowError) as error:  # of an older format
                raise Unreadable(f"a column holds something else: {error}") from None

    def curves(self, identities: Iterable[str] | None = None) -> dict[str, Curve]:
        """The loss curves of the runs (of all by default), by identity; runs without one are left
        out.
        """
        return read_curves(self._connection, self.path, self._selected(identities))

    def spectra(self, identities: Iterable[str] | None = None) -> dict[str, list[Spectrum]]:
        """The kernel spectra of the runs (of all by default), by identity, in order of block and
        step.
        """
        return read_spectra(self._connection, self.path, self._selected(identities))

    def _selected(self, identities: Iterable[str] | None) -> list[Row]:
        wanted = None if identities is None else set(identities)
        return [row for row in self.rows() if wanted is None or row.identity in wanted]

    def records(self) -> Iterator[tuple[str, dict[str, Any], Outcome]]:
        """Every run whole, curve and spectra included: (identity, configuration, outcome)."""
        rows = self.rows()
        for start in range(0, len(rows), CHUNK):
            chunk = rows[start : start + CHUNK]
            curves = read_curves(self._connection, self.path, chunk)
            spectra = read_spectra(self._connection, self.path, chunk)
            for row in chunk:
                with explained(self.path):
                    configuration = parse(row.configuration)
                outcome = row.outcome(
                    curves.get(row.identity), tuple(spectra.get(row.identity, ()))
                )
                yield row.identity, configuration, outcome


def _file_id(path: Path) -> tuple[int, int] | None:
    """The device and inode of a file; None if it is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _plain(value: Any) -> Any:
    """`value` as SQLite holds it: a plain number or text, NULL for a number that does not exist."""
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and math.isnan(value) else value
