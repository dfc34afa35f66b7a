"""Batches: runs of one shape that train together in one compiled program."""

import collections
import heapq
import itertools
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kandle._errors import UserError
from kandle.store import FIELDS, MEMBER, RunSpec
from kandle.study._catalogue import is_normalized
from kandle.study._cost import DEFAULT, CostModel

# Seconds, by the cost model: a third of the five minutes that a batch may take. The model is right
# to a factor, not to a percent, and a smaller batch is stored sooner.
_LONGEST = 100.0
_SHORTEST = 8.0
_MOST_RUNS = 32

# What runs of a batch have in common: the compiled program takes weights as arguments.
_SHARED = operator.attrgetter(*(name for name in FIELDS if name not in MEMBER))
_PROGRAM = operator.attrgetter("basis", "G", "width", "depth", "degree", "dtype", "scheme")


@dataclass(frozen=True)
class Batch:
    """Runs that differ in their initialization alone, and their cost in seconds of one core."""

    specs: tuple[RunSpec, ...]
    cost: float
    crashes: int = 0
    """How many workers died while they trained this one run."""

    def __len__(self) -> int:
        return len(self.specs)

    def halves(self) -> list["Batch"]:
        """The batch in two, each with its share of the cost."""
        middle = (len(self) + 1) // 2
        parts = self.specs[:middle], self.specs[middle:]
        return [Batch(part, self.cost * len(part) / len(self)) for part in parts if part]


def shape(spec: RunSpec) -> tuple:
    """What decides whether two runs can train together."""
    # A layer that standardizes its basis is another program.
    return _SHARED(spec), is_normalized(spec)


def batches(specs: Iterable[RunSpec], *, slots: int = 1, model: CostModel = DEFAULT) -> list[Batch]:
    """Group runs by shape and split the groups into short batches, the most expensive first.

    A batch should take well under five minutes where one run does, and be short enough that
    `slots` workers finish together. The parts of a group differ by at most one run, so that few
    programs are compiled. The result depends on the arguments alone.
    """
    groups: dict[tuple, list[RunSpec]] = {}
    for spec in specs:
        groups.setdefault(shape(spec), []).append(spec)
    costs = {key: model.run(group[0]) for key, group in groups.items()}
    total = sum(costs[key] * len(group) for key, group in groups.items())
    longest = min(_LONGEST, max(_SHORTEST, total / (4 * slots)))
    found = [
        Batch(tuple(part), costs[key] * len(part))
        for key, group in groups.items()
        for part in _parts(group, min(_MOST_RUNS, max(1, int(longest / costs[key]))))
    ]
    # Among batches of equal cost, one of each program comes first: workers then compile different
    # programs at the same time, and later find those of the others in the cache.
    turns = collections.Counter()
    order = []
    for batch in found:
        program = _PROGRAM(batch.specs[0])
        order.append((-batch.cost, turns[program], program, len(batch), len(order)))
        turns[program] += 1
    return [found[i] for *_, i in sorted(order)]


def shard(specs: Sequence[RunSpec], index: int, count: int) -> list[RunSpec]:
    """The runs of shard `index` of `count` (from 1), of nearly equal cost and disjoint.

    They depend on the study alone, never on what a store holds, so that all shards agree.
    """
    if not 1 <= index <= count:
        raise UserError(f"A shard must be I/N with 1 <= I <= N. Got {index}/{count} instead.")
    loads = [(0.0, i) for i in range(count)]
    chosen: list[RunSpec] = []
    for batch in batches(specs, slots=count):
        load, i = heapq.heappop(loads)
        heapq.heappush(loads, (load + batch.cost, i))
        if i == index - 1:
            chosen += batch.specs
    return chosen


def _parts(group: list[RunSpec], most: int) -> list[list[RunSpec]]:
    count = -(-len(group) // most)
    size, rest = divmod(len(group), count)
    ends = itertools.accumulate([size + 1] * rest + [size] * (count - rest))
    return [group[end - size - (i < rest) : end] for i, end in enumerate(ends)]
