"""Adam against least squares on functions and Feynman equations, small architecture.

    python benchmarks/least_squares.py --problems f1,f3 --steps 25 --json out.json

Both train the same initialization (power law, seed 0): Adam as in the paper (float32, rate 1e-3,
2,000 steps), Levenberg-Marquardt in float64. Every training runs twice and the second is timed, so
that compilation is not counted.
"""

import argparse
import json
import time
from pathlib import Path

from kandle import problems
from kandle.train import Architecture, Result, train

SMALL = Architecture(width=8, depth=2, grid=5)
NAMES = (*problems.FUNCTIONS, *problems.FEYNMAN)


def timed(repeat: bool, name: str, **options) -> tuple[Result, float]:
    if repeat:
        train(name, SMALL, [("power-law", 0)], **options)
    started = time.perf_counter()
    [result] = train(name, SMALL, [("power-law", 0)], **options)
    return result, time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", default=",".join(NAMES))
    parser.add_argument("--steps", type=int, default=25, help="iterations of least squares")
    parser.add_argument(
        "--once", action="store_true", help="time the first training, with compilation"
    )
    parser.add_argument("--json", type=Path, help="write the results here, after every problem")
    given = parser.parse_args()

    found = {}
    print("problem    Adam loss  LM loss    ratio     Adam L2   LM L2     Adam s  LM s")
    for name in given.problems.split(","):
        adam, adam_s = timed(not given.once, name, steps=2000)
        method = {"optimizer": "levenberg-marquardt", "dtype": "float64"}
        lm, lm_s = timed(not given.once, name, steps=given.steps, **method)
        print(
            f"{name:10s} {adam.loss:.2e}   {lm.loss:.2e}   {adam.loss / lm.loss:8.3g}  "
            f"{adam.l2:.2e}  {lm.l2:.2e}  {adam_s:5.2f}  {lm_s:5.2f}",
            flush=True,
        )
        found[name] = {
            "adam": {"loss": adam.loss, "l2": adam.l2, "seconds": adam_s},
            "least_squares": {"loss": lm.loss, "l2": lm.l2, "seconds": lm_s},
        }
        if given.json:
            given.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
