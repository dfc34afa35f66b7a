"""Loss curves: mean and standard error over seeds, one row of panels per architecture."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from kandle._errors import UserError
from kandle.analysis import MeanCurve, finished, fixed_exponents, mean_curve, trained_alike
from kandle.report import _names
from kandle.report._load import Data
from kandle.report.figures._remarks import remarks
from kandle.report.figures._style import decades, line_style, new_figure, remark, say, style

Shape = tuple[int, int, int]


@dataclass(frozen=True)
class CurvePanel:
    """The mean curves of one problem and size, by scheme; `title` is the problem."""

    title: str
    size: str
    curves: dict[str, MeanCurve]


@dataclass(frozen=True)
class CurveGrid:
    """Rows of panels, small above large, and a remark on the data."""

    rows: tuple[tuple[CurvePanel, ...], ...]
    remark: str
    labels: Mapping[str, str] = field(default_factory=dict)


def curve_grid(
    data: Data,
    problems: Sequence[str],
    *,
    sizes: Mapping[str, Shape],
    schemes: Sequence[str],
    pair: tuple[float, float],
    scheduled: bool,
    steps: int | None = None,
    seeds: int | None = None,
) -> CurveGrid:
    """Mean loss at every step over the finished runs of each scheme, problem and architecture.

    `sizes` are architectures (G, width, depth) by name, `pair` the exponents that represent the
    power law. `steps` and `seeds` are those of the paper, if the figure is one of the paper.
    """
    runs = data.runs
    runs = runs[runs["schedule"].ne("constant") == scheduled]
    choice = trained_alike(fixed_exponents(runs, pair))
    runs, left_out = _of_one_length(choice.runs)
    left_out = (*left_out, *choice.left_out)
    rows, used = [], []
    for size, (G, width, depth) in sizes.items():
        sized = runs[runs["G"].eq(G) & runs["width"].eq(width) & runs["depth"].eq(depth)]
        used.append(sized)
        row = []
        for problem in problems:
            done = finished(sized[sized["problem"].eq(problem)])
            curves = {}
            for scheme in schemes:
                wanted = done.loc[done["scheme"].eq(scheme), "identity"]
                found = mean_curve([data.curves[i] for i in wanted if i in data.curves])
                if found is not None:
                    curves[scheme] = found
            row.append(CurvePanel(_names.problem(problem), size, curves))
        rows.append(tuple(row))
    shown = runs[runs.index.isin([i for part in used for i in part.index])]
    note = remarks(shown, steps=steps, seeds=seeds, left_out=left_out)
    return CurveGrid(tuple(rows), note, {s: _names.scheme_at(s, pair) for s in schemes})


def _of_one_length(runs: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The longest trained, and what was left out: on the common step axis of the panels, five
    steps beside two thousand cannot be seen, and must not be compared."""
    longest = runs["steps"].eq(runs["steps"].max())
    left = runs[~longest].groupby(["problem", "steps"], sort=False).size()
    return runs[longest], tuple(f"{p}: {n} runs with steps={s}" for (p, s), n in left.items())  # type: ignore[misc]


def _with_runs(grid: CurveGrid) -> CurveGrid:
    """The grid without rows and columns that hold no curve at all, which the remark names."""
    sizes = [i for i, row in enumerate(grid.rows) if any(p.curves for p in row)]
    problems = [j for j in range(len(grid.rows[0])) if any(row[j].curves for row in grid.rows)]
    if not sizes:
        raise UserError(
            "These runs have no loss curves of the problems, architectures and schemes that this "
            "figure shows, so there is nothing to draw."
        )
    absent = [row[0].size for i, row in enumerate(grid.rows) if i not in sizes]
    absent += [p.title for j, p in enumerate(grid.rows[0]) if j not in problems]
    missing = [f"no runs of {', '.join(absent)}"] if absent else []
    rows = tuple(tuple(grid.rows[i][j] for j in problems) for i in sizes)
    return CurveGrid(rows, "; ".join(filter(None, [grid.remark, *missing])), grid.labels)


def draw_curves(grid: CurveGrid, *, shared_scale: bool = False) -> Figure:
    """Log loss over steps.

    Each panel has its own scale, since losses of the small and the large architecture may be many
    decades apart, unless `shared_scale` gives the panels of a problem one scale, so that sizes
    compare.
    """
    grid = _with_runs(grid)
    with style():
        columns = len(grid.rows[0])
        count = len(grid.rows)
        sharey = "col" if shared_scale else False
        figure = new_figure((0.45 if columns > 3 else 0.65) + 1.225 * count)
        axes = figure.subplots(count, columns, sharex=True, sharey=sharey, squeeze=False)
        order = list(dict.fromkeys(s for row in grid.rows for panel in row for s in panel.curves))
        shown: dict[str, Line2D] = {}
        for i, row in enumerate(grid.rows):
            for j, panel in enumerate(row):
                ax = axes[i][j]
                ax.set_yscale("log")
                decades(ax.yaxis, 6)
                ax.grid(True, which="major")
                if i == 0:
                    ax.set_title(_names.plot(panel.title))
                if not panel.curves:
                    say(ax, "no runs")
                for scheme, curve in panel.curves.items():
                    colour, dashes = line_style(scheme, order.index(scheme))
                    x = curve.steps
                    (line,) = ax.plot(x, curve.mean, color=colour, ls=dashes, lw=0.9)
                    low, high = curve.mean - curve.error, curve.mean + curve.error
                    ax.fill_between(x, low, high, color=colour, alpha=0.22, lw=0)
                    shown[scheme] = line
            axes[i][0].set_ylabel(f"{row[0].size.capitalize()}: training loss")
        figure.align_ylabels(axes[:, 0])
        drawn = [c for row in grid.rows for panel in row for c in panel.curves.values()]
        last = max((int(c.steps[-1]) for c in drawn), default=1)
        for ax in axes[-1]:
            ax.set_xlim(0, last)
            ax.set_xlabel("Step")
            ax.set_xticks([0, last // 2, last])
            ax.set_xticklabels(["0", f"{last // 2}", f"{last}"])
            left, *_, right = ax.get_xticklabels()
            left.set_ha("left")
            right.set_ha("right")
        figure.legend(
            [shown[s] for s in order],
            [grid.labels.get(s, _names.scheme(s)) for s in order],
            loc="outside upper center",
            ncols=len(order) or 1,
            handlelength=2.6,
            columnspacing=1.6,
        )
        remark(figure, grid.remark)
        return figure
