"""How large networks may be, so that a training does not exhaust the memory."""

import itertools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from kandle._errors import UserError, must
from kandle.nn import KAN
from kandle.tabular._settings import FitSettings

# 0.4 GB, and with the state and gradients of the optimizer five times that.
MOST_WEIGHTS = 10**8


def check_widths(widths: list[int], settings: FitSettings) -> None:
    """Reject grids that do not match the layers, and a network that is too large for memory."""
    s = settings
    if not _is_one(s.grid) and len(s.grid) != len(widths) - 1:  # pyright: ignore[reportArgumentType]
        raise must("'grid'", f"one integer, or {len(widths) - 1}, one per layer", s.grid)
    weights = count_weights(widths, s)
    if weights > MOST_WEIGHTS:
        raise UserError(
            f"A network of widths {widths} and grid {s.finest} has {weights:.2g} weights, more "
            f"than the limit of {MOST_WEIGHTS:.0e}. Use smaller layers or a coarser grid."
        )


def count_weights(widths: Sequence[int], settings: FitSettings) -> int:
    """The number of weights r, b and bias of a network on the finest grid."""
    s, edges = settings, [a * b for a, b in itertools.pairwise(widths)]
    grids = [s.finest] * len(edges) if _is_one(s.finest) else s.finest
    per_edge = (int(g) + int(s.degree) + 1 for g in grids)  # pyright: ignore[reportGeneralTypeIssues]
    return sum(n * w for n, w in zip(edges, per_edge, strict=True)) + sum(widths[1:])


def _is_one(grid: Any) -> bool:
    return isinstance(grid, int | np.integer)


def check_size(network: KAN, count: int) -> None:
    """Reject networks that are too large for memory together."""
    weights = count * sum(leaf.size for leaf in jax.tree.leaves(network))
    if weights > MOST_WEIGHTS:
        raise UserError(
            f"{count} networks of widths {list(network.widths)} have {weights:.2g} weights, more "
            f"than the limit of {MOST_WEIGHTS:.0e}. Use fewer networks, a fixed smoothness, "
            "smaller layers or a coarser grid."
        )
