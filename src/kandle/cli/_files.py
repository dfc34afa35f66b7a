"""Output files, which appear only when they are complete, and progress messages."""

import contextlib
import os
import secrets
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from kandle._errors import UserError, must


def check_writable(path: str, suffixes: tuple[str, ...]) -> Path:
    """Check the path of an output file before any work is done."""
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
    """Write a file that appears under its name only when it is complete."""
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def progress(what: str, unit: str = "steps") -> Iterator[Callable[[int, int, float], None]]:
    """A bar for a person who watches, otherwise five lines on standard error."""
    import numpy as np

    from kandle.train._progress import Bar, watched

    if watched():
        with contextlib.closing(Bar()) as bar:
            yield lambda done, total, loss: bar(done, total, np.asarray([loss]))
        return
    shown = 0

    def show(done: int, total: int, loss: float) -> None:
        nonlocal shown
        if (fifths := 5 * done // total) > shown:
            shown = fifths
            print(f"kandle: {what}: {done} of {total} {unit}, loss {loss:.3e}", file=sys.stderr)

    yield show
