"""What is predicted: values, or classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kandle._errors import UserError, unknown
from kandle.tabular._read import check_columns, check_present, is_text, numbers

if TYPE_CHECKING:
    import pandas as pd

TASKS = ("auto", "regression", "classification")

# Whole numbers of so few distinct values are taken for classes.
_FEW = 10

ABOUT_TARGETS = "Leave out rows without a target: `--missing impute` is for inputs."


@dataclass(frozen=True)
class Task:
    """The targets of a table.

    Args:
        target: names of the columns.
        classes: the values of the one target of a classification; None for a regression.
        reason: why this task was assumed; empty if it was given.
    """

    target: tuple[str, ...]
    classes: tuple[Any, ...] | None = None
    reason: str = ""

    @property
    def name(self) -> str:
        return "regression" if self.classes is None else "classification"

    @classmethod
    def of(cls, frame: "pd.DataFrame", target: Sequence[str], task: str = "auto") -> "Task":
        """The task, assumed from the target's values unless it is given."""
        if task not in TASKS:
            raise unknown("task", task, TASKS)
        target = tuple(target)
        check_columns(frame, target)
        for name in target:
            check_present(frame[name], f"Target {name!r}", ABOUT_TARGETS)
        reason = ""
        if task == "auto":
            task, reason = _assumed(frame, target)
        if task == "regression":
            _check_numbers(frame, target)
            return cls(target, None, reason)
        if len(target) != 1:
            raise UserError(f"Classification has one target. Got {len(target)}: {target}.")
        [name] = target
        series = frame[name]
        classes: tuple[Any, ...] = tuple(
            np.unique(series.astype(str) if is_text(series) else series).tolist()
        )
        if len(classes) < 2:
            raise UserError(f"Target {name!r} has one class only: {next(iter(classes), None)!r}.")
        if len(classes) > max(2, len(frame) // 2):
            raise UserError(
                f"Target {name!r} has {len(classes):,} distinct values in {len(frame):,} "
                "rows: too many classes. Use --task regression if it is a number."
            )
        return cls(target, classes, reason)

    def targets(self, frame: "pd.DataFrame") -> np.ndarray:
        """Values (N, n_targets), or the number of each row's class (N, 1)."""
        if self.classes is None:
            return numbers(frame, self.target)
        series = frame[self.target[0]]
        values = (series.astype(str) if is_text(series) else series).to_numpy()
        return np.searchsorted(np.asarray(self.classes), values)[:, None].astype(np.float64)


def _check_numbers(frame: "pd.DataFrame", target: tuple[str, ...]) -> None:
    """Text can be a target of its own, but not a value."""
    for name in target:
        if is_text(frame[name]) and not is_numeric_text(frame[name]):
            advice = (
                "It can be classified: --task classification."
                if len(target) == 1
                else "It can be classified as the only target."
            )
            raise UserError(
                f"Target {name!r} is text, such as {frame[name].iloc[0]!r}, and no number. {advice}"
            )


def _assumed(frame: "pd.DataFrame", target: tuple[str, ...]) -> tuple[str, str]:
    if len(target) != 1:
        return "regression", "there are several targets"
    [name] = target
    series = frame[name]
    distinct = series.nunique()
    if is_text(series):
        if is_numeric_text(series):
            return "regression", f"{name} is a number"
        return "classification", f"{name} is text of {distinct:,} distinct values"
    if series.dtype.kind == "b":
        return "classification", f"{name} is true or false"
    kind = series.dtype.kind
    is_whole = kind in "iu" or (kind == "f" and (series % 1 == 0).all())
    if is_whole and 2 <= distinct <= min(_FEW, len(series) // 5):
        return "classification", f"{name} has {distinct} distinct whole numbers"
    return "regression", f"{name} is a number of {distinct:,} distinct values"


def is_numeric_text(series: "pd.Series") -> bool:
    """Whether most of it are numbers: then the others are mistakes, to be named as such."""
    import pandas as pd

    return bool(pd.to_numeric(series, errors="coerce").notna().mean() > 0.5)
