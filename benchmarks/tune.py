"""Successive halving against exhaustive search over the power law's exponents.

    python benchmarks/tune.py [--problems f1,f2] [--table FOLDER]

For the small architecture: the exhaustive table (81 pairs, three seeds, 2,000 steps), then a search
with a fifth of its model-steps. Printed is the median loss that the found pair has in the
exhaustive table, relative to the best there; it should be at most 1.5. With --table the exhaustive
losses are kept in a folder and not computed twice.
"""

import argparse
import itertools
import json
from pathlib import Path

import numpy as np

from kandle import init
from kandle.train import Architecture, train
from kandle.tune import EXPONENTS, tune

PAIRS = list(itertools.product(EXPONENTS, EXPONENTS))
SMALL = Architecture(width=8, depth=2, grid=5)


def exhaustive(problem: str, seeds: int, steps: int, folder: Path | None) -> np.ndarray:
    """Final losses, (pairs, seeds)."""
    path = None if folder is None else folder / f"{problem}-{seeds}-{steps}.npy"
    if path is not None and path.exists():
        return np.load(path)
    columns = []
    for seed in range(seeds):
        members = [(init.PowerLaw(alpha, beta), seed) for alpha, beta in PAIRS]
        columns.append([result.loss for result in train(problem, SMALL, members, steps=steps)])
    losses = np.asarray(columns).T
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, losses)
    return losses


def compare(problem: str, seeds: int, steps: int, folder: Path | None) -> dict:
    losses = exhaustive(problem, seeds, steps, folder)
    medians = np.median(np.where(np.isfinite(losses), losses, np.inf), axis=1)
    tuned = tune(problem, layers=(8, 8), grid=5, seeds=seeds, steps=steps)
    found = (tuned.best.alpha, tuned.best.beta)
    best = int(np.argmin(medians))
    return {
        "problem": problem,
        "best": PAIRS[best],
        "best_loss": float(medians[best]),
        "found": found,
        "found_loss": float(medians[PAIRS.index(found)]),
        "ratio": float(medians[PAIRS.index(found)] / medians[best]),
        "cost": tuned.plan.model_steps / tuned.exhaustive,
    }


def main(argv=None) -> list[dict]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", default="f1,f2,f3,f4,f5")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--table", type=Path, metavar="FOLDER")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(argv)
    rows = []
    if not arguments.json:
        titles = ("", "best", "loss", "found", "loss", "ratio", "cost")
        print("{:6} {:>12} {:>10} {:>12} {:>10} {:>6} {:>6}".format(*titles))
    for problem in arguments.problems.split(","):
        row = compare(problem, arguments.seeds, arguments.steps, arguments.table)
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
