"""Files that a command writes whole or not at all, and its progress."""

import contextlib
import os
import secrets
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from kandle._errors import UserError, must


def check_writable(path: str, suffixes: tuple[str, ...]) -> Path:
    """The path of a file to write, refused while nothing is lost yet."""
    out = Path(path)
    if out.suffix.lower() not in suffixes:
        raise must("The output", f"a file that ends in {' or '.join(suffixes)}", path)
    if out.is_dir():
        raise UserError(f"Output {path!r} is a folder.")
    folder = out.parent
    if not folder.is_dir():
        raise UserError(f"There is no folder {str(folder)!r} to write {out.name!r} to.")
    if not os.access(folder, os.W_OK):
        raise UserError(f"Folder {str(folder)!r} cannot be written to.")
    return out


def write_whole(path: Path, text: str) -> None:
    """Under its name only once it is whole."""
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def progress(what: str) -> Iterator[Callable[[int, int, float], None]]:
    """A bar for a person who watches, otherwise five lines on standard error."""
    import numpy as np

    from kandle.train._progress import Bar, watched

    if watched():
        with contextlib.closing(Bar()) as bar:
            yield lambda done, total, loss: bar(done, total, np.asarray([loss]))
        return
    told = 0

    def tell(done: int, total: int, loss: float) -> None:
        nonlocal told
        if (fifths := 5 * done // total) > told:
            told = fifths
            print(f"kandle: {what}: {done} of {total} steps, loss {loss:.3e}", file=sys.stderr)

    yield tell
