"""What can go wrong with a store, in words."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kandle._errors import UserError
from kandle.store._blobs import Unreadable


class StoreError(UserError):
    """The store cannot be used as asked; what it holds is untouched."""


def damaged(path: Path, detail: object) -> StoreError:
    return StoreError(
        f"{path} is damaged or not a Kandle store ({detail}). It was left as it is. Rescue what "
        f"is readable with 'sqlite3 {path} .recover', or set the file aside and run the same "
        "command again with a new store."
    )


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn errors of reading and writing `path` into a StoreError that says what happened and
    what to do.
    """
    try:
        yield
    except (Unreadable, json.JSONDecodeError) as error:
        raise damaged(path, error) from error
    except sqlite3.Error as error:
        raise _explain(path, error) from error


def _explain(path: Path, error: sqlite3.Error) -> StoreError:
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith(("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE")):
        return StoreError(
            f"No room left to write {path} ({error}). All runs stored so far are safe; make room "
            "and run the same command again."
        )
    if name.startswith(("SQLITE_READONLY", "SQLITE_PERM")):
        return StoreError(f"{path} is read-only: it can be read, but not written ({error}).")
    if name.startswith("SQLITE_CANTOPEN"):
        return StoreError(f"{path} cannot be opened ({error}).")
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")) or any(
        sign in str(error) for sign in ("malformed", "Could not decode")
    ):
        return damaged(path, error)
    return StoreError(f"{path}: {error}.")
