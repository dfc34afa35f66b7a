"""Axes: what narrows or widens a study. Scales and the program's options are sets of axes."""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kandle import _form as form
from kandle._errors import must
from kandle.store import KINDS

Shape = tuple[int, int, int]
"""(G, width, depth) of an architecture."""

NAMED_SHAPES: dict[str, Shape] = {"small": (5, 8, 2), "large": (20, 32, 3)}

_SHAPE = {name: KINDS[name] for name in ("G", "width", "depth")}
_ARCHITECTURE = form.either(form.choice(*NAMED_SHAPES), form.table)


def axis(field: str) -> form.Kind:
    """A list of what a field of a run may hold."""
    return form.several(form.filled(KINDS[field]))


AXES = {
    "problems": axis("problem"),
    "architectures": form.several(_ARCHITECTURE),
    "grids": axis("G"),
    "widths": axis("width"),
    "depths": axis("depth"),
    "schemes": axis("scheme"),
    "alphas": axis("alpha"),
    "betas": axis("beta"),
    "seeds": form.either(form.positive, form.table),
    "steps": KINDS["steps"],
}
"""What each axis may hold."""


_MOST_SEEDS = 1_000_000


@dataclass(frozen=True)
class Axes:
    """What replaces a study's own axes; None leaves an axis unchanged.

    - `problems`, `schemes`: names, `module:object` or `module:Class`; a scheme that the study does
      not have is added with its default settings;
    - `architectures`: replaces all architectures;
    - `grids`, `widths`, `depths`: each replaces that coordinate in every architecture of the study;
    - `alphas`, `betas`: replace the exponents of schemes that have them;
    - `seeds`: how many for every scheme, or for each scheme by name;
    - `steps`: the length of every training.
    """

    problems: tuple[str, ...] | None = None
    architectures: tuple[Shape, ...] | None = None
    grids: tuple[int, ...] | None = None
    widths: tuple[int, ...] | None = None
    depths: tuple[int, ...] | None = None
    schemes: tuple[str, ...] | None = None
    alphas: tuple[float, ...] | None = None
    betas: tuple[float, ...] | None = None
    seeds: int | tuple[tuple[str, int], ...] | None = None
    steps: int | None = None

    @classmethod
    def from_dict(cls, place: str, given: Mapping[str, Any]) -> "Axes":
        """Check and build axes from a table of a file or from the program's options."""
        form.check(place, given, AXES)
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list | tuple) else value
            for key, value in given.items()
        }
        if "architectures" in given:
            values["architectures"] = shapes(place, given["architectures"])
        for name in ("alphas", "betas"):
            if name in given:
                values[name] = tuple(map(float, given[name]))
        if isinstance(given.get("seeds"), Mapping):
            kinds = dict.fromkeys(given["seeds"], form.positive)
            form.check(f"{place}seeds: ", given["seeds"], kinds)
            values["seeds"] = tuple(given["seeds"].items())
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """The axes that are given, by name."""
        every = dataclasses.asdict(self)
        return {name: value for name, value in every.items() if value is not None}


def shapes(place: str, given: Iterable[Any]) -> tuple[Shape, ...]:
    """Architectures from names (`small`, `large`) and tables `{G, width, depth}`."""
    found = []
    for entry in given:
        if isinstance(entry, str):
            found.append(NAMED_SHAPES[entry])
        else:
            form.check(f"{place}architectures: ", entry, _SHAPE, required=_SHAPE)
            found.append((entry["G"], entry["width"], entry["depth"]))
    return tuple(dict.fromkeys(found))


def replace_coordinates(given: tuple[Shape, ...], axes: Axes) -> tuple[Shape, ...]:
    """Every architecture with `axes.grids`, `.widths`, `.depths` in place of its own coordinates.

    {small, large} with widths (4, 8) is G=5 at depth 2 and G=20 at depth 3, each 4 and 8 wide.
    """
    given = axes.architectures or given
    product = [
        (g, w, d)
        for G, width, depth in given
        for g in axes.grids or (G,)
        for w in axes.widths or (width,)
        for d in axes.depths or (depth,)
    ]
    return tuple(dict.fromkeys(product))


def counted_seeds(count: int) -> tuple[int, ...]:
    """The seeds 0, 1, …, count - 1."""
    if count > _MOST_SEEDS:
        raise must("'seeds'", f"at most {_MOST_SEEDS:,} per scheme", count)
    return tuple(range(count))
