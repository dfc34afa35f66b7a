"""What is to be learned: functions, Feynman equations, differential equations, tables of data.

A problem is a small object with a name, LaTeX, a domain, the data of a training and a grid on which
its outcome is judged. All arrays are (points, inputs) or (points, outputs); the data depends on the
problem alone, never on a scheme or a seed.
"""

from typing import Any

from kandle.problems._allen_cahn import ALLEN_CAHN
from kandle.problems._burgers import BURGERS
from kandle.problems._feynman import AT_POLES, FEYNMAN, HEAVY_TAILED
from kandle.problems._frame import numbers, read_frame
from kandle.problems._function import Function
from kandle.problems._functions import FUNCTIONS
from kandle.problems._helmholtz import HELMHOLTZ
from kandle.problems._lookup import find
from kandle.problems._metrics import relative_l2, robust_error
from kandle.problems._pde import PDE, Condition, side
from kandle.problems._published import published
from kandle.problems._scaler import Scaler
from kandle.problems._table import Table

PDES = {problem.name: problem for problem in (ALLEN_CAHN, BURGERS, HELMHOLTZ)}
PROBLEMS = {**FUNCTIONS, **PDES, **FEYNMAN}

Problem = Function | PDE | Table

__all__ = [
    "AT_POLES",
    "FEYNMAN",
    "FUNCTIONS",
    "HEAVY_TAILED",
    "PDE",
    "PDES",
    "PROBLEMS",
    "Condition",
    "Function",
    "Problem",
    "Scaler",
    "Table",
    "get",
    "names",
    "numbers",
    "published",
    "read_frame",
    "relative_l2",
    "robust_error",
    "side",
]


def get(name: str | Problem) -> Any:
    """The problem of that name, the one a `module:object` points at, or the problem itself.

    >>> get("burgers").n_in
    2
    """
    return find(name, PROBLEMS, (Function, PDE, Table))


def names() -> list[str]:
    """The names of the built-in problems, in the order of the study."""
    return list(PROBLEMS)
