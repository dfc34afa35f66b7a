"""Kandle and a peer train a case in turns, so that both meet the same disturbances."""

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from speed import _arithmetic, _cases, _kernels
from speed._cases import Case
from speed._kandle import kandle_runner
from speed._peers import PEERS
from speed._runner import Runner

# A turn takes about this long, and never fewer steps.
_SECONDS = 0.4
_LEAST_STEPS = 2
_MOST_STEPS = 512

Makers = Mapping[str, Callable[[Case], Runner]]


@dataclass(frozen=True)
class Row:
    """Milliseconds per step and network of Kandle and a peer; `ratio` is the peer's over Kandle's.

    `share` is the part of the machine's rate that Kandle's step achieves, `kernels` that of each
    native kernel on the layers of the case.
    """

    case: str
    peer: str | None
    kandle_ms: float
    peer_ms: float | None
    ratio: float | None
    share: float
    kernels: Mapping[str, float]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def bar(self) -> float | None:
        """The least ratio to be content with, where there is one."""
        return _cases.BARS.get((self.case, self.peer or ""))


def measure(cases: Sequence[Case], peers: Makers, rounds: int, rate: float) -> Iterator[Row]:
    """A row for each case and each peer that covers it, as soon as it is known.

    `rate` is that of one core, in floating-point operations per second.
    """
    for case in cases:
        kandle = kandle_runner(case)
        kernels = {} if case.backend else _kernels.shares(case, rate)
        covering = {name: make for name, make in peers.items() if PEERS[name].covers(case)}
        for name, make in covering.items():
            ours, theirs = medians([kandle, make(case)], rounds)
            ours /= case.batch
            share = _arithmetic.share(case, ours, rate)
            yield Row(case.name, name, ours, theirs, theirs / ours, share, kernels)
        if not covering:
            [ours] = medians([kandle], rounds)
            ours /= case.batch
            share = _arithmetic.share(case, ours, rate)
            yield Row(case.name, None, ours, None, None, share, kernels)


@dataclass(frozen=True)
class Growth:
    """Milliseconds per step of one library on the coarse and on the fine grid."""

    library: str
    coarse_ms: float
    fine_ms: float

    @property
    def ratio(self) -> float:
        return self.fine_ms / self.coarse_ms


def growth(peers: Makers, rounds: int) -> Iterator[Growth]:
    """How the time of a step grows with G, for Kandle and each peer."""
    for name, make in {"kandle": kandle_runner, **peers}.items():
        coarse, fine = medians([make(case) for case in _cases.GROWTH], rounds)
        yield Growth(name, coarse, fine)


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
