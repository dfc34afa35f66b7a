"""Time libraries in turns, so that a machine's moods fall on all of them alike."""

import math
import statistics
import time
from collections.abc import Sequence

from kandle.bench._runner import Runner

# A turn takes about this long, and never fewer steps.
_SECONDS = 0.4
_LEAST_STEPS = 2
_MOST_STEPS = 512


def medians(runners: Sequence[Runner], rounds: int) -> list[float]:
    """Milliseconds per step of each: the median over rounds in which each has one turn."""
    steps = [_warm(runner) for runner in runners]
    turns: list[list[float]] = [[] for _ in runners]
    for _ in range(rounds):
        for runner, n, times in zip(runners, steps, turns, strict=True):
            times.append(1e3 * _seconds(runner, n) / n)
    return [statistics.median(times) for times in turns]


def _warm(runner: Runner) -> int:
    """Compile and warm up; how many steps make a turn."""
    runner.run(1)
    one = _seconds(runner, 1)
    if one < _SECONDS / 8:
        # A single step is mostly dispatch where steps are short.
        one = _seconds(runner, 8) / 8
    return min(_MOST_STEPS, max(_LEAST_STEPS, math.ceil(_SECONDS / one)))


def _seconds(runner: Runner, steps: int) -> float:
    began = time.perf_counter()
    runner.run(steps)
    return time.perf_counter() - began
