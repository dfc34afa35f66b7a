"""What planning needs to know of the built-in problems, without importing JAX.

`kandle.problems` is where the problems are defined; a test holds the two together.
"""

import functools
from typing import NamedTuple


class Facts(NamedTuple):
    """The shape of a problem, as far as it decides what a run is and what it costs."""

    kind: str  # "function" or "pde"
    n_in: int = 2
    n_out: int = 1
    points: int = 4000  # evaluated in a step
    default_steps: int = 2000
    reference: str = (
        ""  # the one used unless a study asks for another; empty where there is but one
    )


_THREE_INPUTS = ("I.6.2b", "I.29.16", "II.6.15a", "II.11.7", "II.36.38", "III.17.37")
FUNCTIONS = ("f1", "f2", "f3", "f4", "f5")
PDES = ("allen-cahn", "burgers", "helmholtz")
FEYNMAN = (
    *("I.6.2", "I.6.2b", "I.12.11", "I.13.12", "I.16.6", "I.18.4", "I.26.2", "I.27.6", "I.29.16"),
    *("I.30.3", "I.40.1", "I.50.26", "II.2.42", "II.6.15a", "II.11.7", "II.11.27", "II.35.18"),
    *("II.36.38", "III.10.19", "III.17.37"),
)

_KNOWN = (
    {name: Facts("function") for name in FUNCTIONS}
    | {name: Facts("function", n_in=3 if name in _THREE_INPUTS else 2) for name in FEYNMAN}
    | {
        "allen-cahn": Facts("pde", points=4288, default_steps=5000, reference="dirichlet"),
        "burgers": Facts("pde", points=4288, default_steps=5000),
        "helmholtz": Facts("pde", points=4352, default_steps=5000),
    }
)


_TRAINED = ("x", "collocation", "points")  # the arrays whose points a step evaluates


def facts(problem: str) -> Facts:
    """The facts of a problem by name; a user's own (`module:object`) is imported and asked."""
    return _KNOWN[problem] if problem in _KNOWN else _asked(problem)


@functools.cache  # a study asks once a run, and the answer takes a sample of data
def _asked(problem: str) -> Facts:
    from kandle import problems

    found = problems.get(problem)
    arrays = found.arrays("float32")
    points = sum(len(arrays[name]) for name in _TRAINED if name in arrays)
    return Facts(
        found.kind,
        found.n_in,
        found.n_out,
        points,
        found.default_steps,
        getattr(found, "reference_name", ""),
    )
