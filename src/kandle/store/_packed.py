"""Packed stores: a store compressed into one file, with a manifest and checksums, read only.

A packed store is a directory with `manifest.json` and `runs.sqlite.xz`. It is unpacked into the
user's cache directory when it is first opened. The one that comes with the project is called
`results`.
"""

import contextlib
import hashlib
import json
import lzma
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kandle._cache import cache_directory
from kandle.store._errors import StoreError

PACKED, MANIFEST = "runs.sqlite.xz", "manifest.json"
SHIPPED = "results"
"""The name under which `Store.open` finds the store that comes with the project."""


def is_packed(directory: Path) -> bool:
    return (directory / PACKED).is_file()


def locate(directory: Path) -> Path:
    """`directory`, or that of the shipped store if it is named and no such directory exists."""
    if str(directory) != SHIPPED or directory.exists():
        return directory
    shipped = Path(__file__).resolve().parents[3] / SHIPPED
    if not is_packed(shipped):
        raise StoreError(
            "The results of the project are not part of this installation. Clone the repository "
            f"of Kandle and pass its directory '{SHIPPED}' with --store."
        )
    return shipped


def open_packed(directory: Path) -> Path:
    """Where the database of a store lies: `directory`, or that of an unpacked copy."""
    located = locate(directory)
    if not is_packed(located) or (located / "runs.sqlite").exists():
        return located
    return unpack(located, cache_directory())


def read_manifest(directory: Path) -> dict[str, Any]:
    """The manifest of a packed store."""
    directory = locate(directory)
    try:
        return json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoreError(
            f"The manifest of the packed store {directory} is not readable: {error}"
        ) from None


def pack(database: Path, directory: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Compress a closed store's database into `directory`, with its checksums in the manifest."""
    directory.mkdir(parents=True, exist_ok=True)
    _close_log(database)
    raw = database.read_bytes()
    packed = lzma.compress(raw, preset=9 | lzma.PRESET_EXTREME)
    complete = {
        **manifest,
        "file": PACKED,
        "bytes": len(packed),
        "sha256": hashlib.sha256(packed).hexdigest(),
        "sha256_unpacked": hashlib.sha256(raw).hexdigest(),
    }
    _replace(directory / PACKED, packed)
    text = json.dumps(complete, indent=2, ensure_ascii=False) + "\n"
    _replace(directory / MANIFEST, text.encode())
    return complete


def _close_log(database: Path) -> None:
    """Make the database one file, without a write-ahead log and without free pages."""
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("VACUUM")
    connection.close()


def unpack(directory: Path, cache: Path) -> Path:
    """The directory with the unpacked store, verified against the manifest's checksums."""
    manifest = read_manifest(directory)
    target = cache / "stores" / manifest["sha256"][:16]
    database = target / "runs.sqlite"
    if database.is_file() and _digest(database.read_bytes()) == manifest["sha256_unpacked"]:
        return target
    data = (directory / PACKED).read_bytes()
    if _digest(data) != manifest["sha256"]:
        raise StoreError(
            f"The packed store {directory / PACKED} is damaged: its checksum differs from the one "
            f"in {MANIFEST}. Get both files again."
        )
    raw = lzma.decompress(data)
    if _digest(raw) != manifest["sha256_unpacked"]:
        raise StoreError(f"The packed store {directory / PACKED} does not match its {MANIFEST}.")
    try:
        target.mkdir(parents=True, exist_ok=True)
        for stale in target.glob("runs.sqlite-*"):
            stale.unlink(missing_ok=True)
        _replace(database, raw)
    except OSError:
        # Without a writable cache the store lives as long as the temporary files of the system.
        target = Path(tempfile.mkdtemp(prefix="kandle-results-"))
        _replace(target / "runs.sqlite", raw)
    return target


def refuse_writing(directory: Path) -> None:
    """Raise if `directory` is a packed store, or the name of the shipped one."""
    if is_packed(directory) or (str(directory) == SHIPPED and not directory.exists()):
        raise StoreError(
            f"The store {str(directory)!r} holds finished results and is read only. Pass another "
            "directory with --store, and copy the runs into it with 'kandle study merge "
            f"{directory} --store DIR' if you want to continue from them."
        )


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _replace(path: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        shutil.copymode(path, temporary) if path.exists() else os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
