"""Figures of any study: loss curves and final results, grouped by any axis of its runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from kandle._errors import UserError
from kandle.analysis import MeanCurve, finished, mean_curve, pooled_axes
from kandle.report import _names
from kandle.report._load import Data
from kandle.report.figures._spectra import BLOCKS, SpectrumGrid, panel
from kandle.report.figures._style import (
    decades,
    label_log_ticks,
    line_style,
    new_figure,
    remark,
    style,
)

METRICS = {"loss": "Final training loss", "l2": "Relative L² error"}
_MOST = 12
_MOST_SPECTRA = 6


@dataclass(frozen=True)
class Groups:
    """Results of each problem by value of an axis, and the mean curves if they were asked for."""

    axis: str
    values: tuple[str, ...]
    results: Mapping[str, Mapping[str, np.ndarray]]
    curves: Mapping[str, Mapping[str, MeanCurve]]
    remark: str


def group_by(data: Data, axis: str, *, metric: str = "loss", curves: bool = False) -> Groups:
    """Finished runs of a study by problem and by the value of any exported column."""
    done, values = _separated(finished(data.runs), axis, _MOST)
    results, means = {}, {}
    for problem in _names.ordered(done["problem"].tolist()):
        parts = dict(tuple(done[done["problem"].eq(problem)].groupby("value", sort=False)))
        results[problem] = {v: parts[v][metric].to_numpy(float) for v in values if v in parts}
        if curves:
            found = {v: _mean(parts[v], data) for v in values if v in parts}
            means[problem] = {v: curve for v, curve in found.items() if curve is not None}
    if curves and not any(means.values()):
        raise UserError("These runs have no loss curves, so there is nothing to draw.")
    lost = len(data.runs) - len(done)
    note = f"{len(done):,} runs" + (f"; {lost:,} did not finish and are left out" if lost else "")
    if pooled := pooled_axes(done, axis):
        note += f"; pooled over {', '.join(pooled)} (use --where to narrow it)"
    return Groups(axis, values, results, means, note)


def group_spectra(data: Data, axis: str) -> SpectrumGrid:
    """Kernel spectra of a study: rows are problems and blocks of the kernel, columns the values of
    any exported column; each panel shows the first run with spectra."""
    measured = data.runs[data.runs["identity"].isin([i for i, s in data.spectra.items() if s])]
    if measured.empty:
        raise UserError("These runs have no kernel spectra, so there is nothing to draw.")
    runs, values = _separated(measured, axis, _MOST_SPECTRA)
    rows = []
    for problem in _names.ordered(runs["problem"].tolist()):
        own = runs[runs["problem"].eq(problem)].sort_values("seed", kind="stable")
        first = {v: data.spectra[part["identity"].iloc[0]] for v, part in own.groupby("value")}
        present = {s.block for spectra in first.values() for s in spectra}
        for block in (b for b in BLOCKS if b in present):
            panels = (panel(_names.plot(v), first.get(v, []), block, "") for v in values)
            label = " ".join(filter(None, [_names.problem(problem), BLOCKS[block]]))
            rows.append((_names.plot(label), tuple(panels)))
    shown = f"By {axis}; the first of several runs is shown" if len(runs) > len(values) else ""
    return SpectrumGrid(tuple(rows), shown)


def _separated(runs: pd.DataFrame, axis: str, most: int) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """`runs` with the label of their value of `axis` in the column `value`, and all labels."""
    if axis not in runs.columns:
        known = ", ".join(map(str, runs.columns))
        raise UserError(f"'--by' takes a column. Got {axis!r}. Columns: {known}.")
    if runs.empty:
        raise UserError("These runs have no finished result, so there is nothing to draw.")
    runs = runs.assign(value=_names.labels(runs, axis))
    values = tuple(_names.ordered_labels(runs, axis))
    if len(values) > most:
        raise UserError(
            f"{axis!r} has {len(values)} values; this figure shows at most {most}. Narrow them "
            "with '--where', or group by another column."
        )
    return runs, values


def _mean(runs: pd.DataFrame, data: Data) -> MeanCurve | None:
    return mean_curve([data.curves[i] for i in runs["identity"] if i in data.curves])


def draw_groups(groups: Groups, *, metric: str = "loss") -> Figure:
    """Every run as a point and the median as a bar, one panel per problem."""
    with style():
        figure, axes = _panels(list(groups.results))
        for ax, (problem, results) in zip(axes, groups.results.items(), strict=True):
            for i, value in enumerate(groups.values):
                if value in results:
                    y = results[value]
                    colour, _ = _line(groups, value)
                    spread = np.linspace(-0.15, 0.15, len(y)) if len(y) > 1 else np.zeros(1)
                    ax.plot(i + spread, y, "o", ms=2.5, alpha=0.5, mec="none", color=colour)
                    ax.plot([i - 0.3, i + 0.3], [np.median(y)] * 2, color=colour, lw=1.4)
            ax.set_yscale("log")
            ax.set_title(_names.plot(_names.problem(problem)))
            labels = [_names.plot(v) for v in groups.values]
            turned = {"rotation": 30, "ha": "right"} if max(map(len, labels)) > 5 else {}
            ax.set_xticks(range(len(labels)), labels, **turned)
            _label_values(ax, np.concatenate([*results.values()]))
            ax.set_xlim(-0.6, len(labels) - 0.4)
            ax.grid(True, axis="y")
        axes[0].set_ylabel(METRICS[metric])
        remark(figure, f"By {groups.axis}; bars are medians; {groups.remark}")
        return figure


def draw_group_curves(groups: Groups) -> Figure:
    """Mean loss over steps with its standard error, one panel per problem, one line per value."""
    with style():
        figure, axes = _panels(list(groups.curves))
        for ax, (problem, curves) in zip(axes, groups.curves.items(), strict=True):
            for value, curve in curves.items():
                colour, dashes = _line(groups, value)
                ax.plot(curve.steps, curve.mean, color=colour, ls=dashes, lw=0.9)
                low, high = curve.mean - curve.error, curve.mean + curve.error
                ax.fill_between(curve.steps, low, high, color=colour, alpha=0.2, lw=0)
            ax.set_yscale("log")
            decades(ax.yaxis, 6)
            ax.set_title(_names.plot(_names.problem(problem)))
            ax.set_xlabel("Step")
            ax.grid(True)
        axes[0].set_ylabel("Training loss")
        lines = ((v, *_line(groups, v)) for v in groups.values)
        handles = [Line2D([], [], color=c, ls=dashes, label=v) for v, c, dashes in lines]
        # A column takes its longest label at 18 letters per inch, and its line.
        column = max(map(len, groups.values)) / 18 + 0.5
        fitting = max(1, int(figure.get_figwidth() / column))
        ncols = min(4, fitting, len(handles))
        figure.legend(handles=handles, loc="outside upper center", ncols=ncols)
        remark(figure, f"By {groups.axis}; {groups.remark}")
        return figure


def _label_values(ax: Axes, values: np.ndarray) -> None:
    """Tick labels for results on a logarithmic axis, whether they span decades or a factor."""
    shown = values[values > 0]
    if shown.size and shown.max() < 100 * shown.min():
        label_log_ticks(ax.yaxis, float(shown.min()), float(shown.max()))
    else:
        decades(ax.yaxis, 5)


def _panels(problems: Sequence[str]) -> tuple[Figure, list]:
    columns = len(problems) if len(problems) <= 5 else 4
    rows = -(-len(problems) // columns)
    figure = new_figure(0.8 + 1.5 * rows, max(3.3, 1.4 * columns))
    axes = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for ax in axes[len(problems) :]:
        ax.set_axis_off()
    return figure, axes[: len(problems)]


def _line(groups: Groups, value: str) -> tuple[str, Any]:
    """Colour and dashes of a value."""
    names = {_names.scheme(name): name for name in _names.SCHEMES}
    return line_style(names.get(value, value), groups.values.index(value))
