"""Figures of any study: plain data from frames, then a renderer."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kandle._errors import UserError, needs_extra, unknown

with needs_extra("kandle.report.figures", "study"):
    from matplotlib.figure import Figure

from kandle.report._load import open_store, restrict, study_runs
from kandle.report._names import ordered
from kandle.report.figures._curves import curve_grid, draw_curves
from kandle.report.figures._exponents import draw_exponents, exponent_grid
from kandle.report.figures._heatmap import draw_heatmaps, heatmap_grid
from kandle.report.figures._own import draw_group_curves, draw_groups, group_by, group_spectra
from kandle.report.figures._spectra import draw_spectra, spectrum_grid
from kandle.report.figures._style import FORMATS, check_format, new_figure, save, style

__all__ = [
    "FORMATS",
    "check_format",
    "curve_grid",
    "draw_curves",
    "draw_exponents",
    "draw_group_curves",
    "draw_groups",
    "draw_heatmaps",
    "draw_spectra",
    "exponent_grid",
    "group_by",
    "group_spectra",
    "heatmap",
    "heatmap_grid",
    "new_figure",
    "save",
    "searched",
    "spectrum_grid",
    "style",
]


def searched(store: str | Path, study: str | None = None) -> list[tuple[str, str, int]]:
    """(study, problem, G) of every grid search over exponents in a store, in order of problems.

    A study with one exponent pair is no search. If several studies have the same problem and G, the
    widest search is taken: the most pairs times architectures. `study` restricts it to one study.
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
    **whole: Any,
) -> Figure:
    """The heatmaps of any problem and G in a store.

    `whole` is what a complete study would have, as for `heatmap_grid`.
    """
    if study is None:
        found = searched(store)
        if not found:
            raise UserError("The store has no search over exponents, so no heatmap can be drawn.")
        matching = [s for s, p, g in found if p == problem and g == grid]
        if not matching:
            available = sorted({p for _, p, _ in found})
            if problem not in available:
                raise unknown("problem with a search over exponents", problem, available)
            grids = ", ".join(str(g) for _, p, g in found if p == problem)
            raise UserError(
                f"{problem!r} has no search over exponents with G = {grid}. Available: G {grids}."
            )
        study = matching[0]
    with open_store(store) as opened:
        runs = restrict(study_runs(opened, study), where)
    grids = heatmap_grid(runs, problem, grid, metric=metric, **whole)
    return draw_heatmaps(grids, own_scale=own_scale)
