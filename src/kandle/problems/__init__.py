"""What a network learns: functions, Feynman equations, differential equations, tables of data.

A problem is a small object with a name, LaTeX, a domain, the data of a training, and a grid on
which the outcome is evaluated. All arrays are (points, inputs) or (points, outputs). `PROBLEMS` is
an open registry: `register` adds a problem of your own.
"""

import importlib
from typing import Any

from kandle._errors import UserError, must, unknown
from kandle._imports import import_object
from kandle.problems._allen_cahn import ALLEN_CAHN
from kandle.problems._burgers import BURGERS
from kandle.problems._coefficient import Coefficient
from kandle.problems._condition import Condition, Named, integral, periodic, side
from kandle.problems._feynman import AT_POLES, FEYNMAN, HEAVY_TAILED
from kandle.problems._function import Function
from kandle.problems._functions import FUNCTIONS
from kandle.problems._helmholtz import HELMHOLTZ
from kandle.problems._metrics import relative_l2, robust_error
from kandle.problems._pde import PDE, Group
from kandle.problems._points import Points, Resample
from kandle.problems._problem import Problem

PDES = {problem.name: problem for problem in (ALLEN_CAHN, BURGERS, HELMHOLTZ)}
PROBLEMS: dict[str, Problem] = {}
for _built_in in (FUNCTIONS, PDES, FEYNMAN):
    PROBLEMS.update(_built_in)  # pyright: ignore[reportArgumentType, reportCallIssue]
"""Problems by name; `register` adds to it."""

# Tables of data are problems too; reading and scaling them lives with all else about tables.
_IN_TABULAR = ("Scaler", "Table", "numbers", "read_frame")

__all__ = [
    "AT_POLES",
    "FEYNMAN",
    "FUNCTIONS",
    "HEAVY_TAILED",
    "PDE",
    "PDES",
    "PROBLEMS",
    "Coefficient",
    "Condition",
    "Function",
    "Group",
    "Named",
    "Points",
    "Problem",
    "Resample",
    "get",
    "integral",
    "names",
    "periodic",
    "register",
    "relative_l2",
    "robust_error",
    "side",
]


def get(name: str | Problem) -> Any:
    """The problem of that name, the one that `module:object` names, or the problem itself.

    >>> get("burgers").n_in
    2
    """
    if _is_problem(name):
        return name
    if not isinstance(name, str):
        raise must("A problem", "a name, 'module:object' or a problem", name)
    if name in PROBLEMS:
        return PROBLEMS[name]
    if ":" not in name:
        if name.endswith((".csv", ".parquet")):
            raise UserError(
                f"Problem {name!r}: a table becomes a problem by kandle.problems.Table({name!r}, "
                "'target') in a module of yours, named here as module:object."
            )
        raise unknown("problem", name, [*PROBLEMS, "or your own as module:object"])
    # Where the module has no such object, the error lists those that could be meant.
    problem = import_object(name, "problem", suggest=lambda value: hasattr(value, "arrays"))
    if not _is_problem(problem):
        kinds = "a problem object (Function, PDE, Table)"
        raise must(f"Problem {name!r}", kinds, type(problem).__name__)
    return problem


def _is_problem(value: Any) -> bool:
    # A class of problems has the attributes of one, too.
    return not isinstance(value, type) and isinstance(value, Problem)


def register(problem: Problem, *, replace: bool = False) -> Problem:
    """Add a problem to `PROBLEMS` under its own name, and return it.

    A registered problem is known in this process only. Study files and worker processes refer to a
    problem of your own as `module:object`.

    >>> cube = register(Function(lambda x: x**3, [(-1, 1)], name="cube"))
    >>> get("cube") is cube
    True
    """
    if not isinstance(problem, Problem):
        raise must("A problem", "a Function, PDE, Table or other kandle.problems.Problem", problem)
    if not replace and PROBLEMS.get(problem.name, problem) is not problem:
        raise UserError(
            f"There is a problem {problem.name!r} already. Choose another name, or pass "
            "replace=True."
        )
    PROBLEMS[problem.name] = problem
    return problem


def names() -> list[str]:
    """The names of the registered problems; the built-in ones come first."""
    return list(PROBLEMS)


def __getattr__(name: str) -> Any:
    if name in _IN_TABULAR:
        return getattr(importlib.import_module("kandle.tabular"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
