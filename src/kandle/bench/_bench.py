"""The benchmark: cases in turns with each peer, one row per pair."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kandle.bench import _arithmetic, _cases, _kernels
from kandle.bench._cases import Case
from kandle.bench._clock import medians
from kandle.bench._kandle import kandle_runner
from kandle.bench._peers import PEERS
from kandle.bench._runner import Runner

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
