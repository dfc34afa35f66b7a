"""Bases by name, and bases as plain dictionaries."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from kandle._errors import UserError, must, unknown
from kandle._imports import import_object
from kandle.bases._basis import Basis
from kandle.bases._bspline import BSpline
from kandle.bases._chebyshev import Chebyshev
from kandle.bases._fourier import Fourier
from kandle.bases._knots import Knots
from kandle.bases._legendre import Legendre
from kandle.bases._rbf import RBF

BASES: dict[str, type[Basis]] = {
    "bspline": BSpline,
    "knots": Knots,
    "chebyshev": Chebyshev,
    "legendre": Legendre,
    "fourier": Fourier,
    "rbf": RBF,
}


def get(basis: Basis | str | Mapping[str, Any]) -> Basis:
    """A basis by name with its default parameters, or by a description; a basis as it is.

    Example:
        >>> get("bspline")
        BSpline(grid=5, degree=3, domain=(-1.0, 1.0))
        >>> get({"name": "bspline", "grid": 10}).n_basis
        13
    """
    if isinstance(basis, Basis):
        return basis
    if isinstance(basis, str):
        return from_dict({"name": basis})
    if isinstance(basis, Mapping):
        return from_dict(basis)
    raise must("'basis'", "a basis, the name of one, or a table with its name", basis)


def from_dict(description: Mapping[str, Any]) -> Basis:
    """The basis that `Basis.to_dict` described; parameters left out take their defaults.

    The name is one of `BASES`, or `module:Class` for a class that is imported.
    """
    parameters = dict(description)
    name = parameters.pop("name", None)
    cls = _find(name)
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}
    for parameter in parameters:
        if parameter not in fields:
            raise unknown(f"parameter of basis {name!r}:", parameter, fields)
    for field in fields.values():
        required = dataclasses.MISSING is field.default is field.default_factory
        if required and field.name not in parameters:
            raise UserError(f"Basis {name!r} needs the parameter {field.name!r}.")
    return cls(**{key: _frozen(value) for key, value in parameters.items()})


def registered_name(cls: type[Basis]) -> str:
    """The name under which a class is found again: the registered one, or `module:Class`."""
    name = str(getattr(cls, "name", ""))
    return name if BASES.get(name) is cls else f"{cls.__module__}:{cls.__qualname__}"


def _find(name: Any) -> type[Basis]:
    if name in BASES:
        return BASES[name]
    if not isinstance(name, str) or ":" not in name:
        raise unknown("basis", name, [*BASES, "or your own as module:Class"])
    cls = import_object(name, "basis")
    if not (isinstance(cls, type) and issubclass(cls, Basis)):
        raise must(f"Basis {name!r}", "a subclass of kandle.bases.Basis", cls)
    return cls


def _frozen(value: Any) -> Any:
    """The value with tuples in place of lists: a basis is hashable."""
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    return value
