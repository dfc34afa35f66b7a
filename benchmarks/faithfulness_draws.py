"""How much of a Feynman equation's loss is the draw of the training data.

    python benchmarks/faithfulness_draws.py [--problems I.12.11,I.18.4] [--draws 4] [--seeds 3]

Table 3 was made with one draw of 4,000 points, which is not published. Small architecture, 2,000
steps: for every equation and scheme the printed loss, and over other draws of the data the least,
median and largest of the medians over seeds, and the least and largest loss of any single run. A
cell is explained by the draw when the printed value lies between the last two.
"""

import argparse
import dataclasses

import numpy as np
from faithfulness import published

from kandle import init, problems
from kandle.train import Architecture, train

SMALL = Architecture(width=8, depth=2, grid=5)
SCHEMES = (init.Baseline(), init.Glorot(), init.PowerLaw(0.25, 1.75))
# Where the own median lies outside a factor 2 of the printed one.
OUTSIDE = (
    *("I.6.2", "I.6.2b", "I.12.11", "I.13.12", "I.16.6", "I.18.4"),
    *("I.26.2", "I.27.6", "I.50.26", "II.35.18", "III.10.19"),
)


def losses(name: str, draws: int, seeds: int, steps: int) -> np.ndarray:
    """Final losses (draws, schemes, seeds) of an equation on other points than its own."""
    problem = problems.get(name)
    members = [(scheme, seed) for scheme in SCHEMES for seed in range(seeds)]
    rows = []
    for draw in range(draws):
        other = dataclasses.replace(problem, name=f"{name}/draw {draw}")
        rows.append([result.loss for result in train(other, SMALL, members, steps=steps)])
    return np.reshape(rows, (draws, len(SCHEMES), seeds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--problems", default=",".join(OUTSIDE))
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2000)
    arguments = parser.parse_args()
    cells = published("feynman-small").query("metric == 'loss'").set_index(["problem", "scheme"])
    titles = ("printed", "medians: least", "middle", "largest", "runs: least", "largest")
    print(f"{'':11}{'':11}" + "".join(f"{title:>15}" for title in titles))
    for name in arguments.problems.split(","):
        found = losses(name, arguments.draws, arguments.seeds, arguments.steps)
        for index, scheme in enumerate(SCHEMES):
            runs = found[:, index]
            medians = np.median(runs, axis=1)
            printed = float(cells["median"][name, scheme.name])
            told = (printed, medians.min(), np.median(medians), medians.max(), runs.min())
            values = "".join(f"{value:15.3g}" for value in (*told, runs.max()))
            inside = runs.min() <= printed <= runs.max()
            print(f"{name:11}{scheme.name:11}{values}{'' if inside else '  not explained'}")


if __name__ == "__main__":
    main()
