"""What a table is, before it is written in some format."""

from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True)
class Cell:
    """One entry: its text, whether it is the best, and its LaTeX where that is more than the
    text's."""

    text: str = ""
    bold: bool = False
    latex: str | None = None


@dataclass(frozen=True)
class Table:
    """A caption, headers, blocks of rows with a rule between them, notes, and the same as a frame.

    `number` is the paper's (`1`, `C1`), where it is one of the paper's tables; LaTeX counts itself.
    `spans` is a first header line of (label, columns) pairs, where columns belong together. `tidy`
    holds one observation a row: it is what CSV is made of.
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
