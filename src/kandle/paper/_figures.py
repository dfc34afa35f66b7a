"""The 23 figures of the paper: which runs each shows, and how it is drawn."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from kandle._errors import UserError, unknown
from kandle.paper._design import (
    CURVE_SCHEMES,
    EXPONENTS,
    FUNCTIONS,
    LARGE,
    PDES,
    POWER_LAW,
    SMALL,
    STEPS,
)
from kandle.paper._references import (
    draw_solutions,
    draw_surfaces,
    function_surfaces,
    pde_solutions,
)
from kandle.report import figures
from kandle.report._load import Data, load

_SIZES = {"small": SMALL, "large": LARGE}
_PAIRS = len(EXPONENTS) ** 2
_SEARCH: dict[str, Any] = {"seeds": 3, "pairs": _PAIRS, "architectures": 24}
SEARCHES: dict[str, dict[str, Any]] = {
    "functions": _SEARCH | {"steps": STEPS["function"]},
    "pdes": _SEARCH | {"steps": STEPS["pde"]},
}
"""What the complete grid searches over the exponents have, for one problem and G."""


@dataclass(frozen=True)
class Recipe:
    """How a figure is made: the study it reads (None for C1, C2), data from frames, a renderer."""

    study: str | None
    data: Callable[..., Any]
    draw: Callable[..., Figure]
    curves: bool = False
    spectra: bool = False


def _curves(study: str, problems: Sequence[str], kind: str, scheduled: bool) -> Recipe:
    make = partial(
        figures.curve_grid,
        problems=problems,
        sizes=_SIZES,
        schemes=CURVE_SCHEMES,
        pair=POWER_LAW,
        scheduled=scheduled,
        steps=STEPS[kind],
        seeds=5,
    )
    return Recipe(study, make, figures.draw_curves, curves=True)


def _spectra(study: str, problem: str) -> Recipe:
    pde = problem in PDES
    make = partial(
        figures.spectrum_grid,
        problem=problem,
        shape=LARGE,
        schemes=CURVE_SCHEMES,
        pair=POWER_LAW,
        pde=pde,
        steps=STEPS["pde" if pde else "function"],
    )
    return Recipe(study, make, figures.draw_spectra, spectra=True)


def _exponents(problem: str, block: str) -> Recipe:
    steps = STEPS["pde" if problem in PDES else "function"]
    whole = {"shape": LARGE, "steps": steps, "pairs": _PAIRS}
    make = partial(figures.exponent_grid, problem=problem, block=block, **whole)
    return Recipe("ntk-exponents", make, figures.draw_exponents, spectra=True)


def _heatmap(study: str, problem: str, grid: int) -> Recipe:
    def make(data: Data) -> Any:
        whole: dict[str, Any] = dict(SEARCHES[study])
        return figures.heatmap_grid(data.runs, problem, grid, **whole)

    return Recipe(study, make, figures.draw_heatmaps)


FIGURES: dict[str, Recipe] = {
    "fig1": _curves("curves-functions", FUNCTIONS, "function", False),
    "fig2": _curves("curves-pdes", PDES, "pde", False),
    "fig3": _spectra("ntk-functions", "f3"),
    "fig4": _spectra("ntk-pdes", "allen-cahn"),
    "figC1": Recipe(None, function_surfaces, draw_surfaces),
    "figC2": Recipe(None, pde_solutions, draw_solutions),
    **{f"figD{i}": _heatmap("functions", "f3", G) for i, G in enumerate((5, 10, 20, 40), 1)},
    **{f"figD{i}": _heatmap("pdes", "allen-cahn", G) for i, G in enumerate((5, 10, 20), 5)},
    "figE1": _curves("curves-functions", FUNCTIONS, "function", True),
    "figE2": _curves("curves-pdes", PDES, "pde", True),
    **{
        f"figN{i}": _spectra("ntk-functions", problem)
        for i, problem in enumerate(("f1", "f2", "f4", "f5"), 1)
    },
    "figN5": _spectra("ntk-pdes", "burgers"),
    "figN6": _spectra("ntk-pdes", "helmholtz"),
    "figN7": _exponents("f3", "ntk"),
    "figN8": _exponents("burgers", "pde"),
}


def figure(
    name: str,
    store: str | Path | None,
    *,
    where: Iterable[str] = (),
    shared_scale: bool = False,
) -> Figure:
    """Figure `name` of the paper from a store; C1 and C2 need none.

    `shared_scale` gives the panels of kernel spectra one scale per row, and those of loss curves
    one scale per problem.
    """
    if name not in FIGURES:
        raise unknown("figure", name, [*FIGURES, "heatmap", "curves", "spectra", "compare"])
    recipe = FIGURES[name]
    if recipe.study is None:
        return recipe.draw(recipe.data())
    if store is None:
        raise UserError(f"{name} is made from runs: pass a store with --store.")
    data = load(store, recipe.study, curves=recipe.curves, spectra=recipe.spectra, where=where)
    if not shared_scale:
        return recipe.draw(recipe.data(data))
    if recipe.draw not in (figures.draw_spectra, figures.draw_curves):
        raise UserError(
            f"'--shared-scale' is for loss curves and kernel spectra; {name} shows neither."
        )
    return recipe.draw(recipe.data(data), shared_scale=True)
