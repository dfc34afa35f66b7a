"""A driver to be killed: runs the plan of the tests with a stand-in for training.

python study_driver.py STORE RUNNER [ray]
"""

import sys

from kandle import study
from kandle.study import Axes, _batch

AXES = Axes(
    problems=("f1", "f3"),
    grids=(5,),
    widths=(2, 4),
    depths=(1,),
    alphas=(0.25, 1.0),
    betas=(1.0, 1.75),
)


def plan():
    """Two functions, two architectures, 32 initializations of each: 128 runs."""
    return study.plan(study.get("functions"), axes=AXES)


if __name__ == "__main__":
    _batch._MOST_RUNS = 4
    directory, runner, *ray = sys.argv[1:]
    if ray:
        study.run(plan(), directory, executor=lambda: study.RayExecutor(workers=2, runner=runner))
    else:
        study.run(plan(), directory, executor=lambda: study.LocalExecutor(2, runner=runner))
