"""Rows of a Parquet file that is larger than memory, read by row groups."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kandle._errors import UserError, needs_extra
from kandle.tabular._read import check_apart, check_columns, check_present, numbers, unnamed
from kandle.tabular._rows import MOST_HELD_OUT, Block
from kandle.tabular._scaler import IGNORED, Scaler, in_float32
from kandle.tabular._task import ABOUT_TARGETS, Task

# Larger tables than this are streamed: 80 MB of float64.
STREAMED_CELLS = 10**7

# Numbers in a block of rows, and blocks that are shuffled together.
_BLOCK_CELLS, _POOL = 2**21, 4
_MOST_TESTED = 50_000

_TRAIN, _VALIDATE, _TEST = range(3)

_ABOUT_NUMBERS = (
    "A file that is read by row groups must have numbers only: encode and fill its columns first, "
    "or leave them out with --inputs."
)


def is_streamed(path: str | os.PathLike) -> bool:
    """Whether a file is Parquet and too large to be read at once."""
    path = Path(path)
    if path.suffix.lower() not in (".parquet", ".pq") or not path.is_file():
        return False
    with needs_extra("Reading a Parquet file", "table"):
        import pyarrow.parquet as pq
    try:
        metadata = pq.read_metadata(path)
    except Exception:  # whatever is wrong with the file is said when it is read
        return False
    return metadata.num_rows * metadata.num_columns > STREAMED_CELLS


@dataclass(frozen=True)
class _Shares:
    """Which part a row belongs to: a hash of its number and of the seed decides."""

    seed: int
    test: float
    validation: float

    def parts(self, first_row: int, rows: int) -> np.ndarray:
        with np.errstate(over="ignore"):
            # SplitMix64 of the row's number.
            z = np.arange(first_row, first_row + rows, dtype=np.uint64)
            z = (z + np.uint64(self.seed) * np.uint64(2**32)) * np.uint64(0x9E3779B97F4A7C15)
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            u = (z ^ (z >> np.uint64(31))) / 2.0**64
        return np.where(
            u < self.test, _TEST, np.where(u < self.test + self.validation, _VALIDATE, _TRAIN)
        )


class ParquetRows:
    """Training rows in shuffled blocks; validation and test rows are kept in memory.

    A first pass over the file checks every number, finds the ranges of the training rows, which
    scale all others, and collects up to about 10,000 rows to validate and 50,000 to test on.

    Rows are shuffled within four blocks that follow each other in a row group, and row groups are
    read in random order: a file whose rows are sorted by the target should be shuffled first.

    Args:
        path: the file.
        inputs: columns to predict from, all of numbers; None is all others that have a name.
        target: columns to predict.
        task: "auto", "regression" or "classification".
        seed: which rows are in which part.
        validation_fraction: 0 holds out no rows for validation.

    Attributes:
        rows: number of training rows.
        task: what is predicted.
        inputs, target: the scaling.
        held_out, test: rows in memory, scaled.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        target: Sequence[str],
        inputs: Sequence[str] | None = None,
        task: str = "auto",
        seed: int = 0,
        validation_fraction: float = 0.1,
    ):
        with needs_extra("Reading a Parquet file", "table"):
            import pyarrow.parquet as pq

        self._file = pq.ParquetFile(path)
        columns = self._file.schema_arrow.names
        if inputs is None:
            inputs = [c for c in columns if c not in set(target) and not unnamed(c)]
        self._names, self._target = list(inputs), list(target)
        check_apart(inputs, target)
        width = len(self._names) + len(self._target)
        self._block_rows = max(1024, min(65_536, _BLOCK_CELLS // width))
        total = self._file.metadata.num_rows
        self._shares = _Shares(
            seed,
            min(0.2, _MOST_TESTED / total),
            min(validation_fraction, MOST_HELD_OUT / total) if validation_fraction else 0.0,
        )
        self.task = self._find_task(task)
        self._first_pass()

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        """All training rows once, in blocks of one size, the last ones filled with weight 0."""
        pool: list[tuple[np.ndarray, np.ndarray]] = []
        for x, y in self._training_rows(rng.permutation(len(self)).tolist()):
            pool.append((x, y))
            if sum(len(x) for x, _ in pool) >= _POOL * self._block_rows:
                yield from self._shuffled(pool, rng)
                pool = []
        if pool:
            yield from self._shuffled(pool, rng)

    def with_held_out(self, fraction: float, rng: np.random.Generator) -> "ParquetRows":
        return self  # the first pass has chosen them

    def _shuffled(self, pool: list, rng: np.random.Generator) -> Iterator[Block]:
        x, y = (np.concatenate(parts) for parts in zip(*pool, strict=True))
        order, n = rng.permutation(len(x)), self._block_rows
        for start in range(0, len(x), n):
            chosen = order[start : start + n]
            fill = (0, n - len(chosen))
            block = self._scaled(x[chosen], y[chosen])
            yield Block(
                np.pad(block.x, (fill, (0, 0))),
                np.pad(block.y, (fill, (0, 0))),
                np.pad(block.weight, fill),
            )

    def _training_rows(self, groups: Sequence[int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for x, y, part in self._numbers(groups):
            yield x[part == _TRAIN], y[part == _TRAIN]

    def _scaled(self, x: np.ndarray, y: np.ndarray) -> Block:
        x = in_float32(self.inputs.apply(x)).astype(np.float32)
        if self.target is None:
            y = np.eye(len(self.task.classes or ()))[y[:, 0].astype(int)]
        else:
            y = self.target.apply(y)
        return Block(x, y.astype(np.float32), np.ones(len(x), np.float32))

    def _frames(self, groups: Sequence[int], columns: list[str]):
        """(number of the first row, frame) of every batch of these row groups."""
        sizes = [self._file.metadata.row_group(g).num_rows for g in range(len(self))]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        for group in map(int, groups):
            first = int(starts[group])
            batches = self._file.iter_batches(
                batch_size=self._block_rows, row_groups=[group], columns=columns
            )
            for batch in batches:
                yield first, batch.to_pandas()
                first += batch.num_rows

    def __len__(self) -> int:
        """The number of row groups."""
        return self._file.num_row_groups

    def _numbers(
        self, groups: Sequence[int]
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        for first, frame in self._frames(groups, [*self._names, *self._target]):
            x = numbers(frame, self._names, first, _ABOUT_NUMBERS)
            if self.task.classes is None:
                y = numbers(frame, self._target, first, _ABOUT_NUMBERS)
            else:
                [name] = self._target
                check_present(frame[name], f"Target {name!r}", ABOUT_TARGETS, first)
                y = self.task.targets(frame)
            yield x, y, self._shares.parts(first, len(frame))

    def _find_task(self, task: str) -> Task:
        import pandas as pd

        empty = self._file.schema_arrow.empty_table().to_pandas()
        if missing := [c for c in (*self._names, *self._target) if c not in empty.columns]:
            check_columns(pd.DataFrame({c: [0] for c in empty.columns}), missing)
        if task == "regression" or len(self._target) > 1:
            return Task(tuple(self._target))
        distinct: set = set()
        for _, frame in self._frames(range(len(self)), self._target):
            distinct |= set(frame[self._target[0]].dropna().unique().tolist())
            if len(distinct) > 1000 and task == "auto":
                return Task(tuple(self._target), reason=f"{self._target[0]} has many values")
        # As many copies as make few values look few.
        values = pd.Series(sorted(distinct, key=str) * 5, dtype=empty[self._target[0]].dtype)
        return Task.of(pd.DataFrame({self._target[0]: values}), self._target, task)

    def _first_pass(self) -> None:
        low, high = np.inf, -np.inf
        n, mean, squares = 0, 0.0, 0.0
        kept: dict[int, list] = {_VALIDATE: [], _TEST: []}
        for x, y, part in self._numbers(range(len(self))):
            train = part == _TRAIN
            if train.any():
                low = np.minimum(low, x[train].min(axis=0))
                high = np.maximum(high, x[train].max(axis=0))
                # Chan's update of mean and variance by another batch.
                m, own = train.sum(), y[train].mean(axis=0)
                squares = squares + ((y[train] - own) ** 2).sum(axis=0)
                squares = squares + (own - mean) ** 2 * (n * m / (n + m))
                mean, n = mean + (own - mean) * (m / (n + m)), n + int(m)
            for which, rows in kept.items():
                rows.append((x[part == which], y[part == which]))
        if n == 0:
            raise UserError("The file has no rows to train on.")
        self.rows = n
        self.inputs = Scaler.to_interval(np.stack([low, high]), self._names, flat=IGNORED)
        self.target = None
        if self.task.classes is None:
            std = np.sqrt(np.asarray(squares) / n)
            names, offset = tuple(self._target), np.asarray(mean)
            for name, deviation in zip(names, std, strict=True):
                if deviation == 0:
                    raise UserError(
                        f"Target {name!r} is constant in the training rows: nothing can be learned "
                        "about it."
                    )
            self.target = Scaler(names, tuple(offset.tolist()), tuple(std.tolist()))
        whole = {
            which: self._scaled(*(np.concatenate(p) for p in zip(*rows, strict=True)))
            for which, rows in kept.items()
        }
        self.test = whole[_TEST]
        self.held_out: Block | None = whole[_VALIDATE] if len(whole[_VALIDATE]) else None
