"""Win rates: on how many architectures each scheme beats the baseline."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from kandle._errors import UserError
from kandle.analysis import (
    ARCHITECTURE,
    METRICS,
    confidence,
    describe,
    distinct,
    favourable_region,
    finished,
    fixed_exponents,
    held_out,
    power_law,
    representatives,
    trained_alike,
    win_rates,
)
from kandle.report import _names
from kandle.report.tables._made_of import SHORT, Design, made_of, on_shortened, shortened
from kandle.report.tables._table import Cell, Reference, Table

TIDY = ("scheme", "metric", "problem", "percent", "wins", "of", "low", "high")
SHARE = "Share of architectures that beat the baseline"
_NO_NUMBER = "–"
PARTIAL = "‖"
"""Marks a share of the power law on a problem whose search over exponents is incomplete."""
_TESTS = ("sign", "rank", "direction", "holm")
_MARKS = (
    "[ ]: 95% Wilson interval over architectures. +, − : better, worse than the baseline in a "
    "paired test across architectures (signed-rank on ratios; sign test for both), one, two or "
    "three marks for p < 0.05, 0.01, 0.001 after Holm's adjustment for all entries of the table."
)


def win_table(
    runs: pd.DataFrame,
    *,
    study: str = "",
    pair: tuple[float, float] | None = None,
    fixed: Sequence[tuple[float, float]] = (),
    diverged_as_loss: bool = True,
    tests: bool = False,
    design: Design | None = None,
    reference: Reference | None = None,
    caption: str = "",
    label: str = "tab:wins",
    number: str = "",
    remarks: Callable[[pd.DataFrame], list[str]] = lambda runs: [],
) -> Table:
    """On how many architectures each scheme beats the baseline, from the runs of any study.

    Args:
        runs: exported rows.
        study: the name of their study, for the caption.
        pair: represent the power law by this one (α, β) instead of the best of each architecture.
        fixed: pairs that get rows of their own, beside the best of each architecture.
        diverged_as_loss: whether a diverged run counts as a loss; if not, it is left out, as in the
            paper, and the schemes are compared where both have a finished run.
        tests: add the p values of the sign test (`sign`) and the signed-rank test (`rank`) to the
            tidy frame, the direction of the test that the marks show (`direction`), and its p value
            adjusted by Holm's method (`holm`).
        design: the planned runs; a table made from fewer says so.
        reference: numbers to print below ours, with the difference.
        caption, label, number: of the table; by default those of a user's study.
        remarks: further notes, from the runs that entered the table.
    """
    choice = trained_alike(runs)
    used = choice.runs
    if pair is not None:
        used, design = _with_pair(used, pair), design and replace(design, pairs=(pair,))
    cells = representatives(used, diverged_as_inf=diverged_as_loss)
    added, about_choice = _without_selection(used, cells, fixed) if pair is None else (None, [])
    rates = win_rates(cells if added is None else pd.concat([cells, added]), pair)
    if rates.empty:
        raise UserError(
            "A win rate compares schemes with the baseline on the same architectures, and these "
            "runs allow no such comparison."
        )
    rows, about_reference = _in_order(rates), []
    if reference is not None:
        rows, about_reference = _compared(rows, reference)
    short = shortened(used)
    notes = (
        *made_of(used, design, choice.left_out, choice.kept),
        *on_shortened(short, _names.problem),
        *_on_divergence(used, diverged_as_loss),
        _MARKS,
        *about_choice,
        *remarks(used),
        *([] if pair else _on_region(used)),
        *about_reference,
    )
    partly, about_search = _searched_in_part(used) if pair is None else (set(), [])
    notes = (*notes, *about_search)
    problems = list(dict.fromkeys(rows["problem"]))
    titles = (Cell(_names.problem(p) + (SHORT if p in short else "")) for p in problems)
    header = (Cell("Initialization"), Cell("Metric"), *titles)
    of = len(used.drop_duplicates(list(ARCHITECTURE)))
    schemes = list(dict.fromkeys(rows["scheme"]))
    blocks = tuple(
        _block(rows, s, problems, of, pair, reference is not None, partly if _searched(s) else ())
        for s in schemes
    )
    tidy = rows if tests else rows.drop(columns=list(_TESTS))
    caption = caption or f"Win rates. {SHARE}, study {study}"
    return Table(caption, header, blocks, tidy, notes, label=label, number=number)


def _without_selection(
    runs: pd.DataFrame, cells: pd.DataFrame, fixed: Sequence[tuple[float, float]]
) -> tuple[pd.DataFrame | None, list[str]]:
    """Further rows for a power law whose exponents were not chosen on the runs that judge it."""
    power = cells[cells["scheme"].eq("power-law")]
    if len(power.drop_duplicates(["alpha", "beta"])) < 2:
        return None, []
    parts, notes = [], []
    for alpha, beta in fixed:
        own = power[power["alpha"].eq(alpha) & power["beta"].eq(beta)]
        if not own.empty:
            parts.append(own.assign(scheme=f"power-law({alpha:g}, {beta:g})"))
    pairs = len(power.drop_duplicates(["alpha", "beta"]))
    notes.append(
        f"Power law: the best of {pairs} exponent pairs on each architecture, chosen on the same "
        "runs that judge it (the paper's rule), which favours it."
    )
    if parts:
        notes.append("Power law (α, β): one pair for all architectures.")
    if (found := held_out(runs)) is not None:
        name = f"power-law(from {found.chosen_on})"
        parts.append(found.cells.assign(scheme=name))
        how = (
            "for each seed, the pair with the lowest loss on the other seeds is judged by the run "
            "of that seed"
            if found.chosen_on == "other seeds"
            else "the pair with the lowest median regret on the other problems is judged here"
        )
        notes.append(f"Power law (from {found.chosen_on}): chosen out of sample: {how}.")
    return (pd.concat(parts) if parts else None), notes


def _searched(scheme: str) -> bool:
    """Whether the exponents of a row were chosen among many: not if they are part of its name."""
    return scheme == "power-law" or scheme.startswith("power-law(from")


def _searched_in_part(runs: pd.DataFrame) -> tuple[set[str], list[str]]:
    """Problems with architectures on which fewer pairs were trained than elsewhere, and a note."""
    keys = ["problem", *ARCHITECTURE]
    power = runs[runs["scheme"].eq("power-law")]
    pairs = power.drop_duplicates([*keys, "alpha", "beta"]).groupby(keys).size()
    if pairs.empty or pairs.min() == pairs.max():
        return set(), []
    fewer = pairs[pairs < pairs.max()].groupby("problem").agg(["size", "min", "max"])
    parts = []
    for problem in _names.ordered([str(p) for p in fewer.index]):
        count, low, high = fewer.loc[problem]
        span = f"{low}" if low == high else f"{low} to {high}"
        parts.append(f"{_names.problem(problem)} {span} on {count}")
    note = (
        f"{PARTIAL} Search incomplete, so the best pair may be missing: {', '.join(parts)} "
        f"architectures, where others have {pairs.max()} pairs."
    )
    return {str(p) for p in fewer.index}, [note]


def _on_divergence(runs: pd.DataFrame, as_loss: bool) -> list[str]:
    """How many runs of each scheme diverged, and how they count."""
    trained = distinct(runs)
    lost = trained[trained["status"].eq("diverged")].groupby("scheme", sort=False).size()
    if lost.empty:
        return []
    whole = trained.groupby("scheme", sort=False).size().to_dict()
    counts = ", ".join(f"{_names.scheme(str(s))} {n:,} of {whole[s]:,}" for s, n in lost.items())
    rule = (
        "they count as losses"
        if as_loss
        else "they are left out (the paper's rule), which favours schemes that diverge"
    )
    return [f"Diverged runs: {counts}; {rule}."]


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
        raise UserError(
            f"No finished power-law run has exponents {_pair(pair)}. Available: {known}."
        )
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


def _compared(rows: pd.DataFrame, reference: Reference) -> tuple[pd.DataFrame, list[str]]:
    """The rows with the columns `paper`, `difference` and `note`, and notes on the reference."""
    keys = ["scheme", "metric", "problem"]
    rows = rows.merge(reference.values, on=keys, how="left")
    rows["difference"] = (rows["percent"] - rows["paper"]).round(2)
    shown = [*rows.loc[rows["paper"].notna(), keys].itertuples(index=False, name=None)]
    doubts = {key: text for key, text in reference.doubts.items() if key in shown}
    rows["note"] = [doubts.get(key, "") for key in rows[keys].itertuples(index=False, name=None)]
    notes = [
        f"† {_names.problem(p)}, {_names.scheme(s)}, {_names.METRICS[m].lower()}: {text}."
        for (s, m, p), text in doubts.items()
        if text not in reference.common
    ]
    return rows, [*notes, *reference.notes(rows)]


def _block(
    rows: pd.DataFrame,
    scheme: str,
    problems: list[str],
    of: int,
    pair: tuple[float, float] | None,
    paper: bool,
    partly: Collection[str],
) -> tuple[tuple[Cell, ...], ...]:
    """The lines of one scheme: for each metric the share, its interval and, if asked, the paper's.

    Where the share is of fewer than the `of` architectures of the runs, it says of how many.
    Problems in `partly`, whose search over exponents is incomplete, are marked.
    """
    best = rows.groupby(["metric", "problem"])["percent"].max().to_dict()
    found: dict[tuple[str, str], Mapping[Any, Any]] = {
        (r["metric"], r["problem"]): r for r in rows[rows["scheme"].eq(scheme)].to_dict("records")
    }
    # The variants of the power law have long names, which continue on the next line.
    name, opening, rest = _names.scheme(scheme).partition(" (")
    split = scheme.startswith("power-law(") and opening
    labels = [name, f"({rest}"] if split else [_names.scheme(scheme)]
    labels += [f"({_pair(pair)})"] if pair and scheme.startswith("power-law") else []
    lines: list[tuple[Cell, ...]] = []
    for metric in METRICS:
        columns = [
            _entry(found.get((metric, p)), best[metric, p], of, paper, PARTIAL * (p in partly))
            for p in problems
        ]
        beside = (_names.METRICS[metric], "", "  paper", "  diff.")
        printed = any(column[2].text not in ("", _NO_NUMBER) for column in columns if column[2:])
        for i, cells in enumerate(zip(*columns, strict=True)):
            if i >= 2 and not printed:
                break
            lines.append((Cell(labels.pop(0) if labels else ""), Cell(beside[i]), *cells))
    return tuple(lines)


def _entry(
    row: Mapping[Any, Any] | None, best: float, of: int, paper: bool, mark: str
) -> tuple[Cell, ...]:
    if row is None:
        return (Cell("no runs"), Cell(), *((Cell(), Cell()) if paper else ()))
    fewer = f" of {row['of']}" if row["of"] < of else ""
    share = Cell(f"{row['percent']:.2f}%{mark}{fewer}", row["percent"] == best)
    spread = Cell(f"[{row['low']:.0f}, {row['high']:.0f}] {_marks(row)}".rstrip())
    if not paper:
        return share, spread
    if pd.isna(row["paper"]):
        return share, spread, Cell(_NO_NUMBER), Cell()
    printed = Cell(f"{row['paper']:.2f}%{'†' if row['note'] else ''}")
    return share, spread, printed, Cell(f"{row['difference']:+.2f}".replace("-", "−"))


def _marks(row: Mapping[Any, Any]) -> str:
    """The direction of the paired test, with one to three marks for its adjusted p value."""
    towards = {1: "+", -1: "−"}.get(row["direction"], "")
    return towards * sum(row["holm"] < at for at in (0.05, 0.01, 0.001))


def _on_region(runs: pd.DataFrame) -> list[str]:
    """The favourable exponents of the power law, of each of its variants if there are several."""
    notes = []
    searched = list(dict.fromkeys(runs.loc[power_law(runs), "scheme"]))
    for scheme in searched:
        own = runs[runs["scheme"].eq(scheme)]
        if len(own.drop_duplicates(["alpha", "beta"])) < 2:
            continue
        region = favourable_region(own)
        leader = region.iloc[0]
        whose = "" if searched == ["power-law"] else f" of {_names.scheme(scheme)}"
        notes.append(
            f"Favourable exponents{whose} (loss on the median setting at most twice that of the "
            f"best single pair, ({leader['alpha']:g}, {leader['beta']:g}); {confidence(region)}): "
            f"{describe(region)}."
        )
    return notes


def _pair(pair: tuple[float, float]) -> str:
    return f"{pair[0]:g}, {pair[1]:g}"
