"""The tables of a store, and how its file is opened."""

import os
import shutil
import sqlite3
import tempfile
from pathlib import Path

from kandle.store._columns import CONFIGURATION, LATER, RESULTS, WHOLE
from kandle.store._errors import StoreError, damaged, explained
from kandle.store._place import on_network

FILE = "runs.sqlite"
VERSION = 2  # 1 had no `error_share` in `spectra`
_APPLICATION = 0x4B414E44  # "KAND": tells a store from any other SQLite file


def _extracted(name: str) -> str:
    found = f"json_extract(configuration, '$.{name}')"
    if name in LATER:
        found = f"coalesce({found}, '{LATER[name]}')"
    return f"{found} AS {name}"


_VIEW = ", ".join((*map(_extracted, CONFIGURATION), *RESULTS, *map(_extracted, WHOLE), "identity"))

_TABLES = f"""
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    identity TEXT NOT NULL UNIQUE,
    study TEXT NOT NULL,
    configuration TEXT NOT NULL,
    status TEXT NOT NULL,
    diverged_at INTEGER,
    loss REAL, l2 REAL, l2_robust REAL, test_mse REAL, wall_s REAL,
    machine TEXT NOT NULL, backend TEXT NOT NULL, version TEXT NOT NULL, reason TEXT NOT NULL
);
CREATE INDEX runs_by_study ON runs (study, status);
CREATE TABLE curves (
    run INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    steps BLOB NOT NULL,
    loss BLOB NOT NULL
);
CREATE TABLE spectra (
    run INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    block TEXT NOT NULL,
    step INTEGER NOT NULL,
    eigenvalues BLOB NOT NULL,
    error_share BLOB,
    PRIMARY KEY (run, block, step)
) WITHOUT ROWID;
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    study TEXT NOT NULL,
    scale TEXT NOT NULL,
    command TEXT NOT NULL,
    started TEXT NOT NULL,
    planned INTEGER NOT NULL,
    done INTEGER NOT NULL,
    ended TEXT NOT NULL DEFAULT ''
);
CREATE VIEW results AS SELECT {_VIEW} FROM runs;
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {VERSION};
"""


def connect_writer(path: Path) -> sqlite3.Connection:
    """Open `path` for writing, creating it with its tables if it is not there."""
    with explained(path):
        connection = sqlite3.connect(path, isolation_level=None, timeout=30)
        try:
            fresh = _is_blank(connection)
            if not fresh:
                _check_version(connection, path)
                problem = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
                if problem != "ok":
                    raise damaged(path, problem)
            connection.execute("PRAGMA journal_mode = WAL")
            # A stored run survives the loss of power, not only of the process.
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            if fresh:
                connection.executescript(f"BEGIN IMMEDIATE; {_TABLES} COMMIT;")
            else:
                _upgrade(connection)
        except BaseException:
            connection.close()
            raise
    return connection


def connect_reader(path: Path) -> sqlite3.Connection:
    """Open `path` for reading only, also while it is written, on a read-only disk or on a network
    filesystem.
    """
    if not path.exists():
        raise StoreError(f"There is no store at {path.parent}: {path.name} is missing.")
    with explained(path):
        if on_network(path) or not os.access(path.parent, os.W_OK):
            connection = _connect_unshared(path)
        else:
            connection = sqlite3.connect(
                f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None
            )
        connection.execute("PRAGMA busy_timeout = 30000")
        try:
            _check_version(connection, path)
            if _lacks_error_share(connection):
                connection.execute(
                    "CREATE TEMP VIEW spectra AS SELECT *, NULL AS error_share FROM main.spectra"
                )
        except BaseException:
            connection.close()
            raise
    return connection


def _upgrade(connection: sqlite3.Connection) -> None:
    """Bring the tables of an older format up to this one; a reader sees either, never a half."""
    if connection.execute("PRAGMA user_version").fetchone()[0] == VERSION:
        return
    steps = ""
    if _lacks_error_share(connection):
        steps = "ALTER TABLE spectra ADD COLUMN error_share BLOB;"
    connection.executescript(f"BEGIN IMMEDIATE; {steps} PRAGMA user_version = {VERSION}; COMMIT;")


def _lacks_error_share(connection: sqlite3.Connection) -> bool:
    columns = connection.execute("SELECT name FROM pragma_table_info('spectra')").fetchall()
    return ("error_share",) not in columns


def _connect_unshared(path: Path) -> sqlite3.Connection:
    """Read `path` where the log's shared memory cannot be made.

    Without a log the file is complete in itself. With one (its writer was killed, or was still at
    work when the files were copied) the newest runs are in the log, so both are copied to where
    SQLite can join them.
    """
    log = path.with_name(path.name + "-wal")
    if not (log.exists() and log.stat().st_size):
        return sqlite3.connect(
            f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True, isolation_level=None
        )
    with tempfile.TemporaryDirectory(prefix="kandle-") as directory:
        copy = Path(directory) / path.name
        shutil.copyfile(path, copy)
        shutil.copyfile(log, copy.with_name(log.name))
        with sqlite3.connect(copy, isolation_level=None) as joined:
            connection = sqlite3.connect(":memory:", isolation_level=None)
            joined.backup(connection)
        joined.close()
    return connection


def _is_blank(connection: sqlite3.Connection) -> bool:
    """Whether the file has no tables yet: its writer has only just made it."""
    return connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    if _is_blank(connection):
        raise StoreError(f"The store at {path.parent} is empty: nothing is stored there yet.")
    if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
        raise damaged(path, "it is another program's database")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        raise StoreError(
            f"{path} was written by a newer Kandle (format {version}; this one knows up to "
            f"{VERSION}). Upgrade with: pip install --upgrade kandle"
        )
