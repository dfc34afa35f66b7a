"""From a name, or from `module:object`, to a problem."""

from collections.abc import Mapping
from typing import Any

from kandle._errors import UserError, must, unknown
from kandle._imports import import_object
from kandle.problems._problem import Problem


def find(name: Any, known: Mapping[str, Any]) -> Any:
    """The problem `known` has under a name, the one that `module:object` points at, or itself."""
    if _is_problem(name):
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
    problem = import_object(name, "problem", suggest=_has_arrays)
    if not _is_problem(problem):
        kinds = "a problem object (Function, PDE, Table)"
        raise must(f"Problem {name!r}", kinds, type(problem).__name__)
    return problem


def _is_problem(value: Any) -> bool:
    return not isinstance(value, type) and isinstance(value, Problem)


def _has_arrays(value: Any) -> bool:
    return hasattr(value, "arrays")
