"""The figures of the study: plain data from frames, then a renderer. `FIGURES` lists them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from kandle._errors import UserError, unknown
from kandle.problems import FUNCTIONS, PDES
from kandle.report._load import Data, load, open_store, restrict, study_runs
from kandle.report._names import ordered
from kandle.report.figures._curves import curve_grid, draw_curves
from kandle.report.figures._exponents import draw_exponents, exponent_grid
from kandle.report.figures._heatmap import draw_heatmaps, heatmap_grid
from kandle.report.figures._references import (
    draw_solutions,
    draw_surfaces,
    function_surfaces,
    pde_solutions,
)
from kandle.report.figures._remarks import STEPS
from kandle.report.figures._spectra import draw_spectra, spectrum_grid
from kandle.report.figures._style import FORMATS, check_format, save, style

__all__ = [
    "FIGURES",
    "FORMATS",
    "Recipe",
    "build",
    "check_format",
    "curve_grid",
    "draw_curves",
    "draw_exponents",
    "draw_heatmaps",
    "draw_solutions",
    "draw_spectra",
    "draw_surfaces",
    "exponent_grid",
    "function_surfaces",
    "heatmap",
    "heatmap_grid",
    "pde_solutions",
    "save",
    "searched",
    "spectrum_grid",
    "style",
]


@dataclass(frozen=True)
class Recipe:
    """How a figure is made: the study it reads (none for C1, C2), data from frames, a renderer."""

    study: str | None
    data: Callable[..., Any]
    draw: Callable[[Any], Figure]
    curves: bool = False
    spectra: bool = False


def _curves(study: str, problems: Iterable[str], kind: str, scheduled: bool) -> Recipe:
    make = partial(curve_grid, problems=tuple(problems), scheduled=scheduled, steps=STEPS[kind])
    return Recipe(study, make, draw_curves, curves=True)


def _spectra(study: str, problem: str, pde: bool) -> Recipe:
    return Recipe(
        study, partial(spectrum_grid, problem=problem, pde=pde), draw_spectra, spectra=True
    )


def _exponents(problem: str, block: str) -> Recipe:
    make = partial(exponent_grid, problem=problem, block=block)
    return Recipe("ntk-exponents", make, draw_exponents, spectra=True)


def _heatmap(study: str, problem: str, grid: int, kind: str) -> Recipe:
    def make(data: Data) -> Any:
        return heatmap_grid(data.runs, problem, grid, steps=STEPS[kind])

    return Recipe(study, make, draw_heatmaps)


FIGURES: dict[str, Recipe] = {
    "fig1": _curves("curves-functions", FUNCTIONS, "function", False),
    "fig2": _curves("curves-pdes", PDES, "pde", False),
    "fig3": _spectra("ntk-functions", "f3", False),
    "fig4": _spectra("ntk-pdes", "allen-cahn", True),
    "figC1": Recipe(None, function_surfaces, draw_surfaces),
    "figC2": Recipe(None, pde_solutions, draw_solutions),
    **{
        f"figD{i}": _heatmap("functions", "f3", grid, "function")
        for i, grid in enumerate((5, 10, 20, 40), 1)
    },
    **{
        f"figD{i}": _heatmap("pdes", "allen-cahn", grid, "pde")
        for i, grid in enumerate((5, 10, 20), 5)
    },
    "figE1": _curves("curves-functions", FUNCTIONS, "function", True),
    "figE2": _curves("curves-pdes", PDES, "pde", True),
    **{
        f"figN{i}": _spectra("ntk-functions", problem, False)
        for i, problem in enumerate(("f1", "f2", "f4", "f5"), 1)
    },
    "figN5": _spectra("ntk-pdes", "burgers", True),
    "figN6": _spectra("ntk-pdes", "helmholtz", True),
    "figN7": _exponents("f3", "ntk"),
    "figN8": _exponents("burgers", "pde"),
}


def build(name: str, store: str | Path | None, *, where: Iterable[str] = ()) -> Figure:
    """Figure `name` from a store; C1 and C2 need none."""
    if name not in FIGURES:
        raise unknown("figure", name, [*FIGURES, "heatmap"])
    recipe = FIGURES[name]
    if recipe.study is None:
        return recipe.draw(recipe.data())
    if store is None:
        raise UserError(f"{name} is made from runs: give it a store with --store.")
    data = load(store, recipe.study, curves=recipe.curves, spectra=recipe.spectra, where=where)
    return recipe.draw(recipe.data(data))


def searched(store: str | Path, study: str | None = None) -> list[tuple[str, str, int]]:
    """(study, problem, G) of every grid search over exponents in a store, in the study's order.

    A study with one exponent pair searched nothing. Of several studies with one problem and G it
    is the widest search: the most pairs times architectures. With `study`, only that one's.
    """
    with open_store(store) as opened:
        runs = opened.frame(study)
    keys = ["problem", "G", "study"]
    power = runs[runs["scheme"].eq("power-law")]
    pairs = power.drop_duplicates([*keys, "alpha", "beta"]).groupby(keys, sort=False).size()
    cells = power.drop_duplicates([*keys, "width", "depth", "alpha", "beta"])
    counts = cells.groupby(keys, sort=False).size()[pairs > 1].sort_values(kind="stable")
    best = counts.reset_index().drop_duplicates(["problem", "G"], keep="last")
    found = [(str(s), str(p), int(g)) for s, p, g in best[["study", "problem", "G"]].to_numpy()]
    order = ordered([problem for _, problem, _ in found])
    return sorted(found, key=lambda row: (order.index(row[1]), row[2]))


def heatmap(
    store: str | Path,
    problem: str,
    grid: int,
    *,
    study: str | None = None,
    metric: str = "loss",
    own_scale: bool = False,
    where: Iterable[str] = (),
) -> Figure:
    """The heatmaps of any problem and G that a store holds, as in the paper's supplement."""
    if study is None:
        found = searched(store)
        matching = [s for s, p, g in found if p == problem and g == grid]
        if not matching:
            held = sorted({p for _, p, _ in found})
            if problem not in held:
                raise unknown("problem with a search over exponents", problem, held or ["none"])
            grids = ", ".join(str(g) for _, p, g in found if p == problem)
            raise UserError(
                f"{problem!r} has no search over exponents with G = {grid}. Held: G {grids}."
            )
        study = matching[0]
    with open_store(store) as opened:
        runs = restrict(study_runs(opened, study), where)
    kind = "function" if study == "functions" else "pde" if study == "pdes" else None
    steps = STEPS[kind] if kind else None
    return draw_heatmaps(
        heatmap_grid(runs, problem, grid, metric=metric, steps=steps), own_scale=own_scale
    )
