"""Tables 1 and 2: on how many architectures each scheme beats the baseline."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from kandle._errors import UserError
from kandle.analysis import (
    METRICS,
    describe,
    favourable_region,
    fixed_exponents,
    representatives,
    trained_alike,
    win_rates,
)
from kandle.report import _names
from kandle.report.tables import _paper
from kandle.report.tables._made_of import Design, made_of
from kandle.report.tables._table import Cell, Table

TIDY = ("scheme", "metric", "problem", "percent", "wins", "of", "low", "high")
_SEEDS = {
    "baseline": 5,
    "lecun-numerical": 5,
    "lecun-normalized": 5,
    "glorot": 5,
    "power-law": 3,
}
DESIGNS = {
    "1": Design(("f1", "f2", "f3", "f4", "f5"), 96, _SEEDS, 2000, 81),
    "2": Design(("allen-cahn", "burgers", "helmholtz"), 72, _SEEDS, 5000, 81),
}
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
    """Table 1 or 2 from the runs of its study, or of any study that has a baseline.

    With `pair`, the power law is represented by that one (α, β) instead of each architecture's
    best. With `paper`, the printed figures stand below ours with the difference. With `tests`, the
    tidy frame has the p values of the sign test (`sign`) and the signed-rank test (`rank`) too.
    """
    choice = trained_alike(runs)
    cells = representatives(choice.runs)
    if pair is not None and fixed_exponents(cells, pair)["scheme"].ne("power-law").all():
        tried = choice.runs[choice.runs["scheme"].eq("power-law")][["alpha", "beta"]]
        known = ", ".join(f"{a:g},{b:g}" for a, b in tried.drop_duplicates().to_numpy()[:81])
        raise UserError(f"No finished power-law run has exponents {_pair(pair)}. Held: {known}.")
    rates = win_rates(cells, pair)
    if rates.empty:
        raise UserError(
            f"Table {name} compares schemes with the baseline on the same architectures, and the "
            "runs hold no such comparison."
        )
    rows, about_paper = _compared(_in_order(rates), name, pair) if paper else (_in_order(rates), [])
    own = study in ("", "functions", "pdes")
    notes = (
        *made_of(choice.runs, DESIGNS[name] if own else None, choice.left_out),
        _MARKS,
        *_on_normalized(choice.runs, name),
        *([] if pair else _on_region(choice.runs)),
        *about_paper,
    )
    problems = list(dict.fromkeys(rows["problem"]))
    header = (Cell("Initialization"), Cell("Metric"), *(Cell(_names.problem(p)) for p in problems))
    blocks = tuple(_block(rows, s, problems, pair, paper) for s in dict.fromkeys(rows["scheme"]))
    title, what = (f"Table {name}", _WHAT[name]) if own else ("Win rates", f"study {study}")
    caption = f"{title}. Share of architectures that beat the baseline, {what}"
    tidy = rows if tests else rows.drop(columns=["sign", "rank"])
    return Table(caption, header, blocks, tidy, notes, label=f"tab:{name}")


def _in_order(rates: pd.DataFrame) -> pd.DataFrame:
    """The rates sorted by scheme, metric and problem as the paper has them."""
    problems = _names.ordered(rates["problem"].tolist())
    schemes = _names.ordered_schemes(rates["scheme"].tolist())
    order = rates.assign(
        _scheme=rates["scheme"].map(schemes.index),
        _metric=rates["metric"].map(METRICS.index),
        _problem=rates["problem"].map(problems.index),
    ).sort_values(["_scheme", "_metric", "_problem"], ignore_index=True)
    return order[[*TIDY, "sign", "rank"]].round({"low": 2, "high": 2})


def _compared(
    rows: pd.DataFrame, name: str, pair: tuple[float, float] | None
) -> tuple[pd.DataFrame, list[str]]:
    """The rows with the columns `paper`, `difference` and `note`, and notes on printed figures."""
    keys = ["scheme", "metric", "problem"]
    rows = rows.merge(_paper.win_rates(name, pair), on=keys, how="left")
    rows["difference"] = (rows["percent"] - rows["paper"]).round(2)
    wrong = _paper.MISPRINTS[name]
    rows["note"] = [wrong.get(key, "") for key in rows[keys].itertuples(index=False, name=None)]
    notes = [
        f"† {_names.problem(p)}, {_names.scheme(s)}, {_names.METRICS[m].lower()}: {text}."
        for (s, m, p), text in wrong.items()
    ]
    if name == "2":
        never = rows["scheme"].eq("lecun-normalized")
        rows.loc[never, "note"] = "not a result of this scheme: baseline models were trained"
        notes += [_paper.NEVER_RUN, _paper.COUNTS]
        if pair == _paper.PAIR:
            notes.append(_paper.PAIR_COUNT)
    return rows, notes


def _block(
    rows: pd.DataFrame,
    scheme: str,
    problems: list[str],
    pair: tuple[float, float] | None,
    paper: bool,
) -> tuple[tuple[Cell, ...], ...]:
    """The lines of one scheme: for each metric the share, its interval and, if asked, the
    paper's."""
    best = rows.groupby(["metric", "problem"])["percent"].max().to_dict()
    of = rows.groupby("problem")["of"].max().to_dict()
    found: dict[tuple[str, str], Mapping[Any, Any]] = {
        (r["metric"], r["problem"]): r for r in rows[rows["scheme"].eq(scheme)].to_dict("records")
    }
    labels = [_names.scheme(scheme)]
    labels += [f"({_pair(pair)})"] if pair and scheme == "power-law" else []
    lines: list[tuple[Cell, ...]] = []
    for metric in METRICS:
        columns = [_entry(found.get((metric, p)), best[metric, p], of[p], paper) for p in problems]
        beside = (_names.METRICS[metric], "", "  paper", "  diff.")
        for i, cells in enumerate(zip(*columns, strict=True)):
            lines.append((Cell(labels.pop(0) if labels else ""), Cell(beside[i]), *cells))
    return tuple(lines)


def _entry(row: Mapping[Any, Any] | None, best: float, of: int, paper: bool) -> tuple[Cell, ...]:
    if row is None:
        return (Cell("no runs"), Cell(), *((Cell(), Cell()) if paper else ()))
    fewer = f" of {row['of']}" if row["of"] != of else ""
    share = Cell(f"{row['percent']:.2f}%{fewer}", row["percent"] == best)
    spread = Cell(f"[{row['low']:.0f}, {row['high']:.0f}] {_marks(row)}".rstrip())
    if not paper:
        return share, spread
    if pd.isna(row["paper"]):
        return share, spread, Cell("–"), Cell()
    printed = Cell(f"{row['paper']:.2f}%{'†' if row['note'] else ''}")
    return share, spread, printed, Cell(f"{row['difference']:+.2f}".replace("-", "−"))


def _marks(row: Mapping[Any, Any]) -> str:
    p = row["sign"] if pd.isna(row["rank"]) else row["rank"]
    return ("+" if 2 * row["wins"] > row["of"] else "−") * sum(p < at for at in (0.05, 0.01, 0.001))


def _on_normalized(runs: pd.DataFrame, name: str) -> list[str]:
    """Whether LeCun–normalized on PDEs was run, or is a copy of the baseline as in the paper."""
    if name != "2" or "lecun-normalized" not in set(runs["scheme"]):
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
    power = runs[runs["scheme"].eq("power-law")]
    if len(power.drop_duplicates(["alpha", "beta"])) < 2:
        return []
    region = favourable_region(power)
    leader = region.iloc[0]
    return [
        f"Favourable exponents (loss on the median setting at most twice that of the best single "
        f"pair, {leader['alpha']:g}, {leader['beta']:g}): {describe(region)}."
    ]


def _pair(pair: tuple[float, float]) -> str:
    return f"{pair[0]:g}, {pair[1]:g}"
