"""Reference solutions kept on disk, in the user's cache directory.

A reference takes about half a second to compute and 0.8 MB to hold. Computing it beats shipping it:
no binary file can then differ from the code that explains it. Keeping it spares every worker that
time. A file that is missing, damaged or not writable is no error: the solution is computed
again. Processes may race: each writes a file of its own and renames it.
"""

import contextlib
import hashlib
import io
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from kandle._cache import cache_directory


def kept(name: str, compute: Callable[..., np.ndarray], *arguments: np.ndarray) -> np.ndarray:
    """`compute(*arguments)`, read from disk where it was computed before.

    `name` must change whenever the numbers do: it carries the method's version.
    """
    key = hashlib.sha256(name.encode())
    for argument in arguments:
        key.update(repr(argument.shape).encode() + np.ascontiguousarray(argument, "<f8").tobytes())
    try:
        path = cache_directory() / "references" / f"{name}-{key.hexdigest()[:16]}.bin"
    except RuntimeError:  # no home directory
        return compute(*arguments)
    value = _read(path)
    if value is None:
        value = compute(*arguments)
        with contextlib.suppress(OSError):
            _write(path, value)
    return value


def _write(path: Path, value: np.ndarray) -> None:
    """SHA-256 of what follows, then a .npy file; under its name only once it is whole."""
    buffer = io.BytesIO()
    np.save(buffer, value, allow_pickle=False)
    payload = buffer.getvalue()
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(payload).digest() + payload)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _read(path: Path) -> np.ndarray | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    digest, payload = data[:32], data[32:]
    if hashlib.sha256(payload).digest() != digest:
        return None
    return np.load(io.BytesIO(payload), allow_pickle=False)
