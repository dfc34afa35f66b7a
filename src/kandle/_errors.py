"""Errors meant for people: one line that names the argument, what it must be and what it got."""

import contextlib
import difflib
from collections.abc import Iterable, Iterator


class UserError(ValueError):
    """A mistake in what the caller gave; the command line prints it as one line, no traceback.

    Its message names the argument, what it must be, what it was, and what to do.
    """

    __module__ = "kandle"  # where it is public: tracebacks and pickles name that


class MissingExtra(ImportError):
    """An optional package is needed and not installed; the message holds the install command."""

    __module__ = "kandle"

    def __init__(self, what: str, extra: str, package: str = "an optional package"):
        command = f"pip install 'kandle[{extra}]'"
        super().__init__(
            f"{what} needs {package}, which is not installed. Install it with: {command}"
        )
        self.args = what, extra, package  # what a pickle passes to __init__


@contextlib.contextmanager
def needs_extra(what: str, extra: str) -> Iterator[None]:
    """Imports in this context raise `MissingExtra` if a package of the extra is not installed.

    Args:
        what: what the packages are needed for, the subject of the message.
        extra: the extra that brings them, a key of `project.optional-dependencies`.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if not package or package == "kandle":  # a mistake of ours, no missing package
            raise
        raise MissingExtra(what, extra, package) from None


def must(what: str, requirement: str, got: object) -> UserError:
    """`raise must("'beta' of PowerLaw", "a finite number", beta)`."""
    try:
        shown = repr(got)
    except ValueError:  # Python writes no number of more than 4,300 digits
        shown = "a number of thousands of digits"
    return UserError(f"{what} must be {requirement}. Got {shown} instead.")


def unknown(what: str, got: str, known: Iterable[str]) -> UserError:
    """The error for a name that is not in a registry: the nearest one, and all that are known."""
    names = list(known)
    near = difflib.get_close_matches(str(got), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return UserError(f"Unknown {what} {got!r}.{hint} Known: {', '.join(names) or 'none'}.")
