"""The tables of a store, and how its file is opened."""

import os
import shutil
import sqlite3
import tempfile
from pathlib import Path

from kandle.store._columns import LEADING, TRAILING
from kandle.store._errors import StoreError, damaged, explained
from kandle.store._outcome import RESULTS
from kandle.store._place import on_network
from kandle.store._run import ADDED_DEFAULTS

FILE = "runs.sqlite"
# Version 1 had no `error_share` in `spectra`; version 2 no checksums and no `schemes`.
VERSION = 3
_APPLICATION = 0x4B414E44  # "KAND": distinguishes a store from any other SQLite file


def _extracted(name: str) -> str:
    found = f"json_extract(configuration, '$.{name}')"
    if name in ADDED_DEFAULTS:
        found = f"coalesce({found}, '{ADDED_DEFAULTS[name]}')"
    return f"{found} AS {name}"


_VIEW = ", ".join((*map(_extracted, LEADING), *RESULTS, *map(_extracted, TRAILING), "identity"))

# Columns and tables that older formats lack. `curve_sum` and `spectra_sum` are checksums of what
# the other tables hold of a run; `checksum` covers the row with these two.
_ADDED_COLUMNS = {
    "spectra": ("error_share BLOB",),
    "runs": ("curve_sum TEXT", "spectra_sum TEXT", "checksum TEXT"),
    "sessions": ("checksum TEXT",),
}
_ADDED_TABLES = {
    "schemes": """(
    scheme TEXT NOT NULL,
    settings TEXT NOT NULL,
    label TEXT NOT NULL,
    color TEXT NOT NULL,
    checksum TEXT NOT NULL,
    PRIMARY KEY (scheme, settings)
) WITHOUT ROWID""",
    # How many runs a study has, and their identities combined: rows that vanish are noticed.
    "digests": "(study TEXT PRIMARY KEY, runs INTEGER NOT NULL, digest TEXT NOT NULL)",
}

_TABLES = f"""
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    identity TEXT NOT NULL UNIQUE,
    study TEXT NOT NULL,
    configuration TEXT NOT NULL,
    status TEXT NOT NULL,
    diverged_at INTEGER,
    loss REAL, l2 REAL, l2_robust REAL, test_mse REAL, wall_s REAL,
    machine TEXT NOT NULL, backend TEXT NOT NULL, version TEXT NOT NULL, reason TEXT NOT NULL,
    {", ".join(_ADDED_COLUMNS["runs"])}
);
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
    {", ".join(_ADDED_COLUMNS["spectra"])},
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
    ended TEXT NOT NULL DEFAULT '',
    {", ".join(_ADDED_COLUMNS["sessions"])}
);
{"".join(f"CREATE TABLE {name} {columns};" for name, columns in _ADDED_TABLES.items())}
CREATE VIEW results AS SELECT {_VIEW} FROM runs;
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {VERSION};
"""


def connect_writer(path: Path) -> tuple[sqlite3.Connection, bool]:
    """Open `path` for writing, creating it with its tables if it is not there.

    Also returns whether the table `digests` is new and has to be filled.
    """
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
                return connection, False
            return connection, _upgrade(connection)
        except BaseException:
            connection.close()
            raise


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
        try:
            connection.execute("PRAGMA busy_timeout = 30000")
            _check_version(connection, path)
            _show_as_current(connection)
        except BaseException:
            connection.close()
            raise
    return connection


def _missing_columns(connection: sqlite3.Connection) -> dict[str, list[str]]:
    """What older tables lack, by table."""
    found = {}
    for table, columns in _ADDED_COLUMNS.items():
        rows = connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
        present = {name for (name,) in rows}
        found[table] = [column for column in columns if column.split()[0] not in present]
    return found


def _missing_tables(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return [name for name in _ADDED_TABLES if (name,) not in rows]


def _upgrade(connection: sqlite3.Connection) -> bool:
    """Bring the tables of an older format up to this one; a reader sees either, never a half."""
    tables = _missing_tables(connection)
    steps = [f"CREATE TABLE {name} {_ADDED_TABLES[name]}" for name in tables]
    for table, columns in _missing_columns(connection).items():
        steps += [f"ALTER TABLE {table} ADD COLUMN {column}" for column in columns]
    if steps or connection.execute("PRAGMA user_version").fetchone()[0] != VERSION:
        steps += [f"PRAGMA user_version = {VERSION}"]
        connection.executescript(f"BEGIN IMMEDIATE; {'; '.join(steps)}; COMMIT;")
    return "digests" in tables


def _show_as_current(connection: sqlite3.Connection) -> None:
    """Let queries see the tables of an older format as those of this one."""
    for table, columns in _missing_columns(connection).items():
        if columns:
            added = ", ".join(f"NULL AS {column.split()[0]}" for column in columns)
            connection.execute(f"CREATE TEMP VIEW {table} AS SELECT *, {added} FROM main.{table}")
    for table in _missing_tables(connection):
        connection.execute(f"CREATE TEMP TABLE {table} {_ADDED_TABLES[table]}")


def _connect_unshared(path: Path) -> sqlite3.Connection:
    """Read `path` where SQLite cannot create the shared memory of its log.

    Without a log the file is complete in itself. With one (its writer was killed, or still at
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
    """Whether the file has no tables yet: its writer has only just created it."""
    return connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    if _is_blank(connection):
        raise StoreError(f"The store at {path.parent} is empty: nothing is stored there yet.")
    if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
        raise damaged(path, "it is another program's database")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        raise StoreError(
            f"{path} was written by a newer Kandle (format {version}; this one reads up to "
            f"{VERSION}). Upgrade with: pip install --upgrade kandle"
        )
