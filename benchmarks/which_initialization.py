"""Which initialization for which optimizer and basis: the tables of the documentation.

    python benchmarks/which_initialization.py            # rewrites which-initialization-tables.md
    python benchmarks/which_initialization.py --check    # exits with 1 if they are out of date

Reads the finished runs in studies/runs/. Every ratio is the loss of a scheme divided by that of
the power law with (α, β) = (0.25, 1.75): the ratio of geometric means over seeds, with the 95 %
interval of Welch's t on the logarithms. Over several problems it is the geometric mean of their
ratios; its interval is about these problems, not about others.
"""

import argparse
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "which-initialization-tables.md"
RUNS = ROOT / "studies" / "runs"
REFERENCE = "power-law"
FEWEST_SEEDS = 3  # finished ones, without which there is no ratio
NAMES = {
    "adam": "Adam",
    "adamw": "AdamW",
    "muon": "Muon",
    "schedule_free_adamw": "schedule-free AdamW",
    "lbfgs": "L-BFGS",
}
KINDS = {"functions": r"f\d", "Feynman equations": r"I+\.", "PDEs": "allen-cahn|burgers"}


@dataclass(frozen=True)
class Section:
    """A part of the page: the runs of some studies, compared by one axis."""

    marker: str
    studies: tuple[str, ...]
    group: str


SECTIONS = (
    Section("optimizers", ("optimizers", "optimizers-medium"), "optimizer and rate"),
    Section("bases", ("bases", "bases-medium"), "basis of the edges"),
    Section("residual-free", ("residual-free",), "basis of the edges"),
)


# ---- what a run is called ----------------------------------------------------------------------


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


def kind_name(problem: str) -> str:
    """The kind of a problem."""
    return next(kind for kind, pattern in KINDS.items() if re.match(pattern, problem))


# ---- ratios ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ratio:
    """A ratio of losses with its interval, on a logarithmic scale; `lost` runs diverged."""

    mean: float
    variance: float
    freedom: float
    lost: int = 0

    def __str__(self) -> str:
        if not np.isfinite(self.mean):
            return f"{self.lost} diverged" if self.lost else "–"
        half = stats.t.ppf(0.975, self.freedom) * np.sqrt(self.variance)
        low, high = self.mean - half, self.mean + half
        value = _short(np.exp(self.mean))
        note = f", {self.lost} diverged" if self.lost else ""
        bold = value if low <= 0 <= high else f"**{value}**"
        return f"{bold} [{_short(np.exp(low))}, {_short(np.exp(high))}{note}]"


def ratio(losses: pd.Series, reference: pd.Series) -> Ratio:
    """Welch's comparison of the logarithms of two samples of losses."""
    lost = int((~np.isfinite(losses)).sum())
    samples = [np.log(each[np.isfinite(each)].to_numpy()) for each in (losses, reference)]
    if min(map(len, samples)) < FEWEST_SEEDS:
        return Ratio(np.nan, np.nan, np.nan, lost)
    errors = np.array([sample.var(ddof=1) / len(sample) for sample in samples])
    freedoms = np.array([len(sample) - 1 for sample in samples])
    freedom = errors.sum() ** 2 / (errors**2 / freedoms).sum()
    return Ratio(samples[0].mean() - samples[1].mean(), errors.sum(), freedom, lost)


def mean_ratio(ratios: list[Ratio]) -> Ratio:
    """The geometric mean of independent ratios (degrees of freedom by Satterthwaite)."""
    known = [each for each in ratios if np.isfinite(each.mean)]
    lost = sum(each.lost for each in ratios)
    if not known:
        return Ratio(np.nan, np.nan, np.nan, lost)
    variances = np.array([each.variance for each in known])
    freedom = variances.sum() ** 2 / sum(each.variance**2 / each.freedom for each in known)
    mean = float(np.mean([each.mean for each in known]))
    return Ratio(mean, variances.sum() / len(known) ** 2, freedom, lost)


def ratios_by_problem(runs: pd.DataFrame, scheme: str, metric: str) -> dict[str, Ratio]:
    """The ratio of a scheme to the power law for each problem, in the order of `problems`."""
    found = {}
    for problem in problems(runs):
        here = runs[runs["problem"].eq(problem)]
        losses, against = (here.loc[here["scheme"].eq(s), metric] for s in (scheme, REFERENCE))
        found[problem] = ratio(losses, against)
    return found


def problems(runs: pd.DataFrame) -> list[str]:
    """The problems, kind by kind."""
    kinds = list(KINDS)
    return sorted(runs["problem"].unique(), key=lambda name: (kinds.index(kind_name(name)), name))


# ---- tables ------------------------------------------------------------------------------------


def summary(runs: pd.DataFrame, group: str, scheme: str) -> str:
    """A scheme against the power law: a row per group, a column per architecture and kind."""
    blocks = runs.groupby(["architecture", "kind"], sort=False)
    names = [f"{architecture}, {kind}" for architecture, kind in blocks.groups]
    rows = [[group, *names], ["---"] * (len(names) + 1)]
    for name in runs[group].unique():
        cells = []
        for _, block in blocks:
            part = block[block[group].eq(name)]
            cells.append(mean_ratio(list(ratios_by_problem(part, scheme, "loss").values())))
        rows.append([name, *cells])
    return "\n".join(map(_row, rows))


def ratios(runs: pd.DataFrame, group: str, scheme: str, metric: str) -> str:
    """A scheme against the power law: a row per group, a column per problem."""
    columns = problems(runs)
    rows = [[group, *columns, "all"], ["---"] * (len(columns) + 2)]
    for name, part in runs.groupby(group, sort=False):
        found = ratios_by_problem(part, scheme, metric)
        cells = [found.get(problem, "–") for problem in columns]
        rows.append([name, *cells, mean_ratio(list(found.values()))])
    return "\n".join(map(_row, rows))


def levels(runs: pd.DataFrame, group: str, metric: str) -> str:
    """The median of the power law per group and problem."""
    chosen = runs[runs["scheme"].eq(REFERENCE)]
    table = chosen.groupby([group, "problem"], sort=False)[metric].median().unstack()
    table = table[problems(runs)]
    rows = [[group, *table.columns], ["---"] * (len(table.columns) + 1)]
    rows += [[name, *(f"{value:.1e}" for value in row)] for name, row in table.iterrows()]
    return "\n".join(map(_row, rows))


def details(runs: pd.DataFrame, group: str) -> str:
    """Every table of one architecture and kind of problem, behind a line to click on."""
    architecture, kind = runs["architecture"].iloc[0], runs["kind"].iloc[0]
    metrics = {"loss": "loss"} | ({"l2": "relative L² error"} if kind == "PDEs" else {})
    parts = ["<details>", f"<summary>{architecture}, {kind}: each problem</summary>", ""]
    for metric, words in metrics.items():
        title = f"Median {words} of the power law after {runs['steps'].max():,} steps:"
        parts += [title, "", levels(runs, group, metric), ""]
        for scheme in other_schemes(runs):
            title = f"{words[0].upper()}{words[1:]} of `{scheme}`, relative to the power law:"
            parts += [title, "", ratios(runs, group, scheme, metric), ""]
    return "\n".join([*parts, "</details>"])


def other_schemes(runs: pd.DataFrame) -> list[str]:
    return [scheme for scheme in runs["scheme"].unique() if scheme != REFERENCE]


def section(part: Section) -> str:
    """The text between the markers of one part of the page."""
    runs = pd.concat([read(study) for study in part.studies], ignore_index=True)
    runs = runs[complete(runs, part.group)]
    texts = []
    for scheme in other_schemes(runs):
        texts += [f"Loss of `{scheme}`, relative to the power law:", ""]
        texts += [summary(runs, part.group, scheme), ""]
    for _, block in runs.groupby(["architecture", "kind"], sort=False):
        texts += [details(block, part.group), ""]
    count = f"({len(runs):,} runs, {runs['seed'].nunique()} seeds.)"
    return "\n".join([*texts, count])


def complete(runs: pd.DataFrame, group: str) -> pd.Series:
    """Which runs belong to problems of which a study has everything: others are being trained."""
    study = runs.groupby("study")
    wanted = study[group].transform("nunique") * study["scheme"].transform("nunique")
    wanted *= study["seed"].transform("nunique")
    return runs.groupby(["study", "problem"])["loss"].transform("size").eq(wanted)


def read(study: str) -> pd.DataFrame:
    """The finished runs of a study, with names for what they are compared by."""
    runs = pd.read_parquet(RUNS / f"{study}.parquet")
    for metric in ("loss", "l2"):
        runs[metric] = runs[metric].where(runs["status"].eq("ok"), np.inf)
    runs["optimizer and rate"] = runs.apply(optimizer_name, axis=1)
    runs["basis of the edges"] = runs.apply(basis_name, axis=1)
    runs["architecture"] = np.where(runs["width"].eq(8), "small", "medium")
    runs["kind"] = runs["problem"].map(kind_name)
    runs["order"] = runs["kind"].map(list(KINDS).index)
    keys = ["order", "problem", "optimizer", "schedule", "learning_rate", "basis", "residual"]
    return runs.sort_values([*keys, "scheme", "seed"])


def _short(value: float) -> str:
    """Two significant digits, without an exponent."""
    digits = f"{value:.2g}"
    return digits if value < 99.5 else f"{float(digits):,.0f}"


def _row(cells: list) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def rewritten(page: str) -> str:
    """`page` with its tables as the runs give them."""
    for part in SECTIONS:
        begin, end = f"<!-- {part.marker}: begin -->", f"<!-- {part.marker}: end -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        if not pattern.search(page):
            raise SystemExit(f"{PAGE.name} lacks the markers {begin} … {end}.")
        text = section(part)
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
