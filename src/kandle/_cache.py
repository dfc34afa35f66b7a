"""The folder for files that can be recreated: where it is, which compiled programs in it fit this
machine, and how large they may become.

Nothing here imports JAX when it is imported: a worker process must know the folder before JAX
starts.
"""

import contextlib
import functools
import hashlib
import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

from kandle import _native
from kandle._errors import must

_MEGABYTES = 2000


def cache_directory() -> Path:
    """`KANDLE_CACHE_DIR` if set, else the folder the platform has for caches."""
    if given := os.environ.get("KANDLE_CACHE_DIR"):
        return Path(given)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "kandle"
    variable, default = (
        ("LOCALAPPDATA", Path.home() / "AppData" / "Local")
        if sys.platform == "win32"
        else ("XDG_CACHE_HOME", Path.home() / ".cache")
    )
    return Path(os.environ.get(variable) or default) / "kandle"


def programs_directory() -> Path:
    """The folder of compiled programs that fit this machine; beside it are those of others.

    JAX does not check that a stored program fits, so the name of the folder contains all that a
    program depends on.
    """
    return cache_directory() / "programs" / _machine_key()


@functools.cache
def _machine_key() -> str:
    """A key for what a compiled program depends on: jaxlib, the processor, the native kernels."""
    parts = processor()["flags"], _native.fingerprint()
    digest = hashlib.sha256("\n".join(parts).encode())
    jaxlib = importlib.metadata.version("jaxlib")
    return f"{jaxlib}-{platform.machine()}-{digest.hexdigest()[:12]}"


def processor() -> dict[str, str]:
    """The `flags` of the processor's abilities, and its `model`."""
    found = {"flags": "", "model": platform.processor()}
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        name, _, value = line.partition(":")
        match name.strip():
            case "flags" | "Features":
                found["flags"] = value.strip()
            case "model name":
                found["model"] = value.strip()
            case "":  # the next core: all are alike
                break
    return found


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


@contextlib.contextmanager
def cached_compilation() -> Iterator[None]:
    """Use the folder of compiled programs in this process, unless the caller has set one.

    JAX's own settings are as before afterwards. A folder that cannot be written is no error: JAX
    warns, and compiles.
    """
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    ours = {
        "jax_compilation_cache_dir": str(programs_directory()),
        # Small programs too: a fit has few, and together they take as long as its large one.
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: getattr(jax.config, name) for name in ours}
    if before["jax_compilation_cache_dir"] is not None:
        yield
        return

    def configure(settings: dict) -> None:
        for name, value in settings.items():
            jax.config.update(name, value)
        # JAX decides once whether it has a cache.
        compilation_cache.reset_cache()

    configure(ours)
    try:
        yield
    finally:
        configure(before)
