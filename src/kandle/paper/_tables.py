"""The paper's Tables 1-4 and C1, and the favourable region, from the runs of a store."""

import functools
import itertools
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from kandle._errors import UserError, unknown
from kandle.analysis import variants_apart
from kandle.paper import _printed
from kandle.paper._design import (
    EXPONENTS,
    FEYNMAN,
    FUNCTIONS,
    LARGE,
    PDES,
    POWER_LAW,
    SMALL,
    STEPS,
    STUDIES,
)
from kandle.paper._formulas import formula_table
from kandle.report import tables
from kandle.report._load import open_store, restrict, study_runs

TABLES = {"1": "functions", "2": "pdes", "3": "feynman", "4": "feynman", "C1": None, "region": None}
"""The study that each table reads by default."""
_SIZES = {"3": ("small", SMALL), "4": ("large", LARGE)}
_SEARCH_SEEDS = {
    "baseline": 5,
    "lecun-numerical": 5,
    "lecun-normalized": 5,
    "glorot": 5,
    "power-law": 3,
}


def _searched(problems: tuple[str, ...], grids: tuple[int, ...], steps: int) -> tables.Design:
    shapes = tuple(itertools.product(grids, (2, 4, 8, 16, 32, 64), (1, 2, 3, 4)))
    pairs = tuple(itertools.product(EXPONENTS, EXPONENTS))
    return tables.Design(problems, shapes, _SEARCH_SEEDS, steps, pairs)


DESIGNS = {
    "1": _searched(FUNCTIONS, (5, 10, 20, 40), STEPS["function"]),
    "2": _searched(PDES, (5, 10, 20), STEPS["pde"]),
}
_TOPICS = {"1": "function fitting", "2": "forward PDEs"}


def table(
    name: str,
    store: str | Path | None,
    *,
    study: str | None = None,
    pair: tuple[float, float] | None = None,
    paper: bool = False,
    tests: bool = False,
    where: Iterable[str] = (),
) -> tables.Table:
    """Table `name` (1, 2, 3, 4, C1 or region) from a store; C1 needs none.

    With `study`, the same kind of table is made from another study.
    """
    if name not in TABLES:
        raise unknown("table", name, [*TABLES, "compare"])
    if name == "C1":
        return formula_table()
    if store is None:
        raise UserError(f"Table {name} is made from runs: pass a store with --store.")
    source = study or TABLES[name] or "functions"
    with open_store(store) as opened:
        runs = restrict(study_runs(opened, source), where)
    if name == "region":
        return tables.region_table(runs, source)
    if source not in STUDIES:
        runs = variants_apart(runs)
    if name in DESIGNS:
        return win_table(runs, name, pair=pair, paper=paper, tests=tests, study=source)
    return feynman_table(runs, name, pair=pair or POWER_LAW, paper=paper, study=source)


def win_table(
    runs: pd.DataFrame,
    name: str,
    *,
    pair: tuple[float, float] | None = None,
    paper: bool = False,
    tests: bool = False,
    study: str = "",
) -> tables.Table:
    """Table 1 or 2, from the runs of its study or of any `study` that has a baseline.

    With `paper`, the printed numbers stand below ours. See `kandle.report.tables.win_table`.
    """
    build = functools.partial(
        tables.win_table,
        runs,
        pair=pair,
        tests=tests,
        study=study,
        reference=_printed.win_rates(name, pair) if paper else None,
        remarks=_on_normalized,
    )
    if study not in ("", TABLES[name]):
        return build()
    caption = f"{tables.SHARE}, {_TOPICS[name]}"
    return build(
        design=DESIGNS[name],
        fixed=(_printed.PAIR, POWER_LAW),
        diverged_as_loss=False,
        caption=caption,
        label=f"tab:{name}",
        number=name,
    )


def feynman_table(
    runs: pd.DataFrame,
    name: str,
    *,
    pair: tuple[float, float] = POWER_LAW,
    paper: bool = False,
    study: str = "",
) -> tables.Table:
    """Table 3 (small) or 4 (large): medians on the Feynman equations, or on any `study`."""
    size, shape = _SIZES[name]
    own = study in ("", "feynman")
    seeds = {"baseline": 5, "glorot": 5, "power-law": 5}
    return tables.median_table(
        runs,
        shape,
        size=size,
        pair=pair,
        study="" if own else study,
        design=tables.Design(FEYNMAN, (shape,), seeds, STEPS["function"], (pair,)) if own else None,
        reference=_printed.feynman(name) if paper else None,
        coarse=("baseline", "glorot"),
        number=name if own else "",
    )


def _on_normalized(runs: pd.DataFrame) -> list[str]:
    """Whether LeCun–normalized on PDEs was run, or is a copy of the baseline as in the paper."""
    runs = runs[runs["problem"].isin(PDES)]
    if "lecun-normalized" not in set(runs["scheme"]):
        return []
    keys = ["problem", "G", "width", "depth", "seed"]
    own = runs[runs["scheme"].eq("lecun-normalized")].drop_duplicates(keys)
    base = runs[runs["scheme"].eq("baseline")].drop_duplicates(keys)
    both = own.merge(base, on=keys, suffixes=("", "_baseline"))
    same = int(both["loss"].eq(both["loss_baseline"]).sum())
    if len(both) and 2 * same > len(both):
        return [
            f"LeCun–normalized: {same:,} of its {len(both):,} rows equal the baseline's to the "
            "last digit, as in the published results: the scheme itself was not run."
        ]
    return ["LeCun–normalized on PDEs is a new result: the paper's figures are not of that scheme."]
