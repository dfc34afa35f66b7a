"""From the table of a study file to a study, strictly."""

import itertools
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kandle import _form as form
from kandle import bases
from kandle._errors import UserError, must, unknown
from kandle.store import KINDS, compact
from kandle.study._axes import AXES, Axes, axis, counted_seeds, shapes
from kandle.study._catalogue import facts
from kandle.study._study import (
    SCALES,
    OptimizerChoice,
    SchemeAxis,
    Study,
    residual_function,
    scheme_axes,
)


def _one_or_several(field: str) -> form.Kind:
    return form.one_or_several(form.filled(KINDS[field]))


_STUDY = {
    **{key: AXES[key] for key in ("problems", "architectures", "grids", "widths", "depths")},
    "name": KINDS["study"],
    "description": form.text,
    "steps": KINDS["steps"],
    "schemes": form.several(form.either(KINDS["scheme"], form.table)),
    "optimizers": form.several(form.table),
    "bases": form.several(form.either(form.name, form.table)),
    "degrees": axis("degree"),
    "dtypes": axis("dtype"),
    "rba": _one_or_several("rba"),
    "draws": _one_or_several("draws"),
    "references": _one_or_several("reference"),
    "residual": _one_or_several("residual"),
    "bias": _one_or_several("bias"),
    "domain": form.interval,
    "curve": KINDS["curve"],
    "checkpoints": form.natural,
    "refinements": form.several(form.whole(2, 1000)),
    "recipe": form.name,
    "scales": form.table,
}
_SCHEME = {
    "name": KINDS["scheme"],
    "seeds": form.either(form.positive, form.several(form.seed)),
}
_OPTIMIZER = {
    "name": KINDS["optimizer"],
    "learning_rate": form.one_or_several(form.rate),
    "schedule": form.one_or_several(form.either(form.text, form.table)),
    "arguments": form.one_or_several(form.table),
}
_DEFAULT_SEEDS = 5
_AS_GIVEN = (
    *("description", "steps", "degrees", "dtypes", "domain", "curve", "checkpoints"),
    "refinements",
)
_PLURALS = {
    "rba": "rba",
    "draws": "draws",
    "references": "references",
    "residual": "residuals",
    "bias": "biases",
}


def load(path: Path, draws: Iterable[str]) -> Study:
    """The study that a TOML file declares; `draws` are the names that its key of that name knows.

    The problems and schemes it names as `module:object` are imported: their code runs.
    """
    try:
        with path.open("rb") as file:
            declaration = tomllib.load(file)
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: {error}.") from None
    except (ValueError, RecursionError) as error:  # not TOML, a huge number, too deep
        raise UserError(f"{path} is not TOML: {error}.") from None
    study = declare(declaration, draws=draws, source=str(path), default_name=path.stem)
    for scale in ("", *dict(study.scales)):
        place = f"{path}: scale {scale!r}: " if scale else f"{path}: "
        _check_names(place, study.at_scale(scale) if scale else study)
    if study.references and not any(facts(problem).reference for problem in study.problems):
        raise UserError(
            f"{path}: 'references' must be left out where no problem has several reference "
            f"solutions. Got {list(study.references)!r} instead."
        )
    return study


def declare(
    given: Mapping[str, Any],
    *,
    draws: Iterable[str],
    source: str = "",
    default_name: str = "",
) -> Study:
    """The study that a table declares; every key and value is checked."""
    place = f"{source}: " if source else ""
    kinds = _STUDY | {"draws": form.one_or_several(form.choice(*draws))}
    form.check(place, given, kinds, required=("problems", "schemes"))
    name = given.get("name", default_name)
    _STUDY["name"].check(f"{place}'name'", name)
    optional: dict[str, Any] = {
        key: tuple(given[key]) if isinstance(given[key], list | tuple) else given[key]
        for key in _AS_GIVEN
        if key in given
    }
    _check_refinements(place, optional.get("refinements", ()))
    for key, field in _PLURALS.items():
        if key in given:
            optional[field] = form.as_axis(given[key])
    if "bases" in given:
        entries = enumerate(given["bases"], 1)
        found = (_basis(f"{place}basis {i}: ", entry) for i, entry in entries)
        optional["bases"] = tuple(dict.fromkeys(found))
    if "optimizers" in given:
        tables = enumerate(given["optimizers"], 1)
        # Two tables may describe the same optimizer: each is used once.
        optional["optimizers"] = tuple(
            dict.fromkeys(
                choice
                for i, table in tables
                for choice in _optimizers(f"{place}optimizer {i}: ", table)
            )
        )
    if "recipe" in given:
        optional = _recipe(place, given) | optional
    return Study(
        name=name,
        problems=tuple(given["problems"]),
        architectures=_architectures(place, given),
        schemes=tuple(
            _scheme(f"{place}scheme {i}: ", table) for i, table in enumerate(given["schemes"], 1)
        ),
        scales=_scales(place, given),
        source=source,
        **optional,
    )


def _recipe(place: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a study that a recipe sets, unless the table does."""
    if "optimizers" in given:
        raise UserError(f"{place}'recipe' and 'optimizers' exclude each other: give one of them.")
    from kandle.train import recipe

    with _errors_name(place):
        chosen = recipe(given["recipe"])
    fields: dict[str, Any] = {
        "recipe": chosen,
        "dtypes": (chosen.dtype,),
        "refinements": chosen.refinements,
    }
    # As in `train`: least squares use no attention unless it is requested.
    return fields | ({"rba": ("off",)} if chosen.optimizer.least_squares else {})


def _check_refinements(place: str, given: tuple[int, ...]) -> None:
    if any(a >= b for a, b in itertools.pairwise(given)):
        raise must(f"{place}'refinements'", "increasing multiples of the grid", list(given))


def _architectures(place: str, given: Mapping[str, Any]) -> tuple[tuple[int, int, int], ...]:
    axes = [key for key in ("grids", "widths", "depths") if key in given]
    if "architectures" in given:
        if axes:
            raise UserError(
                f"{place}'{axes[0]}' and 'architectures' exclude each other: give one of them."
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


def _basis(place: str, given: Any) -> str:
    """A basis as canonical JSON; "" is the uniform B-spline of the study's grids and degrees."""
    table: dict[str, Any] = {"name": given} if isinstance(given, str) else given
    if table.get("name") == "bspline":
        if others := [key for key in table if key != "name"]:
            raise UserError(
                f"{place}'{others[0]}' of 'bspline' must be given by the keys 'grids', 'degrees' "
                "and 'domain' of the study."
            )
        return ""
    with _errors_name(place):
        return compact(bases.get(table).to_dict())


def _scheme(place: str, given: Any) -> SchemeAxis:
    table: dict[str, Any] = {"name": given} if isinstance(given, str) else given
    form.check(place, table, _SCHEME, required=("name",), others=form.one_or_several(form.scalar))
    seeds: Any = table.get("seeds", _DEFAULT_SEEDS)
    settings = {key: value for key, value in table.items() if key not in _SCHEME}
    return SchemeAxis(
        table["name"],
        counted_seeds(seeds) if isinstance(seeds, int) else tuple(seeds),
        scheme_axes(settings),
    )


def _optimizers(place: str, given: Mapping[str, Any]) -> list[OptimizerChoice]:
    form.check(place, given, _OPTIMIZER)
    for arguments in form.as_axis(given.get("arguments", {})):
        form.check(f"{place}arguments: ", arguments, {}, others=form.scalar)
    for schedule in form.as_axis(given.get("schedule", "constant")):
        if not isinstance(schedule, str):
            form.check(f"{place}schedule: ", schedule, {}, others=form.plain)
    return [
        OptimizerChoice.of(given.get("name", "adam"), learning_rate, schedule, arguments)
        for learning_rate in form.as_axis(given.get("learning_rate", 1e-3))
        for schedule in form.as_axis(given.get("schedule", "constant"))
        for arguments in form.as_axis(given.get("arguments", {}))
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


def _check_names(place: str, study: Study) -> None:
    """Look up everything the study names, so that mistakes are found before anything trains."""
    from kandle import init, problems
    from kandle.nn import get_residual

    for name in study.problems:
        with _errors_name(f"{place}'problems': "):
            problem = problems.get(name)
        for reference in study.references if getattr(problem, "reference_name", "") else ():
            with _errors_name(f"{place}'references': "):
                problem.with_reference(reference)
    for residual in study.residuals:
        with _errors_name(f"{place}'residual': "):
            get_residual(residual_function(residual))
    for i, optimizer in enumerate(study.optimizers, 1):
        with _errors_name(f"{place}optimizer {i}: "):
            optimizer.build().try_out()
    for i, scheme in enumerate(study.schemes, 1):
        names = [name for name, _ in scheme.settings]
        for values in itertools.product(*(values for _, values in scheme.settings)):
            with _errors_name(f"{place}scheme {i}: "):
                init.from_dict({"name": scheme.name, **dict(zip(names, values, strict=True))})


@contextmanager
def _errors_name(place: str) -> Iterator[None]:
    """Begin error messages with the place in the file."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{place}{error}") from None
