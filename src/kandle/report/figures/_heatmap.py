"""Loss over the exponents of the power law, one heatmap per architecture."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from kandle._errors import UserError
from kandle.analysis import representatives, trained_alike
from kandle.report import _names
from kandle.report.figures._remarks import of, remarks
from kandle.report.figures._style import (
    COLOUR_MAP,
    DIVERGED,
    INK,
    MISSING,
    label_log_ticks,
    new_figure,
    style,
    wrapped,
)

_METRICS = {"loss": "Final training loss", "l2": "Relative L² error"}


@dataclass(frozen=True)
class Heatmap:
    """One architecture: values (β, α), NaN where nothing finished, and where it was tried."""

    width: int
    depth: int
    values: np.ndarray
    tried: np.ndarray


@dataclass(frozen=True)
class HeatmapGrid:
    """The heatmaps of one problem and G, by width and depth, over the exponents that occur."""

    title: str
    label: str
    alphas: tuple[float, ...]
    betas: tuple[float, ...]
    widths: tuple[int, ...]
    depths: tuple[int, ...]
    panels: dict[tuple[int, int], Heatmap]
    remark: str


def heatmap_grid(
    runs: pd.DataFrame,
    problem: str,
    grid: int,
    *,
    metric: str = "loss",
    steps: int | None = None,
    seeds: int | None = None,
    pairs: int | None = None,
    architectures: int | None = None,
) -> HeatmapGrid:
    """The nearest-to-median result of every exponent pair and architecture.

    `steps`, `seeds`, `pairs` and `architectures` are what the paper has, if the runs are of one of
    its studies.
    """
    power = runs[runs["scheme"].eq("power-law")]
    own = power[power["problem"].eq(problem) & power["G"].eq(grid)]
    if own.empty:
        available = "; ".join(
            f"{p} with G {', '.join(str(g) for g in sorted(part['G'].unique()))}"
            for p, part in power.groupby("problem", sort=False)
        )
        raise UserError(
            f"There are no power-law runs of {problem!r} with G = {grid}. "
            f"Available: {available or 'none'}."
        )
    choice = trained_alike(own)
    own = choice.runs
    if len(own.drop_duplicates(["alpha", "beta"])) < 2:
        raise UserError(
            f"A heatmap needs at least two exponent pairs; {problem!r} with G = {grid} has one."
        )
    cells = representatives(own)
    alphas, betas = (tuple(sorted(own[c].unique())) for c in ("alpha", "beta"))
    widths, depths = (tuple(sorted(own[c].unique())) for c in ("width", "depth"))
    panels = {}
    shapes = own[["width", "depth"]].drop_duplicates().to_numpy().tolist()
    for width, depth in shapes:
        tried = own[own["width"].eq(width) & own["depth"].eq(depth)]
        here = cells[cells["width"].eq(width) & cells["depth"].eq(depth)]
        values = np.full((len(betas), len(alphas)), np.nan)
        values[_where(betas, here["beta"]), _where(alphas, here["alpha"])] = here[metric]
        seen = np.zeros(values.shape, dtype=bool)
        seen[_where(betas, tried["beta"]), _where(alphas, tried["alpha"])] = True
        panels[width, depth] = Heatmap(width, depth, values, seen)
    title = f"{_names.problem(problem)}, G = {grid}"
    shown = len(own.drop_duplicates(["alpha", "beta"]))
    shows = [*of(shown, pairs, "exponent pairs"), *of(len(panels), architectures, "architectures")]
    note = remarks(own, steps=steps, seeds=seeds, shows=shows, left_out=choice.left_out)
    return HeatmapGrid(title, _METRICS[metric], alphas, betas, widths, depths, panels, note)


def _where(axis: tuple[float, ...], values: pd.Series) -> np.ndarray:
    return np.searchsorted(np.asarray(axis), values.to_numpy(dtype=float))


def draw_heatmaps(grid: HeatmapGrid, *, own_scale: bool = False) -> Figure:
    """Rows width, columns depth, α across, β up; a ring on the best pair of each architecture.

    With a shared scale colours compare across architectures. Its ends are the 2nd and 85th
    percentile: β = 0 is a ninth of the cells and orders of magnitude worse than the rest, and would
    use up the colours. The colour bar marks clipped ends with a triangle. With `own_scale` each
    panel uses all colours, and its range stands above it.
    """
    with style():
        rows, columns = len(grid.widths), len(grid.depths)
        side = min(2.2, 4.6 / columns, 7.2 / rows)
        width = max(side * columns + 1.1, 3.3)
        figure = new_figure(side * rows * 1.08 + 0.9, width)
        axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        shared, extend = _scale(np.concatenate([p.values.ravel() for p in grid.panels.values()]))
        for i, width in enumerate(grid.widths):
            for j, depth in enumerate(grid.depths):
                ax = axes[i][j]
                panel = grid.panels.get((width, depth))
                if panel is None:
                    panel = Heatmap(width, depth, *_nothing(grid))
                norm = _scale(panel.values, 0, 100)[0] if own_scale else shared
                _draw(ax, panel, norm, grid, every=2 if side > 1.5 else 4)
                if i == 0:
                    ax.set_title(f"depth {depth}", fontsize=7)
                if own_scale and np.isfinite(panel.values).any():
                    low, high = np.nanmin(panel.values), np.nanmax(panel.values)
                    head = f"depth {depth}\n" if i == 0 else ""
                    ax.set_title(f"{head}{low:.0e} – {high:.0e}", fontsize=5.5, pad=2)
                if i == rows - 1:
                    ax.set_xlabel("α")
                if j == 0:
                    ax.set_ylabel(f"width {width}\nβ")
        figure.suptitle(_names.plot(grid.title), fontsize=8.5)
        if not own_scale:
            mappable = ScalarMappable(shared, COLOUR_MAP)
            bar = figure.colorbar(mappable, ax=axes, extend=extend, shrink=0.6, aspect=30, pad=0.02)
            bar.set_label(grid.label)
            label_log_ticks(bar.ax.yaxis, shared.vmin, shared.vmax)
            bar.outline.set_linewidth(0.4)  # type: ignore[attr-defined]
        scale = f"Colours: {grid.label}, each panel on its own scale" if own_scale else ""
        figure.legend(
            handles=_legend(grid),
            loc="outside lower center",
            ncols=3,
            fontsize=6,
            title=wrapped("; ".join(filter(None, [scale, grid.remark])), figure) or None,
            title_fontsize=5.5,
        )
        return figure


def _scale(values: np.ndarray, lowest: float = 2, highest: float = 85) -> tuple[LogNorm, str]:
    """A logarithmic scale between two percentiles, and which of its ends are clipped."""
    shown = values[np.isfinite(values) & (values > 0)]
    if shown.size == 0:
        return LogNorm(0.1, 1.0), "neither"
    low, high = (float(np.percentile(shown, at)) for at in (lowest, highest))
    high = max(high, low * 1.01)
    below, above = shown.min() < low, shown.max() > high
    extend = "both" if below and above else "min" if below else "max" if above else "neither"
    return LogNorm(low, high, clip=True), extend


def _nothing(grid: HeatmapGrid) -> tuple[np.ndarray, np.ndarray]:
    shape = (len(grid.betas), len(grid.alphas))
    return np.full(shape, np.nan), np.zeros(shape, dtype=bool)


def _draw(ax: Axes, panel: Heatmap, norm: LogNorm, grid: HeatmapGrid, every: int) -> None:
    rows, columns = panel.values.shape
    values = np.ma.masked_invalid(np.where(panel.values > 0, panel.values, np.nan))
    ax.set_facecolor(DIVERGED)
    ax.pcolormesh(values, norm=norm, cmap=COLOUR_MAP, rasterized=True)
    for i, j in zip(*np.nonzero(values.mask & np.ones(values.shape, bool)), strict=True):
        if panel.tried[i, j]:
            ax.plot(
                [j + 0.25, j + 0.75, np.nan, j + 0.25, j + 0.75],
                [i + 0.25, i + 0.75, np.nan, i + 0.75, i + 0.25],
                color="#AA3377",
                lw=0.7,
            )
        else:
            ax.add_patch(Rectangle((j, i), 1, 1, fc=MISSING, ec="#BBBBBB", hatch="////", lw=0))
    if values.count():
        lowest = np.nanargmin(np.where(values.mask, np.nan, values.data))
        i, j = np.unravel_index(lowest, values.shape)
        ax.plot(j + 0.5, i + 0.5, "o", ms=3.4, mfc="none", mec="white", mew=1.6)
        ax.plot(j + 0.5, i + 0.5, "o", ms=3.4, mfc="none", mec=INK, mew=0.7)
    ax.set_xlim(0, columns)
    ax.set_ylim(0, rows)
    ax.set_aspect("auto" if rows != columns else "equal")
    for axis, exponents in ((ax.xaxis, grid.alphas), (ax.yaxis, grid.betas)):
        step = 1 if len(exponents) <= 5 else every
        labels = [f"{value:g}" for value in exponents[::step]]
        axis.set_ticks(np.arange(len(exponents))[::step] + 0.5, labels)


def _legend(grid: HeatmapGrid) -> list:
    handles: list = [
        Line2D([], [], marker="o", mfc="none", ms=3.4, ls="none", color=INK, label="lowest")
    ]
    tried = [p.tried & ~np.isfinite(p.values) for p in grid.panels.values()]
    if any(t.any() for t in tried):
        handles.append(
            Line2D([], [], marker="x", ms=4, label="diverged", ls="none", color="#AA3377")
        )
    whole = len(grid.panels) == len(grid.widths) * len(grid.depths)
    if not whole or any(not p.tried.all() for p in grid.panels.values()):
        handles.append(Patch(fc=MISSING, ec="#BBBBBB", hatch="////", label="not run"))
    return handles
