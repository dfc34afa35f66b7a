"""Kernel spectra for every exponent pair of the power law: first, middle and last checkpoint."""

from dataclasses import dataclass

from matplotlib.figure import Figure

from kandle._errors import UserError
from kandle.analysis import trained_alike
from kandle.report._load import Data
from kandle.report.figures._remarks import of, remarks
from kandle.report.figures._spectra import (
    SpectrumPanel,
    draw_panel,
    leave_out_zeros,
    legend,
    panel,
)
from kandle.report.figures._style import WIDTH, decades, new_figure, style


@dataclass(frozen=True)
class ExponentGrid:
    """Panels by (α, β): `panels[beta][alpha]`, with the values that occur, rising."""

    alphas: tuple[float, ...]
    betas: tuple[float, ...]
    panels: dict[tuple[float, float], SpectrumPanel]
    remark: str


def exponent_grid(
    data: Data,
    problem: str,
    block: str,
    *,
    shape: tuple[int, int, int],
    steps: int | None = None,
    pairs: int | None = None,
) -> ExponentGrid:
    """First, middle and last checkpoint of one kernel block for all pairs on one architecture.

    `steps` and `pairs` are what the paper has, if the figure is one of the paper.
    """
    runs = data.runs[data.runs["problem"].eq(problem) & data.runs["scheme"].eq("power-law")]
    for name, value in zip(("G", "width", "depth"), shape, strict=True):
        runs = runs[runs[name].eq(value)]
    choice = trained_alike(runs)
    runs = choice.runs
    alphas, betas = (tuple(sorted(runs[c].unique())) for c in ("alpha", "beta"))
    panels = {}
    for alpha in alphas:
        for beta in betas:
            own = runs[runs["alpha"].eq(alpha) & runs["beta"].eq(beta)].sort_values("seed")
            found = data.spectra.get(own["identity"].iloc[0], []) if len(own) else []
            status = str(own["status"].iloc[0]) if len(own) else ""
            whole = panel("", list(found), block, status)
            panels[alpha, beta] = _three(whole)
    shown = len(runs.drop_duplicates(["alpha", "beta"]))
    note = remarks(
        runs,
        steps=steps,
        unfinished=False,
        shows=of(shown, pairs, "exponent pairs"),
        left_out=choice.left_out,
    )
    return ExponentGrid(alphas, betas, panels, note)


def _three(whole: SpectrumPanel) -> SpectrumPanel:
    """Start, middle and end of the checkpoints there are."""
    n = len(whole.spectra)
    kept = sorted({0, n // 2, n - 1}) if n else []
    return SpectrumPanel("", tuple(whole.spectra[i] for i in kept), whole.note)


def draw_exponents(grid: ExponentGrid) -> Figure:
    """α across, β up; every panel on the same scales."""
    if not any(panel.spectra for panel in grid.panels.values()):
        raise UserError("These runs have no kernel spectra over exponents: nothing to draw.")
    with style():
        rows, columns = max(len(grid.betas), 1), max(len(grid.alphas), 1)
        width = WIDTH + 1.0
        height = rows * min(0.85 * (width - 0.73) / columns, 1.8, 6.5 / rows) + 1.0
        figure = new_figure(height, width)
        # Automatic layout measures every label of 81 panels; their places are known.
        figure.set_layout_engine("none")
        axes = figure.subplots(
            rows,
            columns,
            sharex=True,
            sharey="row",  # spectra of different β may be dozens of decades apart
            squeeze=False,
            gridspec_kw={
                "left": 0.68 / width,
                "right": 1 - 0.05 / width,
                "bottom": 0.62 / height,
                "top": 1 - 0.3 / height,
                "wspace": 0.08,
                "hspace": 0.1,
            },
        )
        axes[0][0].set_xscale("log")
        decades(axes[0][0].xaxis, 3)
        for row, beta in zip(axes, reversed(grid.betas), strict=True):
            row[0].set_yscale("log")
            decades(row[0].yaxis, 4)
            panels = tuple(grid.panels[alpha, beta] for alpha in grid.alphas)
            for ax, panel in zip(row, panels, strict=True):
                draw_panel(ax, panel, 0.8)
            leave_out_zeros(row[0], panels)
        for ax, alpha in zip(axes[-1], grid.alphas, strict=False):
            ax.set_xlabel(f"α = {alpha:g}")
        for row, beta in zip(axes, reversed(grid.betas), strict=False):
            row[0].set_ylabel(f"β = {beta:g}")
        figure.legend(
            handles=legend("Middle"), loc="upper center", ncols=3, bbox_to_anchor=(0.53, 1.005)
        )
        figure.text(0.09 / width, 0.5, "Eigenvalue", rotation=90, va="center", fontsize=7)
        figure.text(0.53, 0.19 / height, "Index", ha="center", fontsize=7)
        if grid.remark:
            figure.text(0.01, 0.04 / height, grid.remark, fontsize=5.5, color="#777777")
        return figure
