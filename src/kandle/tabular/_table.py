"""A table of data to be fitted."""

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import DTypeLike

from kandle._errors import UserError, must
from kandle._seed import check_seed
from kandle.problems._sampling import Interval, permutation
from kandle.tabular._read import check_apart, numbers, read_frame, unnamed
from kandle.tabular._scaler import Scaler, in_float32, varying

if TYPE_CHECKING:
    import pandas as pd

_PATH = (str, os.PathLike)

# A fold holds out one of so many parts of the training rows, and at least so many rows: one row
# says too little.
_FOLDS, _LEAST_HELD_OUT = 5, 2


@dataclass(frozen=True, eq=False)
class Table:
    """Fit columns of a CSV or Parquet file, or of a DataFrame, from other columns of it.

    - `target`: the column, or columns, to predict;
    - `inputs`: the columns to predict from; by default all others that have a name (pandas writes
      an index as a column without one);
    - `seed`: draws the rows to test on; `test_fraction` is their share, at least one row.

    Inputs are mapped to [-1, 1], where the splines live, and targets to mean 0 and standard
    deviation 1, over the training rows alone: `scaler` and `target_scaler` convert back to the
    data's units. All errors are thus relative to the target's standard deviation. Test rows may
    lie outside of [-1, 1], as new data may: a network extrapolates there.
    """

    data: "str | os.PathLike | pd.DataFrame"
    target: str | Sequence[str]
    inputs: Sequence[str] | None = None
    seed: int = 0
    test_fraction: float = 0.2
    name: str = ""
    latex: str = ""
    default_steps: int = 2000

    kind: ClassVar[str] = "function"

    def __post_init__(self):
        set_field = functools.partial(object.__setattr__, self)
        name = self.name or (Path(self.data).stem if isinstance(self.data, _PATH) else "table")
        set_field("name", name)
        set_field("target", _names("target", self.target))
        if self.inputs is None:
            set_field("inputs", self._others())
        set_field("inputs", _names("inputs", self._inputs))
        check_apart(self._inputs, self.target)
        set_field("seed", check_seed("'seed' of Table", self.seed))
        fraction = self.test_fraction
        if not isinstance(fraction, int | float) or not 0.0 < fraction < 1.0:
            raise must("'test_fraction' of Table", "between 0 and 1", fraction)
        # Bad data is an error here, where the table is named, not somewhere in a training.
        if len(self) < 2:
            raise UserError(f"Table {name!r} has one row and needs two: to train and to test.")
        self._check_spread()
        _ = self.scaler, self.target_scaler

    def __len__(self) -> int:
        """The number of rows."""
        return len(self._xy[0])

    @property
    def domain(self) -> Sequence[Interval]:
        return ((-1.0, 1.0),) * self.n_in

    @property
    def n_in(self) -> int:
        return len(self._inputs)

    @property
    def n_out(self) -> int:
        return len(self.target)

    @functools.cached_property
    def scaler(self) -> Scaler:
        """From the inputs' units to [-1, 1], of the training rows."""
        return self._scalers(self._split[0])[0]

    @functools.cached_property
    def target_scaler(self) -> Scaler:
        """From the targets' units to mean 0 and standard deviation 1, of the training rows."""
        return self._scalers(self._split[0])[1]

    def arrays(self, dtype: DTypeLike = "float32") -> dict[str, np.ndarray]:
        """The data of a training, scaled: `x` (N, n_in), `y` (N, n_out), `x_test`, `y_test`."""
        train, test = self._scaled(*self._split, dtype)
        return {**train, "x_test": test["x"], "y_test": test["y"]}

    def fold(
        self, index: int, dtype: DTypeLike = "float32"
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Training rows to train on, and others of them to compare models on: `x`, `y` of both.

        A fifth of the training rows, drawn by the seed, is held out; the rest determine the
        scaling. Five consecutive folds hold out different rows, the next five are drawn again. Test
        rows are in neither part.
        """
        train = self._split[0]
        if len(train) < 2 * _LEAST_HELD_OUT:
            raise UserError(
                f"Table {self.name!r} has {len(train)} training rows. Some can be held out of "
                f"{2 * _LEAST_HELD_OUT} or more: it needs more rows, or a smaller test_fraction."
            )
        # All folds have one size, so that a training is compiled once.
        n = max(_LEAST_HELD_OUT, len(train) // _FOLDS)
        drawn, part = divmod(index, min(_FOLDS, len(train) // n))
        order = permutation(f"table/{self.seed}/folds/{drawn}", len(train))
        held = np.sort(order[part * n : (part + 1) * n])
        return self._scaled(np.delete(train, held), train[held], dtype)

    def evaluation(self) -> tuple[np.ndarray, np.ndarray]:
        """The test rows, scaled: float64 (M, n_in), (M, n_out)."""
        data = self.arrays(np.float64)
        return data["x_test"], data["y_test"]

    def ntk_points(self, n: int = 256) -> dict[str, np.ndarray]:
        """Rows of `arrays()` for a tangent kernel: training rows drawn by the seed, ascending."""
        n_train = len(self._split[0])
        return {"x": np.sort(permutation(f"table/{self.seed}/ntk", n_train)[:n])}

    def _others(self) -> tuple[str, ...]:
        others = [c for c in self._frame.columns if c not in self.target]
        named = tuple(column for column in others if not unnamed(column))
        if not named and len(others) < len(self._frame.columns):
            columns = ", ".join(repr(c) for c in self._frame.columns)
            raise UserError(
                f"Table {self.name!r} has nothing to predict {', '.join(self.target)} from: "
                f"its only columns are {columns}."
            )
        return named

    @property
    def _inputs(self) -> tuple[str, ...]:
        return tuple(self.inputs or ())

    @functools.cached_property
    def _frame(self) -> "pd.DataFrame":
        return read_frame(self.data)

    @functools.cached_property
    def _xy(self) -> tuple[np.ndarray, np.ndarray]:
        xy = numbers(self._frame, (*self._inputs, *self.target))
        return xy[:, : self.n_in], xy[:, self.n_in :]

    def _check_spread(self) -> None:
        """Every column varies, and does so among the training rows."""
        columns = (*self._inputs, *self.target)
        x = varying(np.concatenate(self._xy, axis=1), columns)[self._split[0]]
        for column, values in zip(columns, x.T, strict=True):
            if len(values) > 1 and values.min() == values.max():
                raise UserError(
                    f"Column {column!r} is constant in the {len(values)} training rows, all "
                    f"{values[0]:g}, and varies in the test rows only: nothing can be learned from "
                    "it or about it. Leave it out, or choose other test rows by another seed."
                )

    def _scalers(self, rows: np.ndarray) -> tuple[Scaler, Scaler]:
        """Of inputs and targets, from these rows alone; a constant column is only shifted."""
        x, y = (part[rows] for part in self._xy)
        return (
            Scaler.to_interval(x, self._inputs, flat=1.0),
            Scaler.standard(y, tuple(self.target), flat=1.0),
        )

    def _scaled(
        self, train: np.ndarray, test: np.ndarray, dtype: DTypeLike
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """`x` and `y` of both, scaled by the training rows."""
        inputs, target = self._scalers(train)
        x, y = self._xy
        # Rounding may carry a column of tiny relative spread past the ends of the domain.
        x_train = np.clip(inputs.apply(x[train]), -1.0, 1.0)
        parts = (
            {"x": x_train, "y": target.apply(y[train])},
            # Not clipped: new data are not either.
            {"x": in_float32(inputs.apply(x[test])), "y": target.apply(y[test])},
        )
        with np.errstate(over="ignore"):  # a target beyond float32 is an infinite error
            a, b = ({k: v.astype(dtype) for k, v in part.items()} for part in parts)
        return a, b

    @functools.cached_property
    def _split(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows for training and for testing, each ascending."""
        rows = len(self)
        n_test = min(max(1, round(rows * self.test_fraction)), rows - 1)
        order = permutation(f"table/{self.seed}", rows)
        return np.sort(order[n_test:]), np.sort(order[:n_test])


def _names(what: str, given: str | Sequence[str]) -> tuple[str, ...]:
    names = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
    if not names or not all(isinstance(name, str) for name in names):
        raise must(f"'{what}' of Table", "one or more names of columns", given)
    if len(set(names)) < len(names):
        raise must(f"'{what}' of Table", "names of distinct columns", given)
    return names
