"""From the table of a study file to a study, strictly."""

import itertools
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kandle._errors import UserError, unknown
from kandle.study import _form as form
from kandle.study._axes import KINDS, Axes, shapes
from kandle.study._catalogue import facts
from kandle.study._spec import DRAWS, compact
from kandle.study._study import (
    SCALES,
    OptimizerChoice,
    SchemeAxis,
    Study,
    residual_function,
    scheme_axes,
)

_STUDY = {
    "name": form.text,
    "description": form.text,
    "problems": KINDS["problems"],
    "architectures": KINDS["architectures"],
    "grids": KINDS["grids"],
    "widths": KINDS["widths"],
    "depths": KINDS["depths"],
    "steps": form.positive,
    "schemes": form.several(form.either(form.text, form.table)),
    "optimizers": form.several(form.table),
    "degrees": form.several(form.degree),
    "dtypes": form.several(form.choice("float32", "float64")),
    "rba": form.one_or_several(form.choice("published", "text", "off")),
    "draws": form.one_or_several(form.choice(*DRAWS)),
    "references": form.one_or_several(form.text),
    "residual": form.one_or_several(form.text),
    "bias": form.one_or_several(form.truth),
    "domain": form.interval,
    "curve": form.choice("log", "all"),
    "checkpoints": form.natural,
    "scales": form.table,
}
_SCHEME = {
    "name": form.text,
    "seeds": form.either(form.positive, form.several(form.seed)),
}
_OPTIMIZER = {
    "name": form.text,
    "learning_rate": form.one_or_several(form.rate),
    "schedule": form.one_or_several(form.either(form.text, form.table)),
    "arguments": form.one_or_several(form.table),
}
_DEFAULT_SEEDS = 5
_PLURALS = {
    "rba": "rba",
    "draws": "draws",
    "references": "references",
    "residual": "residuals",
    "bias": "biases",
}


def load(path: Path) -> Study:
    """The study that a TOML file declares."""
    try:
        with path.open("rb") as file:
            declaration = tomllib.load(file)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path} is not TOML: {error}.") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: {error}.") from None
    study = declare(declaration, source=str(path), default_name=path.stem)
    for scale in ("", *dict(study.scales)):
        place = f"{path}: scale {scale!r}: " if scale else f"{path}: "
        _check_made(place, study.at_scale(scale) if scale else study)
    if study.references and not any(facts(problem).reference for problem in study.problems):
        raise UserError(
            f"{path}: 'references' must be left out where no problem has several reference "
            f"solutions. Got {list(study.references)!r} instead."
        )
    return study


def declare(given: Mapping[str, Any], *, source: str = "", default_name: str = "") -> Study:
    """The study that a table declares; every key and value is checked."""
    place = f"{source}: " if source else ""
    form.check(place, given, _STUDY, required=("problems", "schemes"))
    optional: dict[str, Any] = {
        key: tuple(given[key]) if isinstance(given[key], list | tuple) else given[key]
        for key in ("description", "steps", "degrees", "dtypes", "domain", "curve", "checkpoints")
        if key in given
    }
    for key, field in _PLURALS.items():
        if key in given:
            optional[field] = form.listed(given[key])
    if "optimizers" in given:
        tables = enumerate(given["optimizers"], 1)
        # Two tables may say the same in different words: a run is made once.
        optional["optimizers"] = tuple(
            dict.fromkeys(
                choice
                for i, table in tables
                for choice in _optimizers(f"{place}optimizer {i}: ", table)
            )
        )
    return Study(
        name=given.get("name", default_name),
        problems=tuple(given["problems"]),
        architectures=_architectures(place, given),
        schemes=tuple(
            _scheme(f"{place}scheme {i}: ", table) for i, table in enumerate(given["schemes"], 1)
        ),
        scales=_scales(place, given),
        source=source,
        **optional,
    )


def _architectures(place: str, given: Mapping[str, Any]) -> tuple[tuple[int, int, int], ...]:
    axes = [key for key in ("grids", "widths", "depths") if key in given]
    if "architectures" in given:
        if axes:
            raise UserError(
                f"{place}'{axes[0]}' cannot stand beside 'architectures': give one or the other."
            )
        return shapes(place, given["architectures"])
    form.check(
        place,
        {key: given[key] for key in axes},
        {key: _STUDY[key] for key in ("grids", "widths", "depths")},
        required=("grids", "widths", "depths"),
    )
    return tuple(
        (G, width, depth)
        for G in given["grids"]
        for width in given["widths"]
        for depth in given["depths"]
    )


def _scheme(place: str, given: Any) -> SchemeAxis:
    table: dict[str, Any] = {"name": given} if isinstance(given, str) else given
    form.check(place, table, _SCHEME, required=("name",), others=form.one_or_several(form.scalar))
    seeds: Any = table.get("seeds", _DEFAULT_SEEDS)
    settings = {key: value for key, value in table.items() if key not in _SCHEME}
    return SchemeAxis(
        table["name"],
        tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds),
        scheme_axes(settings),
    )


def _optimizers(place: str, given: Mapping[str, Any]) -> list[OptimizerChoice]:
    form.check(place, given, _OPTIMIZER)
    for arguments in form.listed(given.get("arguments", {})):
        form.check(f"{place}arguments: ", arguments, {}, others=form.scalar)
    for schedule in form.listed(given.get("schedule", "constant")):
        if not isinstance(schedule, str):
            form.check(f"{place}schedule: ", schedule, {}, others=form.plain)
    return [
        OptimizerChoice(
            given.get("name", "adam"),
            float(learning_rate),
            schedule if isinstance(schedule, str) else compact(schedule),
            compact(arguments) if arguments else "",
        )
        for learning_rate in form.listed(given.get("learning_rate", 1e-3))
        for schedule in form.listed(given.get("schedule", "constant"))
        for arguments in form.listed(given.get("arguments", {}))
    ]


def _scales(place: str, given: Mapping[str, Any]) -> tuple[tuple[str, Axes], ...]:
    scales = given.get("scales", {})
    form.check(f"{place}scales: ", scales, dict.fromkeys(SCALES, form.table))
    declared = [table if isinstance(table, str) else table["name"] for table in given["schemes"]]
    found = []
    for name, table in scales.items():
        axes = Axes.from_dict(f"{place}scale {name!r}: ", table)
        known = axes.schemes or tuple(dict.fromkeys(declared))
        for scheme, _ in axes.seeds if isinstance(axes.seeds, tuple) else ():
            if scheme not in known:
                raise unknown(f"scheme in {place}scale {name!r}: seeds:", scheme, known)
        found.append((name, axes))
    return tuple(found)


def _check_made(place: str, study: Study) -> None:
    """Make what the study names once, so that a misspelt one is found before anything trains."""
    from kandle import init, problems
    from kandle.nn import get_residual

    for name in study.problems:
        with _placed(f"{place}'problems': "):
            problem = problems.get(name)
        for reference in study.references if getattr(problem, "reference_name", "") else ():
            with _placed(f"{place}'references': "):
                problem.with_reference(reference)
    for residual in study.residuals:
        with _placed(f"{place}'residual': "):
            get_residual(residual_function(residual))
    for i, optimizer in enumerate(study.optimizers, 1):
        with _placed(f"{place}optimizer {i}: "):
            optimizer.made().try_out()
    for i, scheme in enumerate(study.schemes, 1):
        names = [name for name, _ in scheme.settings]
        for values in itertools.product(*(values for _, values in scheme.settings)):
            with _placed(f"{place}scheme {i}: "):
                init.from_dict({"name": scheme.name, **dict(zip(names, values, strict=True))})


@contextmanager
def _placed(place: str) -> Iterator[None]:
    """Let an error say where in the file its cause stands."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{place}{error}") from None
