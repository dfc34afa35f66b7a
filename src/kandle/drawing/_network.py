"""Draw a network with the functions on its edges."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import ArrayLike, Float

from kandle._errors import UserError, must
from kandle.drawing._picture import Edge, Picture, picture
from kandle.nn import KAN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SUFFIXES = (".png", ".pdf", ".svg")
_LAYER_INCHES = 2.4  # height of one layer
_BOX = 0.30  # height of a function's box, in layers
_FAINTEST = 0.06  # an edge that is drawn at all can be seen


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
    its input takes.

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
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise UserError("kandle.plot needs matplotlib: pip install 'kandle[study]'") from None
    if path is not None and Path(path).suffix not in _SUFFIXES:
        raise must("'path' of plot", f"a file named *{', *'.join(_SUFFIXES)}", str(path))
    laid_out = picture(
        model,
        x,
        input_names=input_names,
        output_names=output_names,
        edges_per_layer=edges_per_layer,
    )
    figure = _draw(laid_out, title, Figure)
    if path is not None:
        figure.savefig(path, dpi=160)
    return figure


def _draw(laid_out: Picture, title: str, Figure: Any) -> "Figure":
    from matplotlib.collections import LineCollection

    layers = len(laid_out.units) - 1
    widest = max(_boxes(laid_out, layer) for layer in range(layers))
    width = float(np.clip(0.36 * widest, 4.0, 24.0))
    figure = Figure(figsize=(width, 0.9 + _LAYER_INCHES * layers), layout="constrained")
    axes = figure.add_subplot()
    axes.set_axis_off()
    aspect = width / _LAYER_INCHES  # one layer's height in widths of the picture

    lines, shades = [], []
    for edge in laid_out.edges:
        half = _half_width(laid_out, edge, aspect)
        lines.extend(_lines(laid_out, edge))
        shade = _FAINTEST + (1.0 - _FAINTEST) * edge.opacity
        shades.extend([shade, shade])
        _function(axes, edge, half, shade)
    axes.add_collection(
        LineCollection(lines, colors=[(0.25, 0.25, 0.25, s) for s in shades], linewidths=0.8)
    )
    for layer, positions in enumerate(laid_out.units):
        axes.plot(positions, np.full(len(positions), layer), "o", color="black", markersize=5)
    _labels(axes, laid_out.input_names, laid_out.units[0], -0.1, "top")
    _labels(axes, laid_out.output_names, laid_out.units[-1], layers + 0.1, "bottom")
    _notes(axes, laid_out)
    if title:
        axes.set_title(title)
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.35, layers + 0.35)
    return figure


def _boxes(laid_out: Picture, layer: int) -> int:
    return sum(edge.layer == layer for edge in laid_out.edges)


def _half_width(laid_out: Picture, edge: Edge, aspect: float) -> float:
    """Half the width of a box: square if there is room, else as wide as its place."""
    return 0.5 * min(_BOX / aspect, 0.86 / max(1, _boxes(laid_out, edge.layer)))


def _lines(laid_out: Picture, edge: Edge) -> list[list[tuple[float, float]]]:
    """From the input's unit to the box, and from the box to the output's unit."""
    below = laid_out.units[edge.layer][edge.input]
    above = laid_out.units[edge.layer + 1][edge.output]
    middle = edge.layer + 0.5
    return [
        [(below, edge.layer), (edge.position, middle - _BOX / 2)],
        [(edge.position, middle + _BOX / 2), (above, edge.layer + 1)],
    ]


def _function(axes: Any, edge: Edge, half: float, shade: float) -> None:
    from matplotlib.patches import Rectangle

    middle = edge.layer + 0.5
    corner = (edge.position - half, middle - _BOX / 2)
    axes.add_patch(
        Rectangle(corner, 2 * half, _BOX, facecolor="white", edgecolor=(0.6, 0.6, 0.6, shade))
    )
    x = edge.position + half * 0.84 * (2 * edge.x - 1)
    y = middle + _BOX * 0.42 * (2 * edge.y - 1)
    axes.plot(x, y, color="black", alpha=shade, linewidth=1.1)


def _labels(axes: Any, names: Sequence[str], positions: np.ndarray, y: float, side: str) -> None:
    """Names beside the units; turned where they would overlap."""
    crowded = sum(len(name) + 1 for name in names) > 60
    for name, position in zip(names, positions, strict=True):
        axes.text(
            position,
            y,
            name.replace("$", r"\$"),
            ha="center",
            va=side,
            rotation=90 if crowded else 0,
            fontsize=9,
        )


def _notes(axes: Any, laid_out: Picture) -> None:
    for layer, hidden in enumerate(laid_out.hidden):
        if hidden:
            drawn = _boxes(laid_out, layer)
            note = f"{drawn} of {drawn + hidden:,} edges drawn, {hidden:,} weaker ones hidden"
            axes.text(0.5, layer + 0.24, note, ha="center", va="center", fontsize=8, color="0.35")
