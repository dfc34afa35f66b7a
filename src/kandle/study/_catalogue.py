"""What planning needs to know of problems and schemes.

The facts of the problems that come with Kandle are listed here, so that planning does without JAX;
a test compares them with the problems. A user's own problem is imported and asked, as every scheme
is: schemes do without JAX.
"""

import dataclasses
import functools
import json
import operator
from collections.abc import Iterable
from typing import NamedTuple

from kandle import init
from kandle.store import SCHEME, RunSpec, SchemeLook


class Facts(NamedTuple):
    """The shape of a problem, as far as it decides what a run is and what it costs.

    `points` are evaluated per step. `reference` is the solution used unless a study names another;
    it is empty where there is only one.
    """

    kind: str  # "function" or "pde"
    n_in: int = 2
    n_out: int = 1
    points: int = 4000
    default_steps: int = 2000
    reference: str = ""


_THREE_INPUTS = ("I.6.2b", "I.29.16", "II.6.15a", "II.11.7", "II.36.38", "III.17.37")
_TWO_INPUTS = (
    *("f1", "f2", "f3", "f4", "f5", "I.6.2", "I.12.11", "I.13.12", "I.16.6", "I.18.4", "I.26.2"),
    *("I.27.6", "I.30.3", "I.40.1", "I.50.26", "II.2.42", "II.11.27", "II.35.18", "III.10.19"),
)
_PROBLEMS = (
    {name: Facts("function") for name in _TWO_INPUTS}
    | {name: Facts("function", n_in=3) for name in _THREE_INPUTS}
    | {
        "allen-cahn": Facts("pde", points=4288, default_steps=5000, reference="dirichlet"),
        "burgers": Facts("pde", points=4288, default_steps=5000),
        "helmholtz": Facts("pde", points=4352, default_steps=5000),
    }
)

_TRAINED = ("x", "collocation", "points")  # the arrays whose points a step evaluates


def facts(problem: str) -> Facts:
    """The facts of a problem by name; a user's own (`module:object`) is imported and asked."""
    return listed_facts(problem) or _ask_problem(problem)


def listed_facts(problem: str) -> Facts | None:
    """The facts of a problem that comes with Kandle; None for any other, which is not imported."""
    return _PROBLEMS.get(problem)


def listed_problems() -> list[str]:
    """The names of the problems that come with Kandle."""
    return list(_PROBLEMS)


@functools.cache  # a study asks once per run, and the answer needs a sample of the data
def _ask_problem(problem: str) -> Facts:
    from kandle import problems

    found = problems.get(problem)
    arrays = found.arrays("float32")
    points = sum(len(arrays[name]) for name in _TRAINED if name in arrays)
    reference = getattr(found, "reference_name", "")
    return Facts(found.kind, found.n_in, found.n_out, points, found.default_steps, reference)


class SchemeFacts(NamedTuple):
    """What planning needs to know of a scheme.

    - `normalized`: whether its layers standardize their basis, which is another program;
    - `exponents`: its settings `alpha` and `beta`, where it has them. A run records them also where
      a study does not give them.
    """

    normalized: bool
    exponents: dict[str, float]


@functools.cache
def scheme_facts(scheme: str, settings: str = "{}") -> SchemeFacts:
    """The facts of a scheme with some settings (JSON); a user's own class is imported."""
    return _facts_of(init.from_dict({"name": scheme, **json.loads(settings)}))


def _facts_of(scheme: init.Scheme) -> SchemeFacts:
    names = [field.name for field in dataclasses.fields(scheme)]
    exponents = {name: getattr(scheme, name) for name in ("alpha", "beta") if name in names}
    return SchemeFacts(scheme.normalized, exponents)


_SCHEME_FIELDS = operator.attrgetter(*SCHEME)
_normalized: dict[tuple, bool] = {}


def is_normalized(spec: RunSpec) -> bool:
    """Whether the layers of a run standardize their basis."""
    key = _SCHEME_FIELDS(spec)
    if key not in _normalized:
        _normalized[key] = build_scheme(spec).normalized
    return _normalized[key]


def build_scheme(spec: RunSpec) -> init.Scheme:
    """The scheme of a run."""
    return init.from_dict({"name": spec.scheme, **spec.scheme_settings})


def looks(specs: Iterable[RunSpec]) -> dict[tuple[str, str], SchemeLook]:
    """How the own schemes of some runs appear in tables and figures, by (scheme, settings)."""
    own = {(spec.scheme, spec.settings): spec for spec in specs if ":" in spec.scheme}
    schemes = {key: build_scheme(spec) for key, spec in own.items()}
    return {key: SchemeLook(scheme.label, scheme.color) for key, scheme in schemes.items()}
