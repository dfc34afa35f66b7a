"""What can go wrong with a store, in words."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kandle._errors import UserError
from kandle._text import printable
from kandle.store._blobs import Unreadable


class StoreError(UserError):
    """The store cannot be used as asked; what it holds is untouched."""


class StoreMoved(StoreError):
    """The file of a store was deleted or replaced while it was being written."""


def damaged(path: Path, detail: object) -> StoreError:
    # SQLite quotes what it cannot read, line breaks included.
    text = printable(" ".join(str(detail).split()))[:200]
    return StoreError(
        f"{path} is damaged or not a Kandle store ({text}). It was not changed. Keep what is "
        f"intact with 'kandle study verify --repair --store {path.parent}', or use another store."
    )


def damaged_records(path: Path, records: Sequence[str]) -> StoreError:
    """The error for records that fail their checksum, each named in a few words."""
    shown = "; ".join(map(printable, records[:3])) + ("; …" if len(records) > 3 else "")
    return StoreError(
        f"{path} has {len(records):,} damaged record{'s' * (len(records) > 1)}: {shown}. List all "
        f"with 'kandle study verify --store {path.parent}'; with --repair they are dropped, and "
        "the next run trains them again."
    )


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn errors of reading and writing `path` into a StoreError that says what happened and
    what to do.
    """
    try:
        yield
    except (Unreadable, UnicodeDecodeError) as error:
        raise damaged(path, error) from error
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise _explain(path, error) from error


def _explain(path: Path, error: sqlite3.Error | sqlite3.Warning) -> StoreError:
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith(("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE")):
        return StoreError(
            f"No room left to write {path} ({error}). All runs stored so far are safe; make room "
            "and run the same command again."
        )
    if name == "SQLITE_READONLY_DBMOVED":
        return StoreMoved(f"{path} was deleted or moved while it was being written.")
    if name.startswith(("SQLITE_READONLY", "SQLITE_PERM")):
        return StoreError(f"{path} is read-only: it can be read, but not written ({error}).")
    if name.startswith("SQLITE_CANTOPEN"):
        return StoreError(f"{path} cannot be opened ({error}).")
    if name.startswith("SQLITE_BUSY"):
        return StoreError(f"{path} is locked by another program ({error}). Try again later.")
    # Whatever else SQLite refuses to read (a missing column, text that is no UTF-8, …) is not as
    # it was written.
    return damaged(path, error)
