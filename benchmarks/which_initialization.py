"""Which initialization for which optimizer and basis: the tables of docs/which-initialization.md.

    python benchmarks/which_initialization.py            # rewrites the tables in the page
    python benchmarks/which_initialization.py --check    # exits with 1 if they are out of date

Reads the finished runs in studies/runs/. Every number is the loss of a scheme divided by that of
the power law with (α, β) = (0.25, 1.75): the ratio of geometric means over seeds, with the 95 %
interval of Welch's t on the logarithms. The last column is the geometric mean over problems.
"""

import argparse
import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "which-initialization.md"
RUNS = ROOT / "studies" / "runs"
REFERENCE = "power-law"
NAMES = {
    "adam": "Adam",
    "adamw": "AdamW",
    "muon": "Muon",
    "schedule_free_adamw": "schedule-free AdamW",
    "lbfgs": "L-BFGS",
}


def optimizer_name(run: pd.Series) -> str:
    """Optimizer, rate and schedule in one phrase."""
    name = NAMES.get(run["optimizer"], run["optimizer"])
    if run["optimizer"] == "lbfgs":  # has a line search instead of a rate
        return name
    decays = "cosine_decay" in run["schedule"]
    return f"{name} {run['learning_rate']:g}" + (", cosine" if decays else "")


def basis_name(run: pd.Series) -> str:
    """The name of a run's basis, and whether its layers lack the residual function."""
    name = json.loads(run["basis"])["name"] if run["basis"] else "bspline"
    return name + (", no residual" if run["residual"] == "none" else "")


def ratio(losses: np.ndarray, reference: np.ndarray) -> tuple[float, float, float]:
    """The ratio of two geometric means, with its 95 % interval (Welch)."""
    logs, others = np.log(losses), np.log(reference)
    found = stats.ttest_ind(logs, others, equal_var=False).confidence_interval(0.95)
    return tuple(np.exp([logs.mean() - others.mean(), found.low, found.high]))


def cell(losses: pd.Series, reference: pd.Series) -> tuple[str, float]:
    """A ratio as the page shows it, bold where its interval excludes 1; and the ratio itself."""
    finite, against = (each[np.isfinite(each)].to_numpy() for each in (losses, reference))
    lost = len(losses) - len(finite)
    if len(finite) < 3 or len(against) < 3:
        return (f"diverged {lost}/{len(losses)}" if lost else "–"), np.nan
    value, low, high = ratio(finite, against)
    text = _short(value) if low <= 1 <= high else f"**{_short(value)}**"
    note = f", {lost} diverged" if lost else ""
    return f"{text} [{_short(low)}, {_short(high)}{note}]", value


def ratios(runs: pd.DataFrame, group: str, scheme: str) -> str:
    """A table of one scheme against the power law: a row per group, a column per problem."""
    problems = _ordered(runs)
    lines = [_row([group, *problems, "all"]), _row(["---"] * (len(problems) + 2))]
    for name, part in runs.groupby(group, sort=False):
        texts, values = [], []
        for problem in problems:
            here = part[part["problem"].eq(problem)]
            by_scheme = {s: g["loss"] for s, g in here.groupby("scheme")}
            empty = pd.Series(dtype=float)
            text, value = cell(by_scheme.get(scheme, empty), by_scheme.get(REFERENCE, empty))
            texts.append(text)
            values.append(value)
        known = [v for v in values if np.isfinite(v)]
        mean = _short(np.exp(np.mean(np.log(known)))) if known else "–"
        lines.append(_row([name, *texts, mean]))
    return "\n".join(lines)


def _ordered(runs: pd.DataFrame) -> list[str]:
    """The problems: f1, f2, … first."""
    return sorted(runs["problem"].unique(), key=lambda name: (not name.startswith("f"), name))


def levels(runs: pd.DataFrame, group: str) -> str:
    """The median loss of the power law, and the median seconds per run, per group and problem."""
    chosen = runs[runs["scheme"].eq(REFERENCE)]
    table = chosen.groupby([group, "problem"], sort=False)["loss"].median().unstack()
    table = table[_ordered(runs)]
    seconds = chosen.groupby(group, sort=False)["wall_s"].median()
    lines = [_row([group, *table.columns, "s per run"]), _row(["---"] * (len(table.columns) + 2))]
    for name, row in table.iterrows():
        lines.append(_row([name, *(f"{v:.1e}" for v in row), f"{seconds[name]:.1f}"]))
    return "\n".join(lines)


def _short(value: float) -> str:
    """Two significant digits, without an exponent."""
    digits = f"{value:.2g}"
    return digits if value < 99.5 else f"{float(digits):,.0f}"


def _row(cells: list) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def _read(study: str) -> pd.DataFrame | None:
    """The finished runs of a study, with names for its groups; None without any."""
    path = RUNS / f"{study}.parquet"
    if not path.exists():
        return None
    runs = pd.read_parquet(path)
    runs["loss"] = runs["loss"].where(runs["status"].eq("ok"), np.inf)
    runs["optimizer and rate"] = runs.apply(optimizer_name, axis=1)
    runs["basis of the edges"] = runs.apply(basis_name, axis=1)
    return runs.sort_values(
        ["problem", "optimizer", "schedule", "learning_rate", "basis", "residual"]
    )


def tables() -> dict[str, str]:
    """The text between the markers of the page, by marker."""
    found: dict[str, str] = {}
    for study, group in (
        ("optimizers", "optimizer and rate"),
        ("bases", "basis of the edges"),
        ("residual-free", "basis of the edges"),
    ):
        runs = _read(study)
        if runs is None:
            continue
        # Problems that are still being trained are left out.
        whole = runs.groupby(["problem"]).size()
        runs = runs[runs["problem"].isin(whole.index[whole.eq(whole.max())])]
        parts = [f"Median loss of the power law after {runs['steps'].max():,} steps:", ""]
        parts += [levels(runs, group), ""]
        for scheme in dict.fromkeys(runs["scheme"]):
            if scheme != REFERENCE:
                parts += [f"Loss of `{scheme}`, relative to the power law:", ""]
                parts += [ratios(runs, group, scheme), ""]
        count = f"{len(runs):,} runs, {runs['seed'].nunique()} seeds"
        found[study] = "\n".join([*parts, f"({count}.)"])
    return found


def rewritten(page: str) -> str:
    """`page` with its tables as the runs give them."""
    for study, text in tables().items():
        begin, end = f"<!-- {study}: begin -->", f"<!-- {study}: end -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        if not pattern.search(page):
            raise SystemExit(f"{PAGE.name} lacks the markers {begin} … {end}.")
        page = pattern.sub(lambda _, b=begin, e=end, t=text: f"{b}\n\n{t}\n\n{e}", page)
    return page


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare")
    check = parser.parse_args().check
    page = PAGE.read_text()
    new = rewritten(page)
    if check:
        return int(new != page)
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
