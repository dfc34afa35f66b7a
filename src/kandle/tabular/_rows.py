"""Rows for a training: distinct, weighted, and split into parts to train and to validate."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from jaxtyping import Float, Int

# Merging equal rows sorts them, which pays while a training is short.
_FEW = 20_000

# Of more rows than this all networks hold out the same ones: then as many suffice to compare them.
MOST_HELD_OUT = 10_000

LEAST_ROWS = 10


@dataclass(frozen=True)
class Block:
    """Scaled rows in memory: x (N, n_in), y (N, n_out), weight (N,)."""

    x: Float[np.ndarray, "N n_in"]
    y: Float[np.ndarray, "N n_out"]
    weight: Float[np.ndarray, " N"]

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, rows: np.ndarray) -> "Block":
        return Block(self.x[rows], self.y[rows], self.weight[rows])


class RowSource(Protocol):
    """Where rows come from: memory, or a file that does not fit into it."""

    @property
    def rows(self) -> int:
        """The number of training rows."""
        ...

    @property
    def held_out(self) -> Block | None:
        """Rows to validate on, the same for all networks; None if each holds out its own."""
        ...

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        """All training rows once, in blocks of one size (the last ones filled with weight 0)."""
        ...


@dataclass(frozen=True)
class InMemory:
    """One block that is all rows."""

    block: Block
    held_out: Block | None = None

    @property
    def rows(self) -> int:
        return len(self.block)

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        yield self.block


def merge_equal_rows(
    x: Float[np.ndarray, "N n_in"],
    y: Float[np.ndarray, "N n_out"],
    weight: Float[np.ndarray, " N"],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distinct rows in a fixed order, with the sum of their weights; those of weight 0 are dropped.

    A row given twice is thus the same as one of weight 2, the order of rows does not matter, and no
    copy of a training row is used for validation. Above 20,000 rows only zero weights are dropped.
    """
    kept = weight > 0
    x, y, weight = x[kept], y[kept], weight[kept]
    if len(x) > _FEW:
        return x, y, weight
    columns = np.concatenate([x, y], axis=1) + 0.0  # no negative zeros
    # Rows as strings of bytes: any fixed order will do, and this one is fast for many columns.
    keys = np.ascontiguousarray(columns).view(np.dtype((np.void, columns.shape[1] * 8))).ravel()
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    # Exact for whole weights, so that copies and weights give the same sums.
    return x[first], y[first], np.bincount(group, weight, len(first))


def validation_folds(
    order_by: Float[np.ndarray, " N"], fraction: float, networks: int, rng: np.random.Generator
) -> Int[np.ndarray, " N"]:
    """The network (0 … networks - 1) that holds a row out, or any other number for none.

    Rows are dealt out in the order of their target, ties at random: every part has all classes, or
    the whole range of values, in the same shares.
    """
    n = len(order_by)
    parts = max(2, min(n, round(1 / fraction)))
    order = np.lexsort((rng.permutation(n), order_by))
    part = np.empty(n, np.int64)
    # Each run of `parts` neighbours is dealt in an order of its own.
    dealt = np.concatenate([rng.permutation(parts) for _ in range(-(-n // parts))])[:n]
    part[order] = dealt
    return part
