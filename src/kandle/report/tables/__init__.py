"""Tables of the study: built from frames as plain data, then written in one of four formats."""

from collections.abc import Iterable
from pathlib import Path

from kandle._errors import UserError, unknown
from kandle.analysis import variants_apart
from kandle.report._load import open_store, restrict, study_runs
from kandle.report._names import BUILT_IN, POWER_LAW
from kandle.report.tables._feynman import feynman_table
from kandle.report.tables._formulas import formula_table
from kandle.report.tables._region import region_table
from kandle.report.tables._render import FORMATS, render
from kandle.report.tables._table import Cell, Table
from kandle.report.tables._wins import win_table

STUDIES = {"1": "functions", "2": "pdes", "3": "feynman", "4": "feynman"}
NAMES = (*STUDIES, "C1", "region")

__all__ = [
    "FORMATS",
    "NAMES",
    "STUDIES",
    "Cell",
    "Table",
    "build",
    "feynman_table",
    "formula_table",
    "region_table",
    "render",
    "win_table",
]


def build(
    name: str,
    store: str | Path | None,
    *,
    study: str | None = None,
    pair: tuple[float, float] | None = None,
    paper: bool = False,
    tests: bool = False,
    where: Iterable[str] = (),
) -> Table:
    """Table `name` (1, 2, 3, 4, C1 or region) from a store; C1 needs none."""
    if name not in NAMES:
        raise unknown("table", name, NAMES)
    if name == "C1":
        return formula_table()
    if store is None:
        raise UserError(f"Table {name} is made from runs: give it a store with --store.")
    source = study or STUDIES.get(name, "functions")
    with open_store(store) as opened:
        runs = restrict(study_runs(opened, source), where)
    if name == "region":
        return region_table(runs, source)
    if source not in BUILT_IN:
        runs = variants_apart(runs)
    if name in ("1", "2"):
        return win_table(runs, name, pair=pair, paper=paper, tests=tests, study=source)
    return feynman_table(runs, name, pair=pair or POWER_LAW, paper=paper, study=source)
