"""Table C1: the Feynman equations of the benchmark."""

import pandas as pd

from kandle.problems import FEYNMAN
from kandle.report.tables._table import Cell, Table


def formula_table() -> Table:
    """Index and formula of every equation; the formulas are LaTeX in every format."""
    formulas = {name: problem.latex for name, problem in FEYNMAN.items()}
    blocks = tuple(((Cell(n), Cell(f"${f}$", latex=f"${f}$")),) for n, f in formulas.items())
    tidy = pd.DataFrame({"problem": list(formulas), "formula": list(formulas.values())})
    caption = "Dimensionless equations of the Feynman dataset"
    header = (Cell("Index"), Cell("Formula"))
    return Table(caption, header, blocks, tidy, label="tab:C1", number="C1")
