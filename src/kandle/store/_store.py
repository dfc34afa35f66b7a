"""Every finished run, crash-safe, in one SQLite file."""

import json
import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from kandle._errors import must
from kandle.store._blobs import pack, unpack
from kandle.store._columns import COLUMNS, LATER, RESULTS, TYPES
from kandle.store._errors import StoreError, explained
from kandle.store._outcome import Curve, Outcome, Spectrum
from kandle.store._place import WriterLock, refuse_network
from kandle.store._schema import FILE, connect_reader, connect_writer

if TYPE_CHECKING:
    import pandas as pd


class Run(Protocol):
    """What a store asks of a run's configuration: a name for it, and its plain values."""

    @property
    def identity(self) -> str: ...
    def to_dict(self) -> dict[str, Any]: ...


Put = Literal["added", "kept", "conflict"]

_ORIGIN = ("machine", "backend", "version", "reason")
_STORED = (*RESULTS, *_ORIGIN)
_INSERT = (
    f"INSERT INTO runs (identity, study, configuration, {', '.join(_STORED)}) "
    f"VALUES (?, ?, ?, {', '.join('?' * len(_STORED))})"
)
# "Equal results" never includes how long they took or where they were made.
_COMPARED = ("status", "diverged_at", "loss", "l2", "l2_robust", "test_mse")
_CHUNK = 500


class Store:
    """The finished runs in a directory. One process writes at a time; any number read, at any time.

    >>> with Store.open("results", "w") as store:  # doctest: +SKIP
    ...     store.add(spec, outcome)
    >>> Store.open("results").frame("functions")  # doctest: +SKIP
    """

    def __init__(self, directory: Path, connection: sqlite3.Connection, lock: WriterLock | None):
        self.directory = directory
        self._connection = connection
        self._lock = lock

    @classmethod
    def open(cls, directory: str | Path, mode: Literal["r", "w"] = "r") -> "Store":
        """Open the store in `directory`, for reading or as its one writer (which creates it if
        needed).
        """
        directory = Path(directory)
        path = directory / FILE
        if mode == "r":
            return cls(directory, connect_reader(path), None)
        if mode != "w":
            raise must("'mode' of Store.open", "'r' or 'w'", mode)
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise must("The store", "a directory", str(directory)) from None
        refuse_network(directory)
        lock = WriterLock(directory)
        try:
            return cls(directory, connect_writer(path), lock)
        except BaseException:
            lock.release()
            raise

    @property
    def path(self) -> Path:
        return self.directory / FILE

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
        return self.query("SELECT count(*) FROM runs")[0][0]

    # writing

    def add(self, spec: Run, outcome: Outcome) -> None:
        """Store one finished run; when this returns, the run survives any crash."""
        self.add_many([(spec, outcome)])

    def add_many(self, runs: Iterable[tuple[Run, Outcome]], *, session: int | None = None) -> None:
        """Store finished runs in one transaction: all of them, or none.

        A run that failed again keeps its last reason. What is there already is not counted.
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
                    self._connection.execute(
                        "UPDATE runs SET reason = ?, version = ? "
                        "WHERE identity = ? AND status = 'failed'",
                        (outcome.reason, outcome.version, spec.identity),
                    )
                stored += put == "added"
            if session is not None:
                self._connection.execute(
                    "UPDATE sessions SET done = done + ? WHERE id = ?", (stored, session)
                )

    def put(self, identity: str, configuration: Mapping[str, Any], outcome: Outcome) -> Put:
        """Store a run unless it is there; to be called within `transaction()`.

        A finished run is never changed: equal results are `kept` (a curve or spectrum that was
        lacking is added), different ones are a `conflict` and left alone. A `failed` run is no
        result, and gives way to one.
        """
        found = self._connection.execute(
            f"SELECT id, {', '.join(_COMPARED)} FROM runs WHERE identity = ?", (identity,)
        ).fetchone()
        if found is not None:
            run, *old = found
            if outcome.status == "failed":
                return "kept"
            if old[0] != "failed":
                if old != [_plain(getattr(outcome, name)) for name in _COMPARED]:
                    return "conflict"
                return self._attach(run, outcome)
            self._connection.execute("DELETE FROM runs WHERE id = ?", (run,))
        text = json.dumps(configuration, separators=(",", ":"), allow_nan=False)
        values = [_plain(getattr(outcome, name)) for name in _STORED]
        cursor = self._connection.execute(
            _INSERT, (identity, configuration["study"], text, *values)
        )
        self._attach(cursor.lastrowid, outcome)
        return "added"

    def _attach(self, run: int | None, outcome: Outcome) -> Put:
        """Add what a run lacks of its curve and spectra, unless any of it contradicts what is
        there.
        """
        execute = self._connection.execute
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
            return "conflict"
        if curve and not old_curve:
            execute("INSERT INTO curves VALUES (?, ?, ?)", (run, *curve))
        for key, packed in spectra.items():
            if key not in old:
                execute("INSERT INTO spectra VALUES (?, ?, ?, ?, ?)", (run, *key, *packed))
        return "kept"

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is written within is stored together when it ends, or not at all."""
        with explained(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                # Some errors (a full disk among them) have rolled back already.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        """Run one writing statement by itself and return the row it made."""
        with self.transaction():
            return self._connection.execute(statement, parameters).lastrowid or 0

    # reading

    def query(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple]:
        """The rows of a SELECT on the tables `runs`, `curves`, `spectra`, `sessions` and the view
        `results`.
        """
        with explained(self.path):
            return self._connection.execute(statement, parameters).fetchall()

    def missing(self, specs: Iterable[Any], *, retry_failed: bool = False) -> list[Any]:
        """Those of `specs` that the store lacks, in their order; failed runs count as missing if
        they are retried.
        """
        condition = " WHERE status != 'failed'" if retry_failed else ""
        stored = {identity for (identity,) in self.query(f"SELECT identity FROM runs{condition}")}
        return [spec for spec in specs if spec.identity not in stored]

    def failed(self, specs: Iterable[Any]) -> list[Any]:
        """Those of `specs` that the store holds as failed."""
        stored = {
            name for (name,) in self.query("SELECT identity FROM runs WHERE status = 'failed'")
        }
        return [spec for spec in specs if spec.identity in stored] if stored else []

    def losses(self) -> dict[str, float]:
        """The losses of all finished runs, by identity."""
        return dict(self.query("SELECT identity, loss FROM runs WHERE status = 'ok'"))

    def frame(self, study: str | None = None) -> "pd.DataFrame":
        """The runs as a pandas frame with the exported columns, one row a run, in the order they
        were stored.
        """
        import pandas as pd

        condition, parameters = ("WHERE study = ?", (study,)) if study is not None else ("", ())
        stored = ("configuration", *_STORED, "identity")
        rows = self.query(
            f"SELECT {', '.join(stored)} FROM runs {condition} ORDER BY id", parameters
        )
        columns: dict[str, list] = (
            dict(zip(stored, map(list, zip(*rows, strict=True)), strict=True)) if rows else {}
        )
        with explained(self.path):
            parsed = json.loads(f"[{','.join(columns.pop('configuration', []))}]")
        for name in COLUMNS:
            if name not in columns:
                columns[name] = [row[name] if name in row else LATER[name] for row in parsed]
        return pd.DataFrame({name: pd.Series(columns[name], dtype=TYPES[name]) for name in COLUMNS})

    def curves(self, identities: Iterable[str] | None = None) -> dict[str, Curve]:
        """The loss curves of the runs (of all by default), by identity; runs without one are left
        out.
        """
        select = "SELECT identity, steps, curves.loss FROM curves JOIN runs ON run = id"
        rows = self._selected(select, identities)
        with explained(self.path):
            return {identity: Curve(unpack(steps), unpack(loss)) for identity, steps, loss in rows}

    def spectra(self, identities: Iterable[str] | None = None) -> dict[str, list[Spectrum]]:
        """The kernel spectra of the runs (of all by default), by identity, in order of block and
        step.
        """
        select = (
            "SELECT identity, block, step, eigenvalues, error_share FROM spectra "
            "JOIN runs ON run = id"
        )
        found: dict[str, list[Spectrum]] = {}
        rows = self._selected(select, identities, "ORDER BY run, block, step")
        with explained(self.path):
            for identity, block, step, *packed in rows:
                values, share = (None if blob is None else unpack(blob) for blob in packed)
                assert values is not None
                found.setdefault(identity, []).append(Spectrum(block, step, values, share))
        return found

    def _selected(
        self, select: str, identities: Iterable[str] | None, order: str = ""
    ) -> Iterator[tuple]:
        if identities is None:
            yield from self.query(f"{select} {order}")
            return
        wanted = list(identities)
        for start in range(0, len(wanted), _CHUNK):
            chunk = wanted[start : start + _CHUNK]
            where = f"WHERE identity IN ({','.join('?' * len(chunk))})"
            yield from self.query(f"{select} {where} {order}", chunk)

    def records(self) -> Iterator[tuple[str, dict[str, Any], Outcome]]:
        """Every run whole, curve and spectra included: (identity, configuration, outcome), in
        chunks.
        """
        columns = ", ".join(("id", "identity", "configuration", *_STORED))
        statement = f"SELECT {columns} FROM runs WHERE id > ? ORDER BY id LIMIT {_CHUNK}"
        last = -1
        while rows := self.query(statement, (last,)):
            identities = [row[1] for row in rows]
            curves, spectra = self.curves(identities), self.spectra(identities)
            for _, identity, configuration, *values in rows:
                outcome = Outcome(
                    **{k: _restored(k, v) for k, v in zip(_STORED, values, strict=True)},
                    curve=curves.get(identity),
                    spectra=tuple(spectra.get(identity, ())),
                )
                with explained(self.path):
                    parsed = json.loads(configuration)
                yield identity, parsed, outcome
            last = rows[-1][0]


def _contradict(one: Sequence[bytes | None], other: Sequence[bytes | None]) -> bool:
    """Whether two packed spectra differ; a share that one of them lacks is no difference."""
    return any(a is not None and b is not None and a != b for a, b in zip(one, other, strict=True))


def _plain(value: Any) -> Any:
    """`value` as SQLite keeps it: a plain number or text, NULL for a number that does not exist."""
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and math.isnan(value) else value


def _restored(name: str, value: Any) -> Any:
    return float("nan") if value is None and name != "diverged_at" else value
