"""Tables 1 and 2: on how many architectures each scheme beats the baseline."""

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from kandle._errors import UserError
from kandle.analysis import (
    ARCHITECTURE,
    METRICS,
    confidence,
    describe,
    favourable_region,
    finished,
    fixed_exponents,
    power_law,
    representatives,
    trained_alike,
    win_rates,
)
from kandle.problems import PDES
from kandle.report import _names
from kandle.report.tables import _paper
from kandle.report.tables._made_of import SHORT, Design, made_of, on_shortened, shortened
from kandle.report.tables._table import Cell, Table

TIDY = ("scheme", "metric", "problem", "percent", "wins", "of", "low", "high")
_TESTS = ("sign", "rank", "direction")
_SEEDS = {
    "baseline": 5,
    "lecun-numerical": 5,
    "lecun-normalized": 5,
    "glorot": 5,
    "power-law": 3,
}
_EXPONENTS = tuple(i / 4 for i in range(9))
_PAIRS = tuple(itertools.product(_EXPONENTS, _EXPONENTS))


def _shapes(grids: tuple[int, ...]) -> tuple[tuple[int, int, int], ...]:
    return tuple(itertools.product(grids, (2, 4, 8, 16, 32, 64), (1, 2, 3, 4)))


_FUNCTIONS, _PDES = ("f1", "f2", "f3", "f4", "f5"), ("allen-cahn", "burgers", "helmholtz")
DESIGNS = {
    "1": Design(_FUNCTIONS, _shapes((5, 10, 20, 40)), _SEEDS, 2000, _PAIRS),
    "2": Design(_PDES, _shapes((5, 10, 20)), _SEEDS, 5000, _PAIRS),
}
_STUDIES = {"1": "functions", "2": "pdes"}
_WHAT = {"1": "function fitting", "2": "forward PDEs"}
_MARKS = (
    "[ ]: 95% bootstrap interval over architectures. +, − : better, worse than the baseline in a "
    "paired test across architectures (signed-rank on ratios; sign test for both), one, two or "
    "three marks for p < 0.05, 0.01, 0.001, each test on its own."
)


def win_table(
    runs: pd.DataFrame,
    name: str,
    *,
    pair: tuple[float, float] | None = None,
    paper: bool = False,
    tests: bool = False,
    study: str = "",
) -> Table:
    """Table 1 or 2 from the runs of its study, or of any `study` that has a baseline.

    With `pair`, the power law is represented by that one (α, β) instead of each architecture's
    best. With `paper`, the printed figures stand below ours with the difference. With `tests`, the
    tidy frame has the p values of the sign test (`sign`) and the signed-rank test (`rank`) too, and
    which way the test points that the marks are of (`direction`).
    """
    choice = trained_alike(runs)
    used, design = choice.runs, DESIGNS[name] if study in ("", _STUDIES[name]) else None
    if pair is not None:
        used, design = _with_pair(used, pair), design and replace(design, pairs=(pair,))
    rates = win_rates(representatives(used), pair)
    if rates.empty:
        raise UserError(
            f"Table {name} compares schemes with the baseline on the same architectures, and the "
            "runs hold no such comparison."
        )
    rows, about_paper = _compared(_in_order(rates), name, pair) if paper else (_in_order(rates), [])
    short = shortened(used)
    notes = (
        *made_of(used, design, choice.left_out),
        *on_shortened(short, _names.problem),
        _MARKS,
        *_on_normalized(used),
        *([] if pair else _on_region(used)),
        *about_paper,
    )
    problems = list(dict.fromkeys(rows["problem"]))
    titles = (Cell(_names.problem(p) + (SHORT if p in short else "")) for p in problems)
    header = (Cell("Initialization"), Cell("Metric"), *titles)
    of = len(used.drop_duplicates(list(ARCHITECTURE)))
    schemes = list(dict.fromkeys(rows["scheme"]))
    blocks = tuple(_block(rows, s, problems, of, pair, paper) for s in schemes)
    tidy = rows if tests else rows.drop(columns=list(_TESTS))
    share = "Share of architectures that beat the baseline"
    if design is None:
        caption = f"Win rates. {share}, study {study}"
        return Table(caption, header, blocks, tidy, notes, label="tab:wins")
    caption = f"{share}, {_WHAT[name]}"
    return Table(caption, header, blocks, tidy, notes, label=f"tab:{name}", number=name)


def _with_pair(runs: pd.DataFrame, pair: tuple[float, float]) -> pd.DataFrame:
    """The runs with the power law at one pair only; without a finished run of it, an error."""
    power = runs[power_law(runs)]
    if power.empty:
        raise UserError(
            "'--pair' chooses exponents of the power law, and the runs hold none of it."
        )
    kept = fixed_exponents(runs, pair)
    if finished(kept[power_law(kept)]).empty:
        tried = power[["alpha", "beta"]].drop_duplicates().to_numpy()
        known = ", ".join(f"{a:g},{b:g}" for a, b in tried[:81])
        raise UserError(f"No finished power-law run has exponents {_pair(pair)}. Held: {known}.")
    return kept


def _in_order(rates: pd.DataFrame) -> pd.DataFrame:
    """The rates sorted by scheme, metric and problem as the paper has them."""
    problems = _names.ordered(rates["problem"].tolist())
    schemes = _names.ordered_schemes(rates["scheme"].tolist())
    order = rates.assign(
        _scheme=rates["scheme"].map(schemes.index),
        _metric=rates["metric"].map(METRICS.index),
        _problem=rates["problem"].map(problems.index),
    ).sort_values(["_scheme", "_metric", "_problem"], ignore_index=True)
    return order[[*TIDY, *_TESTS]].round({"low": 2, "high": 2})


def _compared(
    rows: pd.DataFrame, name: str, pair: tuple[float, float] | None
) -> tuple[pd.DataFrame, list[str]]:
    """The rows with the columns `paper`, `difference` and `note`, and notes on printed figures."""
    keys = ["scheme", "metric", "problem"]
    rows = rows.merge(_paper.win_rates(name, pair), on=keys, how="left")
    rows["difference"] = (rows["percent"] - rows["paper"]).round(2)
    wrong = _paper.MISPRINTS[name]
    rows["note"] = [wrong.get(key, "") for key in rows[keys].itertuples(index=False, name=None)]
    shown = set(rows.loc[rows["note"].ne(""), keys].itertuples(index=False, name=None))
    notes = [
        f"† {_names.problem(p)}, {_names.scheme(s)}, {_names.METRICS[m].lower()}: {text}."
        for (s, m, p), text in wrong.items()
        if (s, m, p) in shown
    ]
    if name == "2" and rows["paper"].notna().any():
        never = rows["scheme"].eq("lecun-normalized") & rows["paper"].notna()
        rows.loc[never, "note"] = "not a result of this scheme: baseline models were trained"
        notes += [*([_paper.NEVER_RUN] if never.any() else []), _paper.COUNTS]
        if pair == _paper.PAIR and "burgers" in set(rows["problem"]):
            notes.append(_paper.PAIR_COUNT)
    return rows, notes


def _block(
    rows: pd.DataFrame,
    scheme: str,
    problems: list[str],
    of: int,
    pair: tuple[float, float] | None,
    paper: bool,
) -> tuple[tuple[Cell, ...], ...]:
    """The lines of one scheme: for each metric the share, its interval and, if asked, the paper's.

    Where the share is of fewer than the `of` architectures of the runs, it says of how many.
    """
    best = rows.groupby(["metric", "problem"])["percent"].max().to_dict()
    found: dict[tuple[str, str], Mapping[Any, Any]] = {
        (r["metric"], r["problem"]): r for r in rows[rows["scheme"].eq(scheme)].to_dict("records")
    }
    labels = [_names.scheme(scheme)]
    labels += [f"({_pair(pair)})"] if pair and scheme.startswith("power-law") else []
    lines: list[tuple[Cell, ...]] = []
    for metric in METRICS:
        columns = [_entry(found.get((metric, p)), best[metric, p], of, paper) for p in problems]
        beside = (_names.METRICS[metric], "", "  paper", "  diff.")
        for i, cells in enumerate(zip(*columns, strict=True)):
            lines.append((Cell(labels.pop(0) if labels else ""), Cell(beside[i]), *cells))
    return tuple(lines)


def _entry(row: Mapping[Any, Any] | None, best: float, of: int, paper: bool) -> tuple[Cell, ...]:
    if row is None:
        return (Cell("no runs"), Cell(), *((Cell(), Cell()) if paper else ()))
    fewer = f" of {row['of']}" if row["of"] < of else ""
    share = Cell(f"{row['percent']:.2f}%{fewer}", row["percent"] == best)
    spread = Cell(f"[{row['low']:.0f}, {row['high']:.0f}] {_marks(row)}".rstrip())
    if not paper:
        return share, spread
    if pd.isna(row["paper"]):
        return share, spread, Cell("–"), Cell()
    printed = Cell(f"{row['paper']:.2f}%{'†' if row['note'] else ''}")
    return share, spread, printed, Cell(f"{row['difference']:+.2f}".replace("-", "−"))


def _marks(row: Mapping[Any, Any]) -> str:
    """Which way the paired test points, once, twice or three times as it is sure."""
    p = row["sign"] if pd.isna(row["rank"]) else row["rank"]
    towards = {1: "+", -1: "−"}.get(row["direction"], "")
    return towards * sum(p < at for at in (0.05, 0.01, 0.001))


def _on_normalized(runs: pd.DataFrame) -> list[str]:
    """Whether LeCun–normalized on PDEs was run, or is a copy of the baseline as in the paper."""
    runs = runs[runs["problem"].isin(list(PDES))]
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


def _on_region(runs: pd.DataFrame) -> list[str]:
    """The favourable exponents of the power law, of each of its variants if there are several."""
    notes = []
    searched = [s for s in dict.fromkeys(runs["scheme"]) if s.startswith("power-law")]
    for scheme in searched:
        own = runs[runs["scheme"].eq(scheme)]
        if len(own.drop_duplicates(["alpha", "beta"])) < 2:
            continue
        region = favourable_region(own)
        leader = region.iloc[0]
        whose = "" if searched == ["power-law"] else f" of {_names.scheme(scheme)}"
        notes.append(
            f"Favourable exponents{whose} (loss on the median setting at most twice that of the "
            f"best single pair, {leader['alpha']:g}, {leader['beta']:g}; {confidence(region)}): "
            f"{describe(region)}."
        )
    return notes


def _pair(pair: tuple[float, float]) -> str:
    return f"{pair[0]:g}, {pair[1]:g}"
