"""Schemes by name, and schemes as plain dictionaries."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from kandle._errors import must, unknown
from kandle.init._baseline import Baseline
from kandle.init._glorot import Glorot
from kandle.init._lecun import LeCun
from kandle.init._power_law import PowerLaw
from kandle.init._quiet import Quiet
from kandle.init._scheme import Scheme

SCHEMES: dict[str, type[Scheme]] = {
    "baseline": Baseline,
    "lecun-numerical": LeCun,
    "lecun-normalized": LeCun,
    "glorot": Glorot,
    "power-law": PowerLaw,
    "quiet": Quiet,
}

# What a name says beyond its class.
_IMPLIED: dict[str, dict[str, Any]] = {"lecun-normalized": {"normalized": True}}


def get(scheme: str | Scheme) -> Scheme:
    """A scheme by name, with its default parameters; a scheme is returned as it is."""
    if isinstance(scheme, Scheme):
        return scheme
    if not isinstance(scheme, str):
        raise must("'init'", "a scheme or the name of one", scheme)
    return from_dict({"name": scheme})


def to_dict(scheme: Scheme) -> dict[str, Any]:
    """The scheme's name and all its parameters, fit for JSON."""
    return {"name": scheme.name, **dataclasses.asdict(scheme)}


def from_dict(description: Mapping[str, Any]) -> Scheme:
    """The scheme that `to_dict` described; parameters left out take their defaults."""
    parameters = dict(description)
    name = parameters.pop("name", None)
    if name not in SCHEMES:
        raise unknown("scheme", name, SCHEMES)
    cls = SCHEMES[name]
    known = [field.name for field in dataclasses.fields(cls)]
    for parameter in parameters:
        if parameter not in known:
            raise unknown(f"parameter of scheme {name!r}:", parameter, known)
    scheme = cls(**{**_IMPLIED.get(name, {}), **parameters})
    if scheme.name != name:
        raise must(f"A description of scheme {name!r}", "consistent with its name", description)
    return scheme
