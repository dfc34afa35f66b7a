"""Draw a network with the functions on its edges."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import ArrayLike, Float

from kandle._errors import must, needs_extra
from kandle.drawing._picture import Edge, Picture, picture
from kandle.nn import KAN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SUFFIXES = (".png", ".pdf", ".svg")
_FAINTEST = 0.12  # an edge that is drawn at all can be seen

# Inches: a function's square box, between boxes, between boxes and units, around the picture.
_BOX, _GAP, _LINES, _MARGIN = 0.52, 0.12, 0.62, 0.4
_NARROWEST, _WIDEST = 5.0, 10.6


def plot(
    model: KAN,
    path: str | Path | None = None,
    x: Float[ArrayLike, "N n_in"] | None = None,
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    edges_per_layer: int = 64,
    title: str = "",
) -> "Figure":
    """Draw the network: units as dots, inputs below, and each edge with its function in a box.

    An edge is as opaque as it is important: the standard deviation of its output over the data,
    divided by the largest of its layer. Every function is scaled to its box, over the range that
    its input takes. Units without a drawn edge are gray.

    Args:
        model: the network.
        path: the file to write, which must end in .png, .pdf or .svg; None writes none.
        x: data over which importance and ranges are measured; None samples the first layer's
            domain evenly.
        input_names, output_names: labels, one per input and per output.
        edges_per_layer: how many edges of a layer are drawn, the most important ones; a note says
            how many are hidden.
        title: a line above the picture.

    Returns:
        The matplotlib figure.
    """
    new_figure = _figure_class()
    if path is not None and Path(path).suffix not in _SUFFIXES:
        raise must("'path' of plot", f"a file named *{', *'.join(_SUFFIXES)}", str(path))
    laid_out = picture(
        model,
        x,
        input_names=input_names,
        output_names=output_names,
        edges_per_layer=edges_per_layer,
    )
    figure = _draw(laid_out, title, new_figure)
    if path is not None:
        figure.savefig(path, dpi=160)
    return figure


def _figure_class() -> "type[Figure]":
    with needs_extra("kandle.plot", "plot"):
        from matplotlib.figure import Figure

    class NetworkFigure(Figure):
        """A figure that notebooks show even if pyplot was never imported."""

        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png", dpi=110)
            return buffer.getvalue()

    return NetworkFigure


class _Canvas:
    """A picture in inches: where units and boxes are."""

    def __init__(self, laid_out: Picture):
        counts = np.bincount([edge.layer for edge in laid_out.edges], minlength=len(laid_out.rows))
        columns = max(np.ceil(counts / laid_out.rows).max(), max(map(len, laid_out.units)) / 4)
        inner = float(np.clip(columns * (_BOX + _GAP), _NARROWEST, _WIDEST))
        self.width = inner + 2 * _MARGIN
        self._inner = inner
        # Names of many inputs are turned, and need room below.
        self._bottom = _MARGIN + (0.5 if _crowded(laid_out.input_names) else 0.0)
        heights = [2 * _LINES + rows * (_BOX + _GAP) - _GAP for rows in laid_out.rows]
        self._lines = self._bottom + np.concatenate([[0.0], np.cumsum(heights)])
        top = _MARGIN + (0.5 if _crowded(laid_out.output_names) else 0.0)
        self.height = float(self._lines[-1]) + top

    def x(self, position: Any) -> Any:
        return _MARGIN + self._inner * position

    def line(self, layer: int) -> float:
        """The height of a layer's input units; of the outputs for the number of layers."""
        return float(self._lines[layer])

    def box(self, edge: Edge) -> tuple[float, float]:
        """The lower left corner of an edge's box."""
        bottom = self.line(edge.layer) + _LINES + edge.row * (_BOX + _GAP)
        return self.x(edge.position) - _BOX / 2, bottom


def _draw(laid_out: Picture, title: str, new_figure: "type[Figure]") -> "Figure":
    from matplotlib.collections import LineCollection

    canvas = _Canvas(laid_out)
    above = 0.35 if title else 0.0
    figure = new_figure(figsize=(canvas.width, canvas.height + above))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    axes.set_xlim(0, canvas.width)
    axes.set_ylim(0, canvas.height + above)

    lines, shades = [], []
    for edge in laid_out.edges:
        shade = _FAINTEST + (1.0 - _FAINTEST) * edge.opacity
        lines.extend(_lines(canvas, laid_out, edge))
        shades.extend([shade, shade])
        _function(axes, canvas, edge, shade)
    axes.add_collection(
        LineCollection(
            lines, colors=[(0.25, 0.25, 0.25, s) for s in shades], linewidths=0.8, zorder=1
        )
    )
    _units(axes, canvas, laid_out)
    last = len(laid_out.rows)
    _labels(axes, laid_out.input_names, canvas.x(laid_out.units[0]), canvas.line(0) - 0.1, "top")
    _labels(
        axes, laid_out.output_names, canvas.x(laid_out.units[-1]), canvas.line(last) + 0.1, "bottom"
    )
    _notes(axes, canvas, laid_out)
    if title:
        axes.text(canvas.width / 2, canvas.height + 0.1, title, ha="center", fontsize=11)
    return figure


def _lines(
    canvas: _Canvas, laid_out: Picture, edge: Edge
) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """From the input's unit to the box, and from the box to the output's unit."""
    left, bottom = canvas.box(edge)
    middle = left + _BOX / 2
    below = canvas.x(laid_out.units[edge.layer][edge.input])
    above = canvas.x(laid_out.units[edge.layer + 1][edge.output])
    return [
        ((below, canvas.line(edge.layer)), (middle, bottom)),
        ((middle, bottom + _BOX), (above, canvas.line(edge.layer + 1))),
    ]


def _function(axes: Any, canvas: _Canvas, edge: Edge, shade: float) -> None:
    from matplotlib.patches import Rectangle

    left, bottom = canvas.box(edge)
    # Opaque white: lines to other rows pass behind.
    frame = (*[1.0 - 0.45 * shade] * 3, 1.0)
    axes.add_patch(
        Rectangle((left, bottom), _BOX, _BOX, facecolor="white", edgecolor=frame, zorder=2)
    )
    x = left + _BOX * (0.08 + 0.84 * edge.x)
    y = bottom + _BOX * (0.08 + 0.84 * edge.y)
    axes.plot(x, y, color="black", alpha=shade, linewidth=1.1, zorder=3)


def _units(axes: Any, canvas: _Canvas, laid_out: Picture) -> None:
    for layer, positions in enumerate(laid_out.units):
        used = {edge.input for edge in laid_out.edges if edge.layer == layer}
        used |= {edge.output for edge in laid_out.edges if edge.layer == layer - 1}
        colors = ["black" if unit in used else "0.8" for unit in range(len(positions))]
        heights = np.full(len(positions), canvas.line(layer))
        axes.scatter(canvas.x(positions), heights, s=22, c=colors, zorder=4)


def _crowded(names: Sequence[str]) -> bool:
    return sum(len(name) + 1 for name in names) > 60


def _labels(axes: Any, names: Sequence[str], positions: np.ndarray, y: float, side: str) -> None:
    """Names beside the units; turned where they would overlap."""
    for name, position in zip(names, positions, strict=True):
        axes.text(
            position,
            y,
            name.replace("$", r"\$"),
            ha="center",
            va=side,
            rotation=90 if _crowded(names) else 0,
            fontsize=9,
        )


def _notes(axes: Any, canvas: _Canvas, laid_out: Picture) -> None:
    for layer, hidden in enumerate(laid_out.hidden):
        if hidden:
            drawn = sum(edge.layer == layer for edge in laid_out.edges)
            axes.text(
                canvas.width / 2,
                canvas.line(layer + 1) - 0.3,
                f"{drawn} of {drawn + hidden:,} edges drawn, {hidden:,} weaker ones hidden",
                ha="center",
                va="center",
                fontsize=8,
                color="0.2",
                zorder=5,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 2.0},
            )
