"""Loss against wall time: Adam, tuned Adam, L-BFGS, least squares, least squares and refinement.

    python benchmarks/time_to_accuracy.py --out floor.json --figure time-to-accuracy.png
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
    "least-squares": {**LEAST_SQUARES, "steps": 15},
    "accurate": {"recipe": "accurate"},
}
# What the figure shows: label and color.
SHOWN = {
    "adam": ("Adam 1e-3", "#888888"),
    "tuned": ("Adam 1e-2, cosine", "#56b4e9"),
    "lbfgs": ("L-BFGS", "#e69f00"),
    "least-squares": ("least squares", "#009e73"),
    "accurate": ("least squares and refinement", "#d55e00"),
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


def within(row: dict[str, Any], seconds: float) -> float:
    """The lowest loss that a training reached in this time.

    `loss[k]` is that before update k + 1, and `seconds[k]` the time after it.
    """
    losses, times = row["curve"]["loss"], row["curve"]["seconds"]
    done = sum(time <= seconds for time in times)
    return min(losses[: done + 1])


def print_table(found: dict[str, Any], shape: str) -> None:
    """Losses and times, and how much lower least squares is within three times Adam's time."""
    print(f"{'problem':9s}" + "".join(f"{m:>24s}" for m in METHODS) + "   lower, in 3x the time")
    lower = 0
    for name in NAMES:
        rows = {m: found.get(f"{shape}/{name}/{m}") for m in METHODS}
        if not any(rows.values()):
            continue
        cells = [f"{r['loss']:.1e} ({r['seconds']:5.2f} s)" if r else "" for r in rows.values()]
        adam, best = rows["adam"], rows["least-squares"]
        ratio = adam["loss"] / within(best, 3 * adam["seconds"]) if adam and best else math.nan
        lower += ratio >= 100
        print(f"{name:9s}" + "".join(f"{cell:>24s}" for cell in cells) + f"   {ratio:.3g}")
    print(f"At least 100 times lower: {lower}")


def draw(found: dict[str, Any], shape: str, path: Path) -> None:
    """Lowest loss so far against wall time per function; final losses of Feynman equations."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(9, 5), layout="constrained")
    for axis, name in zip(axes.flat, problems.FUNCTIONS, strict=False):
        for method, (label, color) in SHOWN.items():
            if row := found.get(f"{shape}/{name}/{method}"):
                losses = [*row["curve"]["loss"], row["loss"]]
                seconds = [*row["curve"]["seconds"], row["seconds"]]
                axis.plot(seconds, np.minimum.accumulate(losses), color=color, label=label)
        axis.set(title=name, yscale="log", xscale="log", xlim=(0.05, None))
    axis = axes.flat[-1]
    for place, (method, (_, color)) in enumerate(SHOWN.items()):
        pairs = [
            (found.get(f"{shape}/{name}/{method}"), found.get(f"{shape}/{name}/adam"))
            for name in problems.FEYNMAN
        ]
        ratios = [row["loss"] / adam["loss"] for row, adam in pairs if row and adam]
        beside = place + np.linspace(-0.25, 0.25, len(ratios))
        axis.plot(beside, ratios, "o", ms=3, color=color)
    axis.set(title="20 Feynman equations", yscale="log", xticks=[])
    axis.set_ylabel("final loss over Adam 1e-3")
    for left in axes[:, 0]:
        left.set_ylabel("lowest loss so far")
    for lowest in axes[1, :2]:
        lowest.set_xlabel("seconds")
    figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


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
