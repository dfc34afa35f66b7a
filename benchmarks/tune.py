"""Successive halving against exhaustive search over the power law's exponents.

    python benchmarks/tune.py --store DIR [--problems f1,f2] [--seeds 3] [--json]

For the small architecture: the exhaustive table (81 pairs, three seeds, 2,000 steps), which is a
part of the study `functions` and is trained into the store as far as it is not there; then a search
with a fifth of its model-steps. Printed is the median loss that the found pair has in the
exhaustive table, relative to the best there; it should be at most 1.5.
"""

import argparse
import json

import pandas as pd

from kandle import study
from kandle.store import Store
from kandle.tune import tune

GRID, WIDTH, DEPTH = 5, 8, 2


def exhaustive(problems: list[str], seeds: int, steps: int, store: str) -> pd.DataFrame:
    """The median loss of every pair: columns `problem`, `alpha`, `beta`, `loss`."""
    axes = study.Axes(
        problems=tuple(problems),
        architectures=((GRID, WIDTH, DEPTH),),
        schemes=("power-law",),
        seeds=seeds,
        steps=steps,
    )
    planned = study.plan(study.get("functions"), "paper", axes)
    study.run(planned, store)
    wanted = {spec.identity for spec in planned.specs}
    with Store.open(store) as opened:
        runs = opened.frame("functions")
    runs = runs[runs["identity"].isin(wanted)]
    loss = runs["loss"].fillna(float("inf"))  # of a diverged run
    return (
        runs.assign(loss=loss)
        .groupby(["problem", "alpha", "beta"], as_index=False)["loss"]
        .median()
    )


def compare(problem: str, table: pd.DataFrame, seeds: int, steps: int) -> dict:
    """The pair that a search with a fifth of the cost finds, beside the best."""
    pairs = table[table["problem"].eq(problem)].set_index(["alpha", "beta"])["loss"]
    tuned = tune(problem, layers=(WIDTH,) * DEPTH, grid=GRID, seeds=seeds, steps=steps)
    found, best = (tuned.best.alpha, tuned.best.beta), float(pairs.min())
    return {
        "problem": problem,
        "best": tuple(map(float, pairs.idxmin())),
        "best_loss": best,
        "found": found,
        "found_loss": float(pairs[found]),
        "ratio": float(pairs[found]) / best,
        "cost": tuned.plan.model_steps / tuned.exhaustive,
    }


def main(argv=None) -> list[dict]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", required=True, metavar="DIR")
    parser.add_argument("--problems", default="f1,f2,f3,f4,f5")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(argv)
    problems, seeds, steps = arguments.problems.split(","), arguments.seeds, arguments.steps
    table = exhaustive(problems, seeds, steps, arguments.store)
    rows = []
    if not arguments.json:
        titles = ("", "best", "loss", "found", "loss", "ratio", "cost")
        print("{:6} {:>12} {:>10} {:>12} {:>10} {:>6} {:>6}".format(*titles))
    for problem in problems:
        row = compare(problem, table, seeds, steps)
        rows.append(row)
        if arguments.json:
            print(json.dumps(row), flush=True)
            continue
        print(
            f"{problem:6} {row['best']!s:>12} {row['best_loss']:10.3e} {row['found']!s:>12} "
            f"{row['found_loss']:10.3e} {row['ratio']:6.2f} {100 * row['cost']:5.1f}%",
            flush=True,
        )
    return rows


if __name__ == "__main__":
    main()
