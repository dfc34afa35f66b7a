"""Rows for a training: distinct, weighted, and split into parts to train and to validate."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import jax
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

    def with_held_out(self, fraction: float, rng: np.random.Generator) -> "RowSource":
        """The rows of which all networks hold out the same ones, if there are many."""
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

    def with_held_out(self, fraction: float, rng: np.random.Generator) -> "InMemory":
        if len(self.block) <= MOST_HELD_OUT:
            return self
        order = rng.permutation(len(self.block))
        n = min(MOST_HELD_OUT, max(1, round(len(self.block) * fraction)))
        return InMemory(self.block[np.sort(order[n:])], held_out=self.block[np.sort(order[:n])])


@dataclass(frozen=True)
class Split:
    """Which rows each of P networks trains on, and which it holds out.

    Attributes:
        first: the first block of training rows; the only one that networks hold rows out of.
        shared: rows that all networks hold out, if they hold out the same ones.
        held: 1 where a network holds out a row of the first block, (P, N).
        normalized: whether networks standardize their basis over all rows that they see at once:
            then no row may fill them up, and networks are measured among all rows.
    """

    first: Block
    shared: Block | None
    held: Float[np.ndarray, "P N"]
    normalized: bool

    @classmethod
    def of(
        cls,
        source: RowSource,
        first: Block,
        loss: str,
        fraction: float,
        count: int,
        rng: np.random.Generator,
        normalized: bool,
    ) -> "Split":
        """The rows of `count` networks; a `fraction` of 0 holds out none."""
        held = np.zeros((count, len(first)))
        shared = source.held_out if fraction > 0 else None
        if fraction > 0 and shared is None:
            order_by = first.y[:, 0] if loss == "values" else first.y.argmax(axis=1)
            part = validation_folds(order_by.astype(np.float64), fraction, count, rng)
            turn = np.arange(count) % (part.max() + 1)
            held = (part[None] == turn[:, None]).astype(np.float64)
        return cls(first, shared, held, normalized)

    @property
    def held_out_rows(self) -> int:
        """How many rows a network holds out."""
        if self.shared is not None:
            return len(self.shared)
        return round(self.held.sum() / len(self.held))

    def weights(self, block: Block, normalized: bool) -> Float[np.ndarray, "P n"]:
        """The weight that each network gives to the rows of a block, and to zeros that fill it up.

        They add up to one where `normalized`.
        """
        mask = 1 - self.held if block is self.first else np.ones((len(self.held), len(block)))
        weight = mask * block.weight
        if normalized:
            weight = _normalized(weight)
        return _filled(weight, self._padded(len(block)))

    def held_out(self, dtype: type) -> dict[str, Any]:
        """The rows that each network is measured on, with weights that add up to one."""
        if self.shared is not None:
            rows = self._padded(len(self.shared))
            weight = _filled(_normalized(self.shared.weight[None]), rows)
            return rows_on_device(self.shared, weight, dtype)
        weight = _normalized(self.held * self.first.weight)
        if self.normalized:
            return rows_on_device(self.first, weight, dtype)
        # Each network has rows of its own, as many as the one that holds out most.
        n = self._padded(int(self.held.sum(axis=1).max()))
        rows = np.argsort(-self.held, axis=1, kind="stable")[:, :n]
        blocks = {
            "x": self.first.x[rows],
            "y": self.first.y[rows],
            "weight": np.take_along_axis(weight, rows, axis=1),
        }
        return {name: jax.device_put(array.astype(dtype)) for name, array in blocks.items()}

    def _padded(self, rows: int) -> int:
        """So many rows and up to an eighth more: one compilation serves the folds of a table."""
        if self.normalized:
            return rows
        step = max(16, 1 << max(0, (rows - 1).bit_length() - 4))
        return -(-rows // step) * step


def rows_on_device(block: Block, weight: Float[np.ndarray, "P n"], dtype: type) -> dict[str, Any]:
    """The rows with an axis of models, and with zeros up to the size of `weight`."""
    fill = ((0, weight.shape[1] - len(block)), (0, 0))
    x, y = (np.pad(values.astype(dtype), fill)[None] for values in (block.x, block.y))
    arrays = {"x": x, "y": y, "weight": weight.astype(dtype)}
    return {name: jax.device_put(array) for name, array in arrays.items()}


def _normalized(weight: Float[np.ndarray, "P N"]) -> Float[np.ndarray, "P N"]:
    """Weights that add up to one for every network."""
    return weight / np.maximum(weight.sum(axis=1, keepdims=True), 1e-300)


def _filled(weight: Float[np.ndarray, "P N"], n: int) -> Float[np.ndarray, "P n"]:
    return np.pad(weight, ((0, 0), (0, n - weight.shape[1])))


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
