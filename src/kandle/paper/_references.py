"""Figures C1, C2: the target functions and the reference solutions of the PDEs."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.special
from matplotlib.figure import Figure

from kandle.paper._design import FUNCTIONS, PDES
from kandle.problems import PROBLEMS
from kandle.report import _names
from kandle.report.figures._style import new_figure, style

_JUMPS = {"f5": 0.5}
"""x at which a function jumps."""
_ERFINV_REACH = 1.8
"""f₄ depends on erf⁻¹(y), and is drawn for values of it up to this: |y| < 0.989."""


@dataclass(frozen=True)
class Surface:
    """z (n, m) over the axes x (n,) and y (m,), whose names are `labels`."""

    title: str
    labels: tuple[str, str]
    x: np.ndarray
    y: np.ndarray
    z: np.ndarray


def function_surfaces(points: int = 240) -> tuple[Surface, ...]:
    """The five target functions on their square."""
    surfaces = []
    for name in FUNCTIONS:
        function: Any = PROBLEMS[name]
        x, y = (_centres(low, high, points) for low, high in function.domain)
        if name == "f4":
            # Even steps of erf⁻¹(y): with even steps of y, the walls at y = ±1 would be made of a
            # few steep faces, whose edges show as bands that the function does not have.
            y = scipy.special.erf(_centres(-_ERFINV_REACH, _ERFINV_REACH, 2 * points))
        grid = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
        z = np.array(function(grid)).reshape(len(x), len(y))
        if name in _JUMPS:
            # A gap instead of a wall that the function does not have.
            z[np.abs(x - _JUMPS[name]) < 1 / points] = np.nan
        surfaces.append(Surface(_names.problem(name), ("x", "y"), x, y, z))
    return tuple(surfaces)


def _centres(low: float, high: float, n: int) -> np.ndarray:
    return low + (high - low) * (np.arange(n) + 0.5) / n


def pde_solutions() -> tuple[Surface, ...]:
    """The reference solutions of the three PDEs on their evaluation grids."""
    surfaces = []
    for name in PDES:
        points, values = PROBLEMS[name].evaluation()
        x, y = (np.unique(points[:, i]) for i in range(2))
        labels = ("x", "y") if name == "helmholtz" else ("t", "x")
        z = np.asarray(values)[:, 0].reshape(len(x), len(y))
        surfaces.append(Surface(_names.problem(name), labels, x, y, z))
    return tuple(surfaces)


def draw_surfaces(surfaces: tuple[Surface, ...]) -> Figure:
    """Surfaces in perspective, three above two."""
    with style():
        figure = new_figure(3.7)
        figure.set_layout_engine("constrained", w_pad=0.0, h_pad=0.0)
        grid = figure.add_gridspec(2, 6)
        places = [grid[0, 0:2], grid[0, 2:4], grid[0, 4:6], grid[1, 1:3], grid[1, 3:5]]
        for surface, place in zip(surfaces, places, strict=True):
            ax: Any = figure.add_subplot(place, projection="3d")
            x, y = np.meshgrid(surface.x, surface.y, indexing="ij")
            # Faces without antialiasing leave no seams between them.
            shape = {"rstride": 1, "cstride": 1, "lw": 0, "antialiased": False}
            low, high = np.nanmin(surface.z), np.nanmax(surface.z)
            limits = {"vmin": low, "vmax": high, "rasterized": True}
            ax.plot_surface(x, y, surface.z, cmap="viridis", shade=False, **shape, **limits)
            ax.set_title(surface.title, y=0.97)
            ax.set_xlabel(surface.labels[0], labelpad=-10)
            ax.set_ylabel(surface.labels[1], labelpad=-10)
            ax.set_xticks([-1, 0, 1])
            ax.set_yticks([-1, 0, 1])
            ax.tick_params(pad=-4, labelsize=5.5)
            ax.tick_params(axis="z", pad=-1)
            ax.view_init(elev=28, azim=-125)
            ax.set_box_aspect((1, 1, 0.75), zoom=0.92)
            for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
                axis.pane.set_facecolor("#FAFAFA")
                axis.pane.set_edgecolor("#DDDDDD")
        return figure


def draw_solutions(surfaces: tuple[Surface, ...]) -> Figure:
    """Solutions from above, one colour bar each: their ranges differ little but not nothing."""
    with style():
        figure = new_figure(1.75)
        for ax, surface in zip(figure.subplots(1, len(surfaces)), surfaces, strict=True):
            reach = max(1.0, float(np.abs(surface.z).max()))
            image = ax.pcolormesh(
                surface.x, surface.y, surface.z.T, cmap="RdBu_r", vmin=-reach, vmax=reach,
                shading="auto", rasterized=True,
            )  # fmt: skip
            ax.set_title(f"{surface.title}, u({', '.join(surface.labels)})")
            ax.set_xlabel(surface.labels[0])
            ax.set_ylabel(surface.labels[1])
            bar = figure.colorbar(image, ax=ax, aspect=18, pad=0.03)
            bar.outline.set_linewidth(0.4)  # type: ignore[attr-defined]
            bar.ax.tick_params(labelsize=5.5)
            bar.set_ticks([-1, -0.5, 0, 0.5, 1])
        return figure
