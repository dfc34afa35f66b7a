"""Objects of the user's own, named as `module:object`."""

import contextlib
import functools
import importlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from kandle._errors import UserError, must, unknown


def import_object(
    name: str, kind: str, suggest: Callable[[Any], bool] = lambda value: isinstance(value, type)
) -> Any:
    """The object that `module:object` names; the module may lie in the current directory.

    Args:
        name: `module:object`; the object may be an attribute of another, `module:outer.inner`.
        kind: what it is, for error messages: "problem", "scheme", "basis".
        suggest: which objects of the module to list if it has none of that name.
    """
    module_name, _, path = name.partition(":")
    if not module_name or not path:
        raise must(f"A {kind} of your own", "given as module:object", name)
    if module_name.endswith(".py"):
        raise must(f"A {kind} of your own", f"given without .py: {module_name[:-3]}:{path}", name)
    module = _import_module(module_name, f"{kind.capitalize()} {name!r}")
    try:
        return functools.reduce(getattr, path.split("."), module)
    except AttributeError:
        suggestions = [n for n, value in vars(module).items() if suggest(value)] or [f"no {kind}"]
        raise unknown(f"object in {module_name}", path, suggestions) from None


def _import_module(module_name: str, what: str) -> Any:
    with _current_directory_first():
        try:
            return importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            # Unless the module itself or a package around it is missing, one of its imports is.
            if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
                raise UserError(
                    f"{what}: {module_name!r} imports {error.name!r}, which is not installed."
                ) from error
            raise UserError(
                f"{what}: there is no module {error.name!r} here or installed."
            ) from None
        except SystemExit:
            raise UserError(
                f"{what}: importing {module_name!r} ends the program: it calls sys.exit, "
                "which belongs behind 'if __name__ == \"__main__\":'."
            ) from None
        except Exception as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            # A syntax error says itself where it is.
            where = "" if isinstance(error, SyntaxError) else f" ({at.filename}, line {at.lineno})"
            raise UserError(
                f"{what}: importing {module_name!r} ends in {type(error).__name__}: {error}{where}."
            ) from error


@contextlib.contextmanager
def _current_directory_first() -> Iterator[None]:
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(here)
