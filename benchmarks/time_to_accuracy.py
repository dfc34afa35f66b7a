"""Loss against wall time: Adam, tuned Adam, L-BFGS, least squares, least squares and refinement.

    python benchmarks/time_to_accuracy.py --out floor.json --figure time-to-accuracy.svg
    python benchmarks/time_to_accuracy.py --out floor.json --problems f1,f3 --methods adam,accurate

All methods train the same initialization (power law, seed 0). Each training is preceded by a short
one of the same shape, so that compilation is not timed. Results go to the file after every
training, and a rerun trains only what it lacks; `--draw` only prints the table and draws.
"""

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np

from kandle import problems
from kandle.train import Architecture, train

SHAPES = {
    "small": Architecture(width=8, depth=2, grid=5),
    "large": Architecture(width=32, depth=3, grid=20),
}
LEAST_SQUARES = {"optimizer": "levenberg-marquardt", "dtype": "float64"}
METHODS: dict[str, dict[str, Any]] = {
    "adam": {"recipe": "paper"},
    "tuned": {
        "optimizer": {
            "name": "adam",
            "learning_rate": 1e-2,
            "schedule": {"name": "cosine_decay", "decay_steps": 2000},
        },
        "steps": 2000,
    },
    "lbfgs": {"optimizer": "lbfgs", "dtype": "float64", "steps": 500},
    "fast": {"recipe": "fast"},
    "least-squares": {**LEAST_SQUARES, "steps": 13},
    "accurate": {"recipe": "accurate"},
}
LABELS = {
    "adam": "Adam 1e-3 (recipe “paper”)",
    "tuned": "Adam 1e-2, cosine",
    "lbfgs": "L-BFGS",
    "fast": "recipe “fast”",
    "least-squares": "least squares",
    "accurate": "with refinement (recipe “accurate”)",
}
NAMES = (*problems.FUNCTIONS, *problems.FEYNMAN)


def measured(name: str, shape: str, method: str) -> dict[str, Any]:
    """One training: its errors, and its loss against seconds."""
    options = METHODS[method]
    ticks = [(0, 0.0)]
    member = [("power-law", 0)]
    train(name, SHAPES[shape], member, **{**options, "steps": 1})
    began = time.perf_counter()

    def note(done: int, total: int, losses: object) -> None:
        ticks.append((done, time.perf_counter() - began))

    [result] = train(name, SHAPES[shape], member, progress=note, **options)
    steps, seconds = np.array(ticks).T
    return {
        "loss": result.loss,
        "l2": result.l2,
        "test_mse": result.test_mse,
        "seconds": result.wall_s,
        "curve": {
            "seconds": np.interp(result.curve_steps, steps, seconds).round(4).tolist(),
            "loss": [float(f"{loss:.4g}") for loss in result.curve_loss],
        },
    }


def print_table(found: dict[str, Any], shape: str) -> None:
    print(f"{'problem':9s}" + "".join(f"{m:>24s}" for m in METHODS) + "   Adam over least squares")
    lower = 0
    for name in NAMES:
        rows = {m: found.get(f"{shape}/{name}/{m}") for m in METHODS}
        if not any(rows.values()):
            continue
        cells = [f"{r['loss']:.1e} ({r['seconds']:5.2f} s)" if r else "" for r in rows.values()]
        adam, best = rows["adam"], rows["least-squares"]
        ratio = adam["loss"] / best["loss"] if adam and best else math.nan
        lower += ratio >= 100
        times = f", time {best['seconds'] / adam['seconds']:.2f}" if adam and best else ""
        print(f"{name:9s}" + "".join(f"{cell:>24s}" for cell in cells) + f"   {ratio:.3g}{times}")
    print(f"At least 100 times lower: {lower}")


def draw(found: dict[str, Any], shape: str, path: Path) -> None:
    """Best loss so far against wall time, per function; Feynman equations relative to Adam."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(11, 6), layout="constrained")
    for axis, name in zip(axes.flat, problems.FUNCTIONS, strict=False):
        for i, (method, label) in enumerate(LABELS.items()):
            row = found.get(f"{shape}/{name}/{method}")
            if row:
                best = np.minimum.accumulate(row["curve"]["loss"])
                axis.plot(row["curve"]["seconds"], best, color=f"C{i}", label=label)
        axis.set(title=name, yscale="log", xscale="log", xlabel="seconds")
    axis = axes.flat[-1]
    for i, method in enumerate(LABELS):
        pairs = [
            (found.get(f"{shape}/{name}/{method}"), found.get(f"{shape}/{name}/adam"))
            for name in problems.FEYNMAN
        ]
        ratios = [
            (row["seconds"], row["loss"] / adam["loss"]) for row, adam in pairs if row and adam
        ]
        if ratios:
            axis.plot(*zip(*ratios, strict=True), ".", color=f"C{i}")
    axis.set(title="20 Feynman equations", yscale="log", xlabel="seconds")
    axis.set_ylabel("final loss over that of Adam 1e-3")
    for left in axes[:, 0]:
        left.set_ylabel("loss")
    figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", default=",".join(NAMES))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--out", type=Path, required=True, help="JSON with all results")
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--draw", action="store_true", help="train nothing")
    given = parser.parse_args()

    found = json.loads(given.out.read_text()) if given.out.exists() else {}
    for name in () if given.draw else given.problems.split(","):
        for method in given.methods.split(","):
            key = f"{given.shape}/{name}/{method}"
            if key in found:
                continue
            found[key] = measured(name, given.shape, method)
            row = found[key]
            print(f"{key}: loss {row['loss']:.2e}, {row['seconds']:.2f} s", flush=True)
            partial = given.out.with_suffix(".partial")
            partial.write_text(json.dumps(found, indent=1))
            partial.replace(given.out)
    print_table(found, given.shape)
    if given.figure:
        draw(found, given.shape, given.figure)


if __name__ == "__main__":
    main()
