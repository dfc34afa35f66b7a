"""A function of your own: compare schemes on it, several seeds at once, then find exponents."""

import numpy as np

from kandle import init, problems
from kandle.train import Architecture, train
from kandle.tune import tune

ripples = problems.Function(
    lambda x, y: np.sin(4 * np.hypot(x, y)) * np.exp(-(x**2)),
    domain=[(-1, 1), (-1, 1)],
    name="ripples",
    n_train=1000,
)


def main(steps: int = 1000, seeds: int = 3, budget: float | None = None) -> tuple[float, float]:
    small = Architecture(width=8, depth=2, grid=5)
    schemes = [init.Baseline(), init.Glorot(), init.PowerLaw(0.25, 1.75)]
    members = [(scheme, seed) for scheme in schemes for seed in range(seeds)]
    results = train(ripples, small, members, steps=steps)
    for i, scheme in enumerate(schemes):
        runs = results[i * seeds : (i + 1) * seeds]
        loss, l2 = (np.median([getattr(run, of) for run in runs]) for of in ("loss", "l2"))
        print(f"{scheme.name:10}  median loss {loss:.2e}  relative L² {l2:.2e}")

    tuned = tune(ripples, layers=(8, 8), grid=5, steps=steps, seeds=seeds, budget=budget)
    print(f"found alpha = {tuned.best.alpha:g}, beta = {tuned.best.beta:g}: {tuned.best.loss:.2e}")
    print(tuned.code())
    return tuned.best.alpha, tuned.best.beta


if __name__ == "__main__":
    main()
