"""Studies and ways of drawing by name: those that packages provide, and those of users."""

import functools
import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from kandle._errors import UserError, must, unknown
from kandle.study._declare import declare, load
from kandle.study._study import Study

# Modules with a dictionary STUDIES of declarations, each in the form of a study file. They are
# named, not imported: what they provide belongs to packages that build on this one.
PROVIDERS = ["kandle.paper"]
_REGISTERED: dict[str, Study] = {}

INDEPENDENT = "independent"


class Draws(Protocol):
    """A way to draw: from a problem to the problem with its own points, and the sampler of the
    initial weights that `kandle.train.train` takes.
    """

    def __call__(self, problem: Any, /) -> tuple[Any, Any]: ...


DRAWS: dict[str, str] = {"published": "kandle.paper:published_draws"}
"""`module:function` of each way to draw other than the default, which is `independent`."""


def register(study: Study) -> None:
    """Let a study be found by its name, like the built-in ones.

    Example:
        >>> from kandle import study
        >>> glorot = study.SchemeAxis("glorot")
        >>> study.register(study.Study("tiny", ("f1",), ((5, 2, 1),), (glorot,)))
        >>> study.get("tiny").problems
        ('f1',)
    """
    if study.name in _provided():
        raise must("The name of a study", "new", study.name)
    _REGISTERED[study.name] = study


def names() -> list[str]:
    """The names of the built-in and registered studies."""
    return [*_provided(), *_REGISTERED]


def get(study: str | Path | Study) -> Study:
    """A study by its name or from a TOML file; a `Study` is returned unchanged."""
    if isinstance(study, Study):
        return study
    if isinstance(study, str) and study in _REGISTERED:
        return _REGISTERED[study]
    if isinstance(study, str) and study in _provided():
        return _built_in(study)
    path = Path(study)
    if path.suffix == ".toml" or path.is_file():
        if not path.is_file():
            raise UserError(f"There is no study file {path}.")
        return load(path, draws_names())
    raise unknown("study", str(study), [*names(), "or a file FILE.toml"])


def draws_names() -> tuple[str, ...]:
    """The names that `draws` may hold."""
    return (INDEPENDENT, *DRAWS)


def get_draws(name: str) -> Draws | None:
    """A way to draw by name; None for independent draws."""
    if name == INDEPENDENT:
        return None
    if name not in DRAWS:
        raise unknown("draws", name, draws_names())
    module, _, function = DRAWS[name].partition(":")
    return getattr(importlib.import_module(module), function)


@functools.cache
def _provided() -> Mapping[str, Mapping[str, Any]]:
    return {
        name: declaration
        for provider in PROVIDERS
        for name, declaration in importlib.import_module(provider).STUDIES.items()
    }


@functools.cache
def _built_in(name: str) -> Study:
    return declare({"name": name, **_provided()[name]}, draws=draws_names())
