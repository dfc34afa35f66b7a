"""A table as plain data, before it is written in some format."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pandas as pd


@dataclass(frozen=True)
class Cell:
    """One entry: its text, whether it is the best, and its LaTeX if that differs from the text."""

    text: str = ""
    bold: bool = False
    latex: str | None = None


@dataclass(frozen=True)
class Table:
    """A caption, headers, blocks of rows with a rule between them, notes, and the same as a frame.

    `number` is the number of a table of the paper (`1`, `C1`); LaTeX numbers tables itself. `spans`
    is a first header line of (label, columns) pairs, for groups of columns. `tidy` has one
    observation per row and becomes the CSV.
    """

    caption: str
    header: tuple[Cell, ...]
    blocks: tuple[tuple[tuple[Cell, ...], ...], ...]
    tidy: pd.DataFrame
    notes: tuple[str, ...] = ()
    spans: tuple[tuple[str, int], ...] = ()
    label: str = "table"
    number: str = ""

    @property
    def heading(self) -> str:
        """The caption with the table's number."""
        return f"Table {self.number}. {self.caption}" if self.number else self.caption


@dataclass(frozen=True)
class Reference:
    """Numbers from elsewhere, such as a paper, to print below ours.

    - `values`: a frame with the keys of the table's rows and the numbers to compare with;
    - `doubts`: what is known to be wrong with single numbers, by key;
    - `common`: doubts that `notes` explains once instead of number by number;
    - `notes`: further notes, from the compared rows.
    """

    values: pd.DataFrame
    doubts: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    common: tuple[str, ...] = ()
    notes: Callable[[pd.DataFrame], list[str]] = lambda rows: []
