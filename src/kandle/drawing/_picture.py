"""Where the parts of a picture of a network go: plain data, before anything is drawn."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float

from kandle._errors import must
from kandle.nn import KAN, LayerEdges, strongest

_SAMPLE = 1000  # points that stand in for data where none are given
_CURVE = 60  # points per drawn function
_ROW = 16  # boxes side by side; a layer with more of them gets further rows


@dataclass(frozen=True, eq=False)
class Edge:
    """One function in the picture.

    Attributes:
        layer, output, input: which edge it is.
        importance: the standard deviation of its output over the data.
        opacity: from 0 (invisible) to 1, the importance as a share of the layer's largest.
        position: the center of its box along the layer, from 0 to 1.
        row: the row of its box among the layer's, counted from below.
        x, y: the function's curve, each scaled to the interval [0, 1].
    """

    layer: int
    output: int
    input: int
    importance: float
    opacity: float
    position: float
    row: int
    x: Float[np.ndarray, " points"]
    y: Float[np.ndarray, " points"]


@dataclass(frozen=True, eq=False)
class Picture:
    """A network laid out: a line of units per layer, edges in rows of boxes between the lines.

    Attributes:
        units: positions of the units of every layer along it, from 0 to 1.
        edges: the edges that are drawn.
        hidden: how many edges of each layer are not.
        rows: how many rows of boxes each layer has.
        input_names, output_names: labels below the first layer and above the last.
    """

    units: tuple[Float[np.ndarray, " _"], ...]
    edges: tuple[Edge, ...]
    hidden: tuple[int, ...]
    rows: tuple[int, ...]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]


def picture(
    model: KAN,
    x: Float[ArrayLike, "N n_in"] | None = None,
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    edges_per_layer: int = 64,
) -> Picture:
    """Lay out a network; see `kandle.plot` for the arguments."""
    if isinstance(edges_per_layer, bool) or not isinstance(edges_per_layer, int):
        raise must("'edges_per_layer' of plot", "an integer of at least 1", edges_per_layer)
    if edges_per_layer < 1:
        raise must("'edges_per_layer' of plot", "an integer of at least 1", edges_per_layer)
    widths = model.widths
    names = (
        _names("input_names", input_names, widths[0], "x"),
        _names("output_names", output_names, widths[-1], "y"),
    )
    found = model.edges(_sample(model) if x is None else x)
    units = tuple((np.arange(n) + 0.5) / n for n in widths)
    drawn, hidden, rows = [], [], []
    for layer, each in enumerate(found):
        chosen = _layer_edges(layer, each, units, edges_per_layer)
        drawn.extend(chosen)
        hidden.append(each.importance.size - len(chosen))
        rows.append(1 + max((edge.row for edge in chosen), default=0))
    return Picture(units, tuple(drawn), tuple(hidden), tuple(rows), *names)


def _layer_edges(
    layer: int, each: LayerEdges, units: tuple[np.ndarray, ...], limit: int
) -> list[Edge]:
    """The strongest edges of a layer, ordered so that few lines cross.

    Neighbors are in different rows, so no two boxes share a position and every line can be
    distinguished from the others.
    """
    (mask,) = strongest([each], limit)
    pairs = [(j, i) for j, i in np.argwhere(mask) if each.importance[j, i] > 0]
    below, above = units[layer], units[layer + 1]
    pairs.sort(key=lambda pair: (below[pair[1]] + above[pair[0]], below[pair[1]]))
    relative = each.relative
    rows = max(1, math.ceil(len(pairs) / _ROW))
    found = []
    for place, (j, i) in enumerate(pairs):
        t, y = each.curve(j, i, _CURVE)
        found.append(
            Edge(
                layer,
                int(j),
                int(i),
                float(each.importance[j, i]),
                float(relative[j, i]),
                (place + 0.5) / len(pairs),
                place % rows,
                _unit_interval(t),
                _unit_interval(y),
            )
        )
    return found


def _unit_interval(values: np.ndarray) -> np.ndarray:
    low, extent = values.min(), np.ptp(values)
    return (values - low) / extent if extent > 0 else np.full_like(values, 0.5)


def _sample(model: KAN) -> Any:
    """Points spread evenly over the domain of the first layer, always the same ones."""
    low, high = model.layers[0].basis.domain
    unit = np.random.default_rng(0).uniform(size=(_SAMPLE, model.widths[0]))
    return jnp.asarray(low + (high - low) * unit)


def _names(which: str, given: Sequence[str] | None, n: int, letter: str) -> tuple[str, ...]:
    if given is None:
        return (letter,) if n == 1 else tuple(f"{letter}{i + 1}" for i in range(n))
    names = tuple(given)
    if isinstance(given, str) or len(names) != n or not all(isinstance(s, str) for s in names):
        raise must(f"'{which}' of plot", f"{n} names", given)
    return names
