"""The folder of compiled programs: where it is, and how large it may become."""

import os
import platform
from pathlib import Path

from kandle._errors import must

_MEGABYTES = 2000


def cache_directory() -> Path:
    """The folder for files that can be recreated: `KANDLE_CACHE_DIR`, or the user's cache."""
    if own := os.environ.get("KANDLE_CACHE_DIR"):
        return Path(own)
    if platform.system() == "Darwin":
        return Path.home() / "Library" / "Caches" / "kandle"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kandle"


def cache_limit() -> int:
    """The limit on compiled programs, in bytes: `KANDLE_CACHE_MB` megabytes, 2000 by default."""
    given = os.environ.get("KANDLE_CACHE_MB", str(_MEGABYTES))
    if not given.isdecimal():
        raise must("KANDLE_CACHE_MB", "a whole number of megabytes", given)
    return int(given) * 10**6


def prune(folder: Path, limit: int) -> int:
    """Delete the files in `folder` that were not used for longest, until it has at most `limit`
    bytes; return how many bytes it has.

    Any number of processes may prune, read and write at the same time: a program that is gone is
    compiled again, and a file that another process deleted first counts as deleted.
    """
    files = []
    for path in folder.rglob("*"):
        try:
            found = path.stat()
        except OSError:
            continue
        if path.is_file():
            files.append((max(found.st_atime_ns, found.st_mtime_ns), found.st_size, path))
    size = sum(length for _, length, _ in files)
    for _, length, path in sorted(files):
        if size <= limit:
            break
        path.unlink(missing_ok=True)
        size -= length
    return size
