"""Silent splines against the other starts: win rates, ratios and paired tests from a store.

    kandle study run studies/quiet-functions.toml --store DIR      # and quiet-pdes, quiet-feynman
    python benchmarks/quiet.py --store DIR [--studies quiet-functions] [--grid DIR] [--csv]

A setting is one problem and architecture; a start enters with its run nearest the median loss over
seeds. Percent is the share of settings on which the loss (or L²) is strictly lower than the
rival's, with a bootstrap interval; ratio is the median over settings of own/rival, below 1 where
the start is better; p is of Wilcoxon's signed-rank test. --grid names a store in which the study
`functions` has trained all pairs of the power law: the best of them becomes one more rival, on the
settings and seeds that both stores have.
"""

import argparse
import sys

import pandas as pd

from kandle.analysis import (
    ARCHITECTURE,
    best_exponents,
    finished,
    medians,
    named_variants,
    representatives,
    versus,
)
from kandle.store import Store

STUDIES = ("quiet-functions", "quiet-pdes", "quiet-feynman")
RIVALS = ("baseline", "glorot", "power-law(0.25, 1)", "power-law(0.25, 1.75)")
BEST = "power-law(best pair)"
SETTING = ["problem", *ARCHITECTURE]


def beside_best(runs: pd.DataFrame, grid: pd.DataFrame) -> pd.DataFrame:
    """`runs` on the settings and seeds that `grid` has too, with the runs of its best pairs."""
    power = grid[grid["scheme"].eq("power-law")]
    best = best_exponents(representatives(power))[[*SETTING, "alpha", "beta"]]
    chosen = power.merge(best).assign(scheme=BEST)
    known = chosen[[*SETTING, "seed"]].drop_duplicates()
    blank = {"alpha": float("nan"), "beta": float("nan"), "study": runs["study"].iloc[0]}
    return pd.concat([named_variants(runs).merge(known), chosen.assign(**blank)])


def compare(runs: pd.DataFrame, rivals: tuple[str, ...] = RIVALS) -> pd.DataFrame:
    """One row a start, rival and metric, over all problems and then for each."""
    cells = representatives(runs)
    rows = []
    for problem in ("all", *dict.fromkeys(cells["problem"])):
        part = cells if problem == "all" else cells[cells["problem"].eq(problem)]
        for rival in rivals:
            for scheme in dict.fromkeys(cells["scheme"]):
                if scheme != rival:
                    rows += [
                        {"problem": problem} | versus(part, scheme, rival, metric)
                        for metric in ("loss", "l2")
                    ]
    return pd.DataFrame(rows)


def ranks(runs: pd.DataFrame) -> pd.DataFrame:
    """How far a scheme's median loss is from that of the best scheme, over settings."""
    table = medians(runs).pivot(index=SETTING, columns="scheme", values="loss")
    relative = table.div(table.min(axis=1), axis=0)
    ranked = {
        "median of loss / best": relative.median(),
        "worst": relative.max(),
        "best on": table.idxmin(axis=1).value_counts(),
    }
    return pd.DataFrame(ranked).sort_values("median of loss / best")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--store", required=True, metavar="DIR")
    parser.add_argument("--studies", default=",".join(STUDIES))
    parser.add_argument("--grid", metavar="DIR", help="a store with all pairs of the power law")
    parser.add_argument("--csv", action="store_true", help="every comparison, problem by problem")
    arguments = parser.parse_args()
    tables = []
    frames = {name: _frame(arguments.store, name) for name in arguments.studies.split(",")}
    grid = _frame(arguments.grid, "functions") if arguments.grid else None
    for name, runs in frames.items():
        if runs.empty:
            print(f"{name}: no runs in this store", file=sys.stderr)
            continue
        rivals = RIVALS
        if grid is None:
            runs = named_variants(runs)
        else:
            runs, rivals = beside_best(runs, grid), (BEST,)
        table = compare(runs, rivals).assign(study=name)
        tables.append(table)
        if not arguments.csv:
            _print(name, runs, table)
    if arguments.csv and tables:
        pd.concat(tables).to_csv(sys.stdout, index=False)
    return 0 if tables else 1


def _frame(directory: str, study: str) -> pd.DataFrame:
    with Store.open(directory) as store:
        return store.frame(study)


def _print(name: str, runs: pd.DataFrame, table: pd.DataFrame) -> None:
    done = finished(runs)
    print(f"\n{name}: {len(done):,} finished runs of {len(runs):,}")
    print(ranks(runs).to_string(float_format=lambda v: f"{v:.3g}"))
    for rival in dict.fromkeys(table["rival"]):
        for metric in ("loss", "l2"):
            print(f"\n{metric} against {rival}")
            print(f"{'':24}{'wins':>12}{'percent':>9}{'interval':>14}{'ratio':>8}{'p':>10}")
            chosen = table[table["rival"].eq(rival) & table["metric"].eq(metric)]
            for row in chosen[chosen["problem"].eq("all")].to_dict("records"):
                print(
                    f"{row['scheme']:24}{row['wins']:>5} of {row['settings']:<4}"
                    f"{row['percent']:>8.0f}%{row['low']:>8.0f}–{row['high']:<5.0f}"
                    f"{row['ratio']:>8.2f}{row['rank']:>10.1e}"
                )


if __name__ == "__main__":
    sys.exit(main())
