"""From a name, or from `module:object`, to a problem."""

import contextlib
import functools
import importlib
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

from kandle._errors import UserError, must, unknown


def find(name: Any, known: Mapping[str, Any], kinds: tuple[type, ...]) -> Any:
    """The problem `known` has under a name, the one that `module:object` points at, or itself."""
    if isinstance(name, kinds):
        return name
    if not isinstance(name, str):
        raise must("A problem", "a name, 'module:object' or a problem", name)
    if name in known:
        return known[name]
    if ":" not in name:
        if name.endswith((".csv", ".parquet")):
            raise UserError(
                f"Problem {name!r}: a table becomes a problem by kandle.problems.Table({name!r}, "
                "'target') in a module of yours, named here as module:object."
            )
        raise unknown("problem", name, [*known, "or your own as module:object"])
    problem = _imported(name)
    if not isinstance(problem, kinds):
        names = ", ".join(kind.__name__ for kind in kinds)
        raise must(f"Problem {name!r}", f"a problem object ({names})", type(problem).__name__)
    return problem


def _imported(name: str) -> Any:
    """The object of `module:object`; the module may lie in the current directory."""
    module_name, _, path = name.partition(":")
    if not module_name or not path:
        raise must("A problem of your own", "given as module:object", name)
    if module_name.endswith(".py"):
        raise must("A problem of your own", f"given without .py: {module_name[:-3]}:{path}", name)
    with _current_directory_first():
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
                raise UserError(
                    f"Problem {name!r}: {module_name!r} imports {error.name!r}, which is not "
                    "installed."
                ) from error
            raise UserError(
                f"Problem {name!r}: there is no module {error.name!r} here or installed."
            ) from None
        except SystemExit:
            raise UserError(
                f"Problem {name!r}: importing {module_name!r} ends the program: it calls sys.exit, "
                "which belongs behind 'if __name__ == \"__main__\":'."
            ) from None
        except Exception as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            # A syntax error says itself where it is.
            where = "" if isinstance(error, SyntaxError) else f" ({at.filename}, line {at.lineno})"
            raise UserError(
                f"Problem {name!r}: importing {module_name!r} ends in {type(error).__name__}: "
                f"{error}{where}."
            ) from error
    try:
        return functools.reduce(getattr, path.split("."), module)
    except AttributeError:
        raise unknown(f"object in {module_name}", path, _problem_like(module)) from None


def _problem_like(module: Any) -> list[str]:
    return [n for n, value in vars(module).items() if hasattr(value, "arrays")] or ["no problem"]


@contextlib.contextmanager
def _current_directory_first() -> Iterator[None]:
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(here)
