"""Table C1: the Feynman equations of the benchmark."""

import re

import pandas as pd

from kandle.paper._design import FEYNMAN
from kandle.problems import PROBLEMS
from kandle.report.tables import Cell, Table


def formula_table() -> Table:
    """Index and formula of every equation."""
    formulas = {name: PROBLEMS[name].latex for name in FEYNMAN}  # type: ignore[attr-defined]
    blocks = tuple(((Cell(n), Cell(readable(f), latex=f"${f}$")),) for n, f in formulas.items())
    tidy = pd.DataFrame({"problem": list(formulas), "formula": list(formulas.values())})
    caption = "Dimensionless equations of the Feynman dataset"
    header = (Cell("Index"), Cell("Formula"))
    return Table(caption, header, blocks, tidy, label="tab:C1", number="C1")


_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def readable(formula: str) -> str:
    """A formula of the table as plain text.

    >>> readable(r"f_{13}(x_1, x_2) = \\frac{x_1^2}{2 \\pi} \\sqrt{x_2}")
    'f₁₃(x₁, x₂) = (x₁²)/(2 π) √(x₂)'
    """
    text = formula.replace(r"\left", "").replace(r"\right", "")
    nested = r"((?:[^{}]|\{[^{}]*\})*)"  # may contain one level of braces
    text = re.sub(rf"\\frac\{{{nested}\}}\{{{nested}\}}", r"(\1)/(\2)", text)
    text = re.sub(rf"\\sqrt\{{{nested}\}}", r"√(\1)", text)
    text = re.sub(r"_\{?(\d+)\}?", lambda found: found[1].translate(_SUBSCRIPTS), text)
    text = text.replace("^2", "²").replace(r"^{-1/2}", "^(-1/2)").replace(r"\pi", "π")
    return re.sub(r"\\([a-z]+)", r"\1", text)
