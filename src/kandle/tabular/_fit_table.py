"""Fit a network to a table, and say how good it is beside simpler answers."""

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kandle._errors import UserError
from kandle.init import get
from kandle.problems._sampling import permutation
from kandle.tabular import _baselines
from kandle.tabular._encode import Column, Encoder
from kandle.tabular._fit import Outcome, Report, fit_rows
from kandle.tabular._read import check_apart, unnamed
from kandle.tabular._rows import LEAST_ROWS, Block, InMemory, merge_equal_rows
from kandle.tabular._saved import Fitted, describe_scheme
from kandle.tabular._scaler import IGNORED, Scaler, in_float32, varying
from kandle.tabular._settings import FitSettings, is_auto
from kandle.tabular._stream import ParquetRows
from kandle.tabular._task import Task

if TYPE_CHECKING:
    import pandas as pd

# Of rows that are read from a file: larger than in memory, where reading is free.
_STREAMED_BATCH = 1024


@dataclass(frozen=True)
class Score:
    """How one answer does on one target.

    Attributes:
        name: of the answer.
        target: the column.
        train, test: root mean square errors in the target's units, or shares of wrong classes.
        score: R² or accuracy on the test rows.
    """

    name: str
    target: str
    train: float
    test: float
    score: float


@dataclass(frozen=True)
class TableFit:
    """What `fit_table` returns.

    Attributes:
        fitted: the network with its scaling.
        outcome: how it was trained.
        task: what was predicted.
        scores: for every target those of simple answers, then the network's.
        n_train, n_test: rows.
        beyond: how many test rows lie outside the range of the training rows.
        ignored: the inputs that are constant in the training rows.
        hardly_varies: whether the predictions are all but constant.
    """

    fitted: Fitted
    outcome: Outcome
    task: Task
    scores: list[Score]
    n_train: int
    n_test: int
    beyond: int
    ignored: list[str]
    hardly_varies: bool


def default_inputs(frame: "pd.DataFrame", target: Sequence[str], name: str) -> list[str]:
    """All columns but the targets that have a name of their own."""
    targets = set(target)
    inputs = [c for c in frame.columns if c not in targets and not unnamed(c)]
    if not inputs:
        columns = ", ".join(repr(c) for c in frame.columns)
        raise UserError(
            f"Table {name!r} has nothing to predict {', '.join(target)} from: "
            f"its only columns are {columns}."
        )
    return inputs


def fit_table(
    frame: "pd.DataFrame",
    target: Sequence[str],
    settings: FitSettings,
    *,
    inputs: Sequence[str] | None = None,
    task: str = "auto",
    categorical: Sequence[str] | None = (),
    impute: bool = False,
    test_fraction: float = 0.2,
    name: str = "table",
    report: Report | None = None,
) -> TableFit:
    """Fit to four fifths of the rows and compare on the others, which nothing is learned from.

    Args:
        frame: the table, columns named by text.
        target: the columns to predict.
        settings: of the training; their seed also draws the test rows.
        inputs: the columns to predict from; None is all others that have a name.
        task: "auto", "regression" or "classification".
        categorical: inputs to one-hot encode; None is all of text.
        impute: whether missing inputs are replaced by their column's median.
        test_fraction: the share of rows to test on.
        name: of the table, for messages.
        report: called on the way.
    """
    inputs = default_inputs(frame, target, name) if inputs is None else list(inputs)
    check_apart(inputs, target)
    chosen = Task.of(frame, target, task)
    train, test = split(len(frame), settings.seed, test_fraction, name)
    encoder = Encoder.of(frame.iloc[train], inputs, categorical, impute)
    x, y = encoder.apply(frame), chosen.targets(frame)
    if chosen.classes is None:
        _check_varying(chosen.target, y, train)
    data = _Scaled.of(x, y, train, encoder, chosen)

    distinct = merge_equal_rows(data.x[train], data.y[train], np.ones(len(train)))
    loss = "values" if chosen.classes is None else "classes"
    outcome = fit_rows(InMemory(Block(*distinct)), loss, settings, report)
    fitted = _fitted(outcome, data, settings, encoder)
    scores = _all_scores(fitted, data, train, test, settings)
    return TableFit(
        fitted,
        outcome,
        chosen,
        scores,
        len(train),
        len(test),
        _beyond(data.x[test]),
        _ignored(encoder, fitted.inputs),
        fitted.hardly_varies(data.x[train]),
    )


def fit_parquet(
    path: str | os.PathLike,
    target: Sequence[str],
    settings: FitSettings,
    *,
    inputs: Sequence[str] | None = None,
    task: str = "auto",
    report: Report | None = None,
) -> TableFit:
    """Fit to a Parquet file that does not fit into memory, in batches; see `ParquetRows`.

    Simple answers are fitted to the first block of training rows, whose errors are those shown for
    training. The arguments are those of `fit_table`.
    """
    fraction = settings.validation_fraction if settings.early_stopping else 0.0
    rows = ParquetRows(path, target, inputs, task, settings.seed, fraction)
    if is_auto(settings.batch_size):
        settings = dataclasses.replace(settings, batch_size=_STREAMED_BATCH)
    loss = "values" if rows.task.classes is None else "classes"
    outcome = fit_rows(rows, loss, settings, report)
    block = next(rows.blocks(np.random.default_rng(settings.seed)))
    block = block[block.weight > 0]
    data = _Scaled(
        np.concatenate([block.x, rows.test.x]).astype(np.float64),
        np.concatenate([block.y, rows.test.y]).astype(np.float64),
        rows.inputs,
        rows.target,
        rows.task,
    )
    encoder = Encoder(tuple(Column(name) for name in rows.inputs.columns))
    train, test = np.arange(len(block)), len(block) + np.arange(len(rows.test))
    fitted = _fitted(outcome, data, settings, encoder)
    scores = _all_scores(fitted, data, train, test, settings)
    return TableFit(
        fitted,
        outcome,
        rows.task,
        scores,
        rows.rows,
        len(test),
        _beyond(data.x[test]),
        _ignored(encoder, fitted.inputs),
        fitted.hardly_varies(data.x[train]),
    )


def _fitted(outcome: Outcome, data: "_Scaled", settings: FitSettings, encoder: Encoder) -> Fitted:
    described: dict[str, Any] = {
        **{f.name: getattr(settings, f.name) for f in dataclasses.fields(settings)},
        "init": describe_scheme(get(settings.init)),
        "layers": [*map(int, settings.layers)],
        "columns": encoder.to_dict(),
        "target": list(data.task.target),
    }
    classes = None if data.task.classes is None else list(data.task.classes)
    return Fitted(outcome.model, data.inputs, data.target, classes, described)


def _all_scores(
    fitted: Fitted, data: "_Scaled", train: np.ndarray, test: np.ndarray, settings: FitSettings
) -> list[Score]:
    simplest = "mean" if fitted.classes is None else "most frequent class"
    answers = {
        simplest: _baselines.mean(data.y[train]),
        "ridge": _baselines.ridge(data.x[train], data.y[train]),
        f"KAN ({get(settings.init).name})": fitted.outputs_of_scaled,
    }
    scores = [s for n, answer in answers.items() for s in data.scores(n, answer, train, test)]
    return sorted(scores, key=lambda score: data.task.target.index(score.target))


def _beyond(x: np.ndarray) -> int:
    return int((np.abs(x) > 1 + 1e-9).any(axis=1).sum())


def split(rows: int, seed: int, test_fraction: float, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The rows to train and to test on, each ascending."""
    if rows < LEAST_ROWS:
        raise UserError(
            f"Table {name!r} has {rows} row{'s' * (rows != 1)}. Fitting needs at least "
            f"{LEAST_ROWS}, some of them to test on."
        )
    n_test = min(max(1, round(rows * test_fraction)), rows - 1)
    order = permutation(f"table/{seed}", rows)
    return np.sort(order[n_test:]), np.sort(order[:n_test])


@dataclass(frozen=True)
class _Scaled:
    """A table in the network's units: x (N, n_in), y (N, n_out), one-hot for classes."""

    x: np.ndarray
    y: np.ndarray
    inputs: Scaler
    target: Scaler | None
    task: Task

    @classmethod
    def of(
        cls, x: np.ndarray, y: np.ndarray, train: np.ndarray, encoder: Encoder, task: Task
    ) -> "_Scaled":
        inputs = Scaler.to_interval(x[train], encoder.names, flat=IGNORED)
        scaled = in_float32(inputs.apply(x))
        if task.classes is not None:
            return cls(scaled, np.eye(len(task.classes))[y[:, 0].astype(int)], inputs, None, task)
        target = Scaler.standard(y[train], task.target, flat=1.0)
        return cls(scaled, target.apply(y), inputs, target, task)

    def scores(
        self, name: str, answer: _baselines.Predictor, train: np.ndarray, test: np.ndarray
    ) -> list[Score]:
        outputs = {"train": answer(self.x[train]), "test": answer(self.x[test])}
        truth = {"train": self.y[train], "test": self.y[test]}
        if self.target is None:
            wrong = {
                p: float(np.mean(u.argmax(1) != truth[p].argmax(1))) for p, u in outputs.items()
            }
            return [Score(name, self.task.target[0], **wrong, score=1 - wrong["test"])]
        # A test row may be so far out that its error is infinite, which is then the answer.
        with np.errstate(over="ignore", invalid="ignore"):
            squares = {p: (u - truth[p]) ** 2 for p, u in outputs.items()}
            units = np.asarray(self.target.scale)
            errors = {p: units * np.sqrt(s.mean(axis=0)) for p, s in squares.items()}
            total = np.sum((truth["test"] - truth["test"].mean(axis=0)) ** 2, axis=0)
            r2 = 1 - squares["test"].sum(axis=0) / np.where(total > 0, total, np.nan)
        return [
            Score(name, column, float(errors["train"][t]), float(errors["test"][t]), float(r2[t]))
            for t, column in enumerate(self.task.target)
        ]


def _ignored(encoder: Encoder, inputs: Scaler) -> list[str]:
    """The columns of numbers that are constant in the training rows."""
    numbers = {column.name for column in encoder.columns if column.categories is None}
    scales = zip(inputs.columns, inputs.scale, strict=True)
    return [name for name, scale in scales if scale == IGNORED and name in numbers]


def _check_varying(target: Sequence[str], y: np.ndarray, train: np.ndarray) -> None:
    """Every target varies, and does so among the training rows."""
    part = varying(y, target)[train]
    for column in np.flatnonzero(part.min(axis=0) == part.max(axis=0)):
        raise UserError(
            f"Column {target[int(column)]!r} is constant in the {len(part)} training rows, all "
            f"{part[0, column]:g}, and varies in the test rows only: nothing can be learned about "
            "it. Choose other test rows by another seed."
        )
