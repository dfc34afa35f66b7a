"""Eigenvalue spectra of the tangent kernel during training, by scheme."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from kandle._errors import UserError
from kandle.analysis import fixed_exponents, trained_alike
from kandle.report import _names
from kandle.report._load import Data
from kandle.report.figures._remarks import remarks
from kandle.report.figures._style import (
    FINAL,
    INITIAL,
    INTERMEDIATE,
    decades,
    new_figure,
    remark,
    say,
    style,
)
from kandle.store import Spectrum

_NUMERICAL_ZERO = 1e-11
"""Eigenvalues below this multiple of the mean eigenvalue are those of the stabilization
(1e-12 tr K/n on the diagonal) and rounding, not of the kernel."""

BLOCKS = {"ntk": "", "pde": "PDE residual", "bc": "Conditions"}


@dataclass(frozen=True)
class SpectrumPanel:
    """Eigenvalues of one kernel block, largest first, at rising checkpoints: (step, values)."""

    title: str
    spectra: tuple[tuple[int, np.ndarray], ...]
    note: str = "no runs"


@dataclass(frozen=True)
class SpectrumGrid:
    """Rows of panels with a label each."""

    rows: tuple[tuple[str, tuple[SpectrumPanel, ...]], ...]
    remark: str


def panel(title: str, spectra: list[Spectrum], block: str, status: str) -> SpectrumPanel:
    """The checkpoints of one block; where there is none, the panel says why."""
    taken = sorted((s.step, s.eigenvalues) for s in spectra if s.block == block)
    note = "no runs" if not status else ("no spectra" if status == "ok" else status)
    return SpectrumPanel(title, tuple(taken), note)


def spectrum_grid(
    data: Data,
    problem: str,
    *,
    shape: tuple[int, int, int],
    schemes: Sequence[str],
    pair: tuple[float, float],
    pde: bool,
    steps: int | None = None,
) -> SpectrumGrid:
    """Spectra of one architecture (G, width, depth) by scheme; residual above conditions."""
    runs = data.runs[data.runs["problem"].eq(problem)]
    for name, value in zip(("G", "width", "depth"), shape, strict=True):
        runs = runs[runs[name].eq(value)]
    choice = trained_alike(fixed_exponents(runs, pair))
    runs = choice.runs
    rows = []
    for block in ("pde", "bc") if pde else ("ntk",):
        panels = []
        for scheme in schemes:
            own = runs[runs["scheme"].eq(scheme)].sort_values("seed")
            found = data.spectra.get(own["identity"].iloc[0], []) if len(own) else []
            status = str(own["status"].iloc[0]) if len(own) else ""
            panels.append(panel(_names.scheme_at(scheme, pair), list(found), block, status))
        rows.append((BLOCKS[block], tuple(panels)))
    note = remarks(runs, steps=steps, unfinished=False, left_out=choice.left_out)
    return SpectrumGrid(tuple(rows), note)


def draw_spectra(grid: SpectrumGrid, *, shared_scale: bool = False) -> Figure:
    """Eigenvalue over index, both logarithmic.

    Each panel has its own scale, as in the paper, unless `shared_scale` gives the panels of a row
    one scale, so that schemes compare.
    """
    if not any(panel.spectra for _, panels in grid.rows for panel in panels):
        raise UserError(
            "These runs have no kernel spectra of the problem, architecture and schemes that this "
            "figure shows, so there is nothing to draw."
        )
    with style():
        count = len(grid.rows)
        figure = new_figure(0.75 + 1.35 * count)
        axes = figure.subplots(
            count,
            len(grid.rows[0][1]),
            sharex="row",
            sharey="row" if shared_scale else False,
            squeeze=False,
        )
        for i, (label, panels) in enumerate(grid.rows):
            for j, spectrum in enumerate(panels):
                ax = axes[i][j]
                if i == 0:
                    ax.set_title(spectrum.title, fontsize=6.5)
                ax.set_xscale("log")
                ax.set_yscale("log")
                decades(ax.yaxis, 7 if shared_scale else 5)
                draw_panel(ax, spectrum)
                leave_out_zeros(ax, panels if shared_scale else (spectrum,))
                ax.grid(True, which="major")
            axes[i][0].set_ylabel(f"{label}\neigenvalue" if label else "Eigenvalue")
        for ax in axes[-1]:
            ax.set_xlabel("Index")
        figure.legend(handles=legend(), loc="outside upper center", ncols=3, handlelength=2.8)
        remark(figure, grid.remark)
        return figure


def leave_out_zeros(ax: Axes, panels: Sequence[SpectrumPanel]) -> None:
    """End the scale above numerically zero eigenvalues: one of them can double its decades.

    Curves leave the panel at its lower edge where the kernel's rank ends.
    """
    spectra = [values for panel in panels for _, values in panel.spectra]
    lows = [v[v > _NUMERICAL_ZERO * v.mean()].min() for v in spectra if (v > 0).any()]
    if lows and min(lows) > min(v[v > 0].min() for v in spectra if (v > 0).any()):
        ax.set_ylim(bottom=min(lows) / 2)


def draw_panel(ax: Axes, spectrum: SpectrumPanel, width: float = 1.0) -> None:
    """Initial solid blue, intermediate dashed teal, final dashed green; scales are the caller's."""
    if not spectrum.spectra:
        say(ax, spectrum.note)
        return
    last = len(spectrum.spectra) - 1
    if spectrum.note == "diverged":
        where = {"ha": "right", "va": "top", "transform": ax.transAxes, "fontsize": 5.5}
        ax.text(0.96, 0.95, "diverged", color="#AA3377", **where)
    for i, (_, values) in enumerate(spectrum.spectra):
        shown = np.where(values > 0, values, np.nan)
        index = np.arange(1, len(values) + 1)
        if i == 0:
            ax.plot(index, shown, color=INITIAL, lw=1.2 * width, zorder=3)
        elif i == last:
            ax.plot(index, shown, color=FINAL, ls=(0, (3.5, 1.2)), lw=1.2 * width, zorder=4)
        else:
            ax.plot(index, shown, color=INTERMEDIATE, ls=(0, (2, 1)), lw=0.8 * width, zorder=2)


def legend(middle: str = "Intermediate") -> list[Line2D]:
    return [
        Line2D([], [], color=INITIAL, lw=1.2, label="Initialization"),
        Line2D([], [], color=INTERMEDIATE, ls=(0, (2, 1)), lw=0.9, label=middle),
        Line2D([], [], color=FINAL, ls=(0, (3.5, 1.2)), lw=1.2, label="Final"),
    ]
