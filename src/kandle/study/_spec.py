"""What a run is: the whole configuration of one training, and its identity."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kandle._errors import must, unknown
from kandle.store import LATER


def compact(value: object) -> str:
    """`value` as canonical JSON: sorted keys, no blanks, floats by their shortest exact form."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


DRAWS = (LATER["draws"], "published")


@dataclass(frozen=True, slots=True)
class RunSpec:
    """The whole configuration of one training; two runs are the same run if and only if these are
    equal.

    All values are plain (text, whole number, number, truth value or None), so that a spec is a row
    of a table. What has parts is written as canonical JSON: `schedule` (unless a name says it
    all), `settings` (a scheme's settings other than `alpha`, `beta` and `gain`),
    `optimizer_arguments`, `domain`, `checkpoints`. Empty text and None mean "does not apply" or
    "the default": `rba` of a function, `gain` of a scheme used as it is.

    - `G`, `degree`, `width`, `depth`: `depth` hidden layers of `width` units, splines of `degree`
      on G intervals;
    - `seed` keys the weights only: the data depend on the problem alone;
    - `curve`: `"log"` keeps about 200 losses, `"all"` one a step;
    - `draws`: "independent", or "published": points and starts of the published runs, as for
      `kandle.train.train`;
    - `checkpoints`: after how many updates the spectrum of the tangent kernel is taken;
    - `replicate` is 0 for every run Kandle makes and counts repeats of one configuration in
      imported rows.
    """

    study: str
    problem: str
    scheme: str
    G: int
    width: int
    depth: int
    seed: int
    alpha: float | None = None
    beta: float | None = None
    degree: int = 3
    steps: int = 2000
    optimizer: str = "adam"
    learning_rate: float = 1e-3
    schedule: str = "constant"
    dtype: str = "float32"
    rba: str = ""
    gain: float | None = None
    reference: str = ""
    settings: str = ""
    optimizer_arguments: str = ""
    domain: str = "[-1.0,1.0]"
    residual: str = "silu"
    bias: bool = True
    curve: str = "log"
    checkpoints: str = ""
    draws: str = LATER["draws"]
    replicate: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The spec as a flat dict; `RunSpec.from_dict` undoes it exactly.

        Fields that came later are left out at their default: older runs keep their identity.
        """
        values: dict[str, Any] = {name: getattr(self, name) for name in FIELDS}
        # 1 and 1.0 are one configuration: numbers leave as floats, so that identities agree.
        for name in _NUMBERS:
            if values[name] is not None:
                values[name] = float(values[name])
        for name, default in LATER.items():
            if values[name] == default:
                del values[name]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "RunSpec":
        """Build a spec from a dict of its fields; an unknown key, a missing one or a wrong type is
        an error.
        """
        for key in values:
            if key not in _TYPES:
                raise unknown("field of a run", key, _TYPES)
        for key in _REQUIRED:
            if key not in values:
                raise must(f"'{key}' of a run", "given", None)
        return cls(**{key: _checked(key, value) for key, value in values.items()})

    @property
    def identity(self) -> str:
        """SHA-256 of the canonical JSON of the whole configuration."""
        return hashlib.sha256(compact(self.to_dict()).encode()).hexdigest()

    @property
    def scheme_settings(self) -> dict[str, Any]:
        """The settings of the scheme as it takes them: those that were given, by name."""
        own = {"alpha": self.alpha, "beta": self.beta, "gain": self.gain}
        given = {name: value for name, value in own.items() if value is not None}
        return given | (json.loads(self.settings) if self.settings else {})

    def replace(self, **changes: Any) -> "RunSpec":
        return dataclasses.replace(self, **changes)


_FIELDS = dataclasses.fields(RunSpec)
_TYPES: dict[str, Any] = {field.name: field.type for field in _FIELDS}
_REQUIRED = tuple(field.name for field in _FIELDS if field.default is dataclasses.MISSING)
_NUMBERS = tuple(name for name, kind in _TYPES.items() if kind in (float, float | None))
FIELDS = tuple(_TYPES)

_WORDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    float | None: "a number or empty",
    str: "text",
    bool: "true or false",
}


_CLASSES: dict[Any, Any] = {
    int: int,
    float: (int, float),
    float | None: (int, float),
    str: str,
    bool: bool,
}


def _checked(key: str, value: Any) -> Any:
    kind = _TYPES[key]
    if value is None and kind == float | None:
        return None
    truth: bool = isinstance(value, bool)
    if truth != (kind is bool) or not isinstance(value, _CLASSES[kind]):
        raise must(f"'{key}' of a run", _WORDS[kind], value)
    return float(value) if key in _NUMBERS else value  # pyright: ignore[reportArgumentType]
