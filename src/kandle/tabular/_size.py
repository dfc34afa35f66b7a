"""How large networks may be, so that a training does not exhaust the memory."""

import itertools
from collections.abc import Sequence

import jax

from kandle._errors import UserError
from kandle.nn import KAN
from kandle.tabular._settings import FitSettings

# 0.4 GB, and with the state and gradients of the optimizer five times that.
MOST_WEIGHTS = 10**8


def check_widths(widths: list[int], settings: FitSettings) -> None:
    """Reject grids that do not match the layers, and a network that is too large for memory."""
    settings.grids_for(len(widths) - 1)  # rejects a list of another length
    weights = count_weights(widths, settings)
    if weights > MOST_WEIGHTS:
        raise UserError(
            f"A network of widths {widths} and grid {settings.finest} has {weights:.2g} weights, "
            f"more than the limit of {MOST_WEIGHTS:.0e}. Use smaller layers or a coarser grid."
        )


def count_weights(widths: Sequence[int], settings: FitSettings) -> int:
    """The number of weights r, b and bias of a network on the finest grid."""
    total = sum(widths[1:])
    grids = settings.grids_for(len(widths) - 1, finest=True)
    for (n_in, n_out), grid in zip(itertools.pairwise(widths), grids, strict=True):
        n_basis = grid + int(settings.degree)
        total += n_in * n_out * (n_basis + 1)  # b and r
    return total


def check_size(network: KAN, count: int) -> None:
    """Reject networks that are too large for memory together."""
    weights = count * sum(leaf.size for leaf in jax.tree.leaves(network))
    if weights > MOST_WEIGHTS:
        raise UserError(
            f"{count} networks of widths {list(network.widths)} have {weights:.2g} weights, more "
            f"than the limit of {MOST_WEIGHTS:.0e}. Use fewer networks, a fixed smoothness, "
            "smaller layers or a coarser grid."
        )
