"""From columns of a table to the numbers a network takes: one-hot categories, imputed values."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kandle._errors import UserError
from kandle.tabular._read import check_columns, check_present, column_numbers, is_text

if TYPE_CHECKING:
    import pandas as pd

_ABOUT_CATEGORIES = "With `kandle fit --missing impute` it counts as none of the categories."


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Args:
        name: of the column.
        categories: its values, each of which becomes a column of zeros and ones; None for numbers.
        fill: what replaces a missing number, or any number if a missing category is none of those
            known; None makes missing values an error.
    """

    name: str
    categories: tuple[str, ...] | None = None
    fill: float | None = None

    @property
    def names(self) -> list[str]:
        """The columns that it becomes."""
        if self.categories is None:
            return [self.name]
        return [f"{self.name}={category}" for category in self.categories]

    def apply(self, series: "pd.Series") -> np.ndarray:
        """(N, columns that it becomes); an unknown or imputed category is all zeros."""
        if self.categories is None:
            return column_numbers(series, self.name, self.fill)[:, None]
        if self.fill is None:
            check_present(series, f"Column {self.name!r}", _ABOUT_CATEGORIES)
        return (_text(series)[:, None] == np.asarray(self.categories, object)).astype(np.float64)


@dataclass(frozen=True)
class Encoder:
    """The input columns of a fitted table, in order."""

    columns: tuple[Column, ...]

    @property
    def names(self) -> list[str]:
        return [name for column in self.columns for name in column.names]

    @classmethod
    def of(
        cls,
        frame: "pd.DataFrame",
        inputs: Sequence[str],
        categorical: Iterable[str] | None = (),
        impute: bool = False,
    ) -> "Encoder":
        """Learn categories, and medians to impute with, from these rows.

        Args:
            frame: training rows.
            inputs: names of the columns.
            categorical: those to encode; None is all columns of text.
            impute: whether missing numbers are replaced by the median of their column, and missing
                categories are none of those known.
        """
        check_columns(frame, inputs)
        chosen = None if categorical is None else set(categorical)
        if chosen and (strange := chosen - set(inputs)):
            raise UserError(f"Categorical column {min(strange)!r} is not among the inputs.")
        columns = []
        for name in inputs:
            series = frame[name]
            if is_text(series) if chosen is None else name in chosen:
                known = tuple(sorted(set(_text(series)) - {None}))
                columns.append(Column(name, known, fill=0.0 if impute else None))
            else:
                columns.append(Column(name, fill=_median(series, name) if impute else None))
        return cls(tuple(columns))

    def apply(self, frame: "pd.DataFrame") -> np.ndarray:
        """The columns as float64, (N, n_in)."""
        check_columns(frame, [column.name for column in self.columns])
        if not self.columns:
            return np.empty((len(frame), 0))
        return np.concatenate([c.apply(frame[c.name]) for c in self.columns], axis=1)

    def unknown_categories(self, frame: "pd.DataFrame") -> dict[str, list[str]]:
        """Values of categorical columns that the training rows did not have."""
        new = {
            c.name: sorted(set(_text(frame[c.name])) - {None, *c.categories})
            for c in self.columns
            if c.categories is not None
        }
        return {name: values for name, values in new.items() if values}

    def to_dict(self) -> list[dict[str, Any]]:
        return [asdict(column) for column in self.columns]

    @classmethod
    def from_dict(cls, given: Sequence[dict[str, Any]]) -> "Encoder":
        """The inverse of `to_dict`."""
        return cls(
            tuple(
                Column(
                    str(c["name"]),
                    None if c["categories"] is None else tuple(map(str, c["categories"])),
                    None if c["fill"] is None else float(c["fill"]),
                )
                for c in given
            )
        )


def _text(series: "pd.Series") -> np.ndarray:
    """Values as text, None where they are missing."""
    missing = series.isna().to_numpy()
    text = np.array(series.astype(str), dtype=object)
    text[missing] = None
    return text


def _median(series: "pd.Series", name: str) -> float:
    values = column_numbers(series, name, np.nan)
    present = values[~np.isnan(values)]
    if not present.size:
        raise UserError(f"Column {name!r} has no values at all: leave it out of the inputs.")
    return float(np.median(present))
