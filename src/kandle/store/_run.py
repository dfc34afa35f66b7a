"""What a run is: the whole configuration of one training, and its identity.

This is the one declaration of a run. The columns of a store and of exported rows, the checks of
imported rows and the axes of study files derive from it.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, get_args

from kandle import _form as form
from kandle._errors import must, unknown

Value = str | int | float | bool | None
"""What a field of a run may hold."""

ADDED = "added"
"""Marks a field that older stores do not have: a configuration leaves it out at its default, so
that the identities of older runs stay the same."""

_NUMBER_OR_NONE = form.either(form.number, form.none)
_JSON_OBJECT = form.either(form.encoded(form.table, "an object"), form.blank)
_JSON_LIST = form.encoded(form.Kind("a list", lambda value: isinstance(value, list)), "a list")


def compact(value: object) -> str:
    """`value` as canonical JSON: sorted keys, no blanks, floats by their shortest exact form."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True, slots=True)
class RunSpec:
    """The whole configuration of one training; two runs are the same if and only if these are
    equal.

    All values are plain (text, whole number, number, truth value or None), so that a spec is a row
    of a table. What has parts is written as canonical JSON: `schedule` (unless a name says it
    all), `settings` (a scheme's settings other than `alpha`, `beta` and `gain`),
    `optimizer_arguments`, `domain`, `checkpoints`, `basis`, `refinements`. Empty text and None
    mean "does not apply" or "the default": `rba` of a function, `gain` of a scheme with its
    default settings.

    - `scheme`: a built-in name, or `module:Class`;
    - `G`, `degree`, `width`, `depth`: `depth` hidden layers of `width` units, splines of `degree`
      on G intervals;
    - `basis`: a basis other than those splines, as its `to_dict`; `G` is then its number of
      functions;
    - `refinements`: finer grids trained after G, as multiples of G, with `steps` updates on each;
    - `seed` determines the weights only: the data depend on the problem alone;
    - `curve`: `"log"` keeps about 200 losses, `"all"` one per step;
    - `draws`: where points and initial weights come from: `"independent"`, or another registered
      way such as `"published"`;
    - `checkpoints`: after how many updates the spectrum of the tangent kernel is computed;
    - `replicate`: 0 for every run that Kandle trains; counts repeats of one configuration in
      imported rows.

    Example:
        >>> spec = RunSpec("functions", "f3", "glorot", 5, 8, 2, 0)
        >>> RunSpec.from_dict(spec.to_dict()) == spec
        True
    """

    study: Annotated[str, form.name]
    problem: Annotated[str, form.name]
    scheme: Annotated[str, form.name]
    alpha: Annotated[float | None, _NUMBER_OR_NONE] = field(default=None, kw_only=True)
    beta: Annotated[float | None, _NUMBER_OR_NONE] = field(default=None, kw_only=True)
    G: Annotated[int, form.positive]
    degree: Annotated[int, form.whole(1, 5)] = field(default=3, kw_only=True)
    width: Annotated[int, form.positive]
    depth: Annotated[int, form.positive]
    seed: Annotated[int, form.natural]
    steps: Annotated[int, form.positive] = field(default=2000, kw_only=True)
    optimizer: Annotated[str, form.name] = field(default="adam", kw_only=True)
    learning_rate: Annotated[float, form.number] = field(default=1e-3, kw_only=True)
    schedule: Annotated[str, form.text] = field(default="constant", kw_only=True)
    dtype: Annotated[str, form.choice("float32", "float64")] = field(
        default="float32", kw_only=True
    )
    rba: Annotated[str, form.either(form.choice("published", "text", "off"), form.blank)] = field(
        default="", kw_only=True
    )
    gain: Annotated[float | None, _NUMBER_OR_NONE] = field(default=None, kw_only=True)
    reference: Annotated[str, form.either(form.name, form.blank)] = field(default="", kw_only=True)
    settings: Annotated[str, _JSON_OBJECT] = field(default="", kw_only=True)
    optimizer_arguments: Annotated[str, _JSON_OBJECT] = field(default="", kw_only=True)
    domain: Annotated[str, _JSON_LIST] = field(default="[-1.0,1.0]", kw_only=True)
    residual: Annotated[str, form.name] = field(default="silu", kw_only=True)
    bias: Annotated[bool, form.truth] = field(default=True, kw_only=True)
    curve: Annotated[str, form.choice("log", "all")] = field(default="log", kw_only=True)
    checkpoints: Annotated[str, form.either(_JSON_LIST, form.blank)] = field(
        default="", kw_only=True
    )
    draws: Annotated[str, form.name, ADDED] = field(default="independent", kw_only=True)
    basis: Annotated[str, _JSON_OBJECT, ADDED] = field(default="", kw_only=True)
    refinements: Annotated[str, form.either(_JSON_LIST, form.blank), ADDED] = field(
        default="", kw_only=True
    )
    replicate: Annotated[int, form.natural] = field(default=0, kw_only=True)

    def to_dict(self) -> dict[str, Value]:
        """The spec as a flat dict; `RunSpec.from_dict` is the exact inverse.

        Added fields are left out at their default, so that older runs keep their identity.
        """
        values: dict[str, Any] = {name: getattr(self, name) for name in FIELDS}
        # 1 and 1.0 are one configuration: numbers leave as floats, so that identities agree.
        for name in _NUMBERS:
            if values[name] is not None:
                values[name] = float(values[name])
        for name, default in ADDED_DEFAULTS.items():
            if values[name] == default:
                del values[name]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "RunSpec":
        """Build a spec from a dict of its fields; an unknown key, a missing one or a wrong value
        is an error.
        """
        for key in values:
            if key not in KINDS:
                raise unknown("field of a run", key, KINDS)
        for key in REQUIRED:
            if key not in values:
                raise must(f"'{key}' of a run", "given", None)
        for key, value in values.items():
            KINDS[key].check(f"'{key}' of a run", value)
        numbers = {k: float(values[k]) for k in _NUMBERS if values.get(k) is not None}
        return cls(**{**values, **numbers})

    @property
    def identity(self) -> str:
        """SHA-256 of the canonical JSON of the whole configuration."""
        return hashlib.sha256(compact(self.to_dict()).encode()).hexdigest()

    @property
    def scheme_settings(self) -> dict[str, Any]:
        """The settings of the scheme that were given, by name."""
        own = {"alpha": self.alpha, "beta": self.beta, "gain": self.gain}
        given = {name: value for name, value in own.items() if value is not None}
        return given | (json.loads(self.settings) if self.settings else {})

    def replace(self, **changes: Any) -> "RunSpec":
        return dataclasses.replace(self, **changes)


_FIELDS = dataclasses.fields(RunSpec)
FIELDS = tuple(field.name for field in _FIELDS)
"""The names of the fields, in the order of the columns."""
PYTHON_TYPES: dict[str, Any] = {field.name: get_args(field.type)[0] for field in _FIELDS}
KINDS: dict[str, form.Kind] = {field.name: get_args(field.type)[1] for field in _FIELDS}
REQUIRED = tuple(field.name for field in _FIELDS if field.default is dataclasses.MISSING)
ADDED_DEFAULTS: dict[str, Any] = {
    field.name: field.default for field in _FIELDS if ADDED in get_args(field.type)
}
_NUMBERS = tuple(name for name, kind in PYTHON_TYPES.items() if kind in (float, float | None))

# Every field has one of five roles: it names the run's `study` and `problem`, shapes the network
# (`G`, `width`, `depth`), says how the network is initialized, says what is recorded, or says how
# the network is trained. The last are those that no list names: a field that is added counts as
# one of them, so that runs that differ in it are never taken for repeats of one another.
SCHEME = ("scheme", "alpha", "beta", "gain", "settings")
"""The fields of a scheme and its settings."""
MEMBER = (*SCHEME, "seed", "replicate")
"""The fields in which runs may differ that train together: which initialization a model has."""
RECORDED = ("curve", "checkpoints")
"""What is recorded of a training, which does not depend on them."""
ARCHITECTURE = ("G", "width", "depth")
TRAINING = tuple(
    name for name in FIELDS if name not in ("study", "problem", *ARCHITECTURE, *MEMBER, *RECORDED)
)
"""How a network is trained: two schemes may be compared where all of these are equal."""
