"""Schemes by name, and schemes as plain dictionaries."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from kandle._errors import must, unknown
from kandle._imports import import_object
from kandle.init._baseline import Baseline
from kandle.init._data import DataDependent
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
    "glorot-fine": Glorot,
    "power-law": PowerLaw,
    "quiet": Quiet,
    "data": DataDependent,
}

# Settings that a name implies beyond its class.
_IMPLIED: dict[str, dict[str, Any]] = {
    "lecun-normalized": {"normalized": True},
    "glorot-fine": {"fine": True},
}


def get(scheme: str | Scheme) -> Scheme:
    """A scheme by its name or as `module:Class`, with default settings; a scheme as it is."""
    if isinstance(scheme, Scheme):
        return scheme
    if not isinstance(scheme, str):
        raise must("'init'", "a scheme or the name of one", scheme)
    return from_dict({"name": scheme})


def identifier(scheme: Scheme) -> str:
    """The name under which `from_dict` finds a scheme again: registered, or `module:Class`."""
    cls = type(scheme)
    if SCHEMES.get(scheme.name) is cls:
        return scheme.name
    return f"{cls.__module__}:{cls.__qualname__}"


def to_dict(scheme: Scheme) -> dict[str, Any]:
    """The scheme's name (`module:Class` for one of your own) and all its settings, for JSON."""
    return {**dataclasses.asdict(scheme), "name": identifier(scheme)}


def from_dict(description: Mapping[str, Any]) -> Scheme:
    """The scheme that `to_dict` described; settings left out take their defaults."""
    settings = dict(description)
    name = settings.pop("name", None)
    registered = name in SCHEMES
    if registered:
        cls = SCHEMES[name]
    elif isinstance(name, str) and ":" in name:
        cls = _imported(name)
    else:
        raise unknown("scheme", name, [*SCHEMES, "or your own as module:Class"])
    parameters = [field.name for field in dataclasses.fields(cls) if field.init]
    for setting in settings:
        if setting not in parameters:
            raise unknown(f"parameter of scheme {name!r}:", setting, parameters)
    scheme = cls(**{**_IMPLIED.get(name, {}), **settings})
    # A class with several names: {"name": "glorot", "fine": True} describes "glorot-fine".
    if registered and scheme.name != name:
        raise must(f"A description of scheme {name!r}", "consistent with its name", description)
    return scheme


def _imported(name: str) -> type[Scheme]:
    cls = import_object(name, "scheme")
    if not (isinstance(cls, type) and issubclass(cls, Scheme)):
        raise must(f"Scheme {name!r}", "a subclass of kandle.init.Scheme", cls)
    return cls
