"""Does the initialization still matter under least squares? Losses and iterations per scheme.

    kandle study run studies/least-squares.toml --store DIR
    python benchmarks/initialization_least_squares.py --store DIR

Per problem and scheme: quartiles of the final loss over seeds, and the median number of iterations
until the loss is below each target; p is of the Kruskal-Wallis test that the final losses of all
schemes have one distribution.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from kandle.store import Store

TARGETS = (1e-5, 1e-7, 1e-9)


def summarize(runs: pd.DataFrame, curves: dict[str, np.ndarray]) -> pd.DataFrame:
    """One row per problem and scheme; `curves` has the loss before every iteration by identity."""
    rows = []
    for (problem, scheme), part in runs.groupby(["problem", "scheme"], sort=False):
        low, middle, high = np.nanquantile(part["loss"], (0.25, 0.5, 0.75))
        row = {"problem": problem, "scheme": scheme, "seeds": len(part)}
        row |= {"lower quartile": low, "median": middle, "upper quartile": high}
        for target in TARGETS:
            reached = [first_below(curves[identity], target) for identity in part["identity"]]
            row[f"iterations to {target:g}"] = np.median(reached)
        rows.append(row)
    return pd.DataFrame(rows)


def first_below(losses: np.ndarray, target: float) -> float:
    """Iterations until the loss is below the target, or infinity."""
    below = np.flatnonzero(losses < target)
    return float(below[0]) if len(below) else np.inf


def p_values(runs: pd.DataFrame) -> dict[str, float]:
    from scipy.stats import kruskal

    return {
        str(problem): float(kruskal(*(g["loss"] for _, g in part.groupby("scheme"))).pvalue)
        for problem, part in runs.groupby("problem", sort=False)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--store", type=Path, required=True)
    given = parser.parse_args()
    with Store.open(given.store) as store:
        runs = store.frame("least-squares")
        runs = runs[runs["status"].eq("ok")]
        curves = {key: found.loss for key, found in store.curves(runs["identity"]).items()}
    with pd.option_context("display.width", 160, "display.float_format", "{:.2g}".format):
        print(summarize(runs, curves).to_string(index=False))
    for problem, p in p_values(runs).items():
        print(f"{problem}: p = {p:.2g}")


if __name__ == "__main__":
    main()
