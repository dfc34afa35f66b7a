"""The driver: runs what a store lacks, stores what comes back, and decides what to do about what
does not.
"""

import contextlib
import heapq
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

import kandle
from kandle.store import Outcome, Store, StoreError
from kandle.study._batch import Batch, batches
from kandle.study._executor import Done, Executor, Lost
from kandle.study._spec import RunSpec

# So many workers must die under one and the same run before it is given up.
_CRASHES = 3
# Seconds that a batch of several runs may take, by what the batches so far took.
_LONGEST = 240.0


@dataclass
class Progress:
    """How far a study is."""

    planned: int
    stored: int
    slots: int
    cost_left: float
    started: float = field(default_factory=time.monotonic)
    trained: int = 0
    diverged: int = 0
    failed: int = 0
    failed_before: int = 0
    """Runs of the plan that the store holds as failed from an earlier session."""
    busy: float = 0.0
    cost_done: float = 0.0
    best: dict[str, tuple[float, RunSpec]] = field(default_factory=dict)
    """The lowest loss on each problem, and the run that has it."""

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started

    @property
    def done(self) -> int:
        return self.stored + self.trained + self.failed

    @property
    def seconds_left(self) -> float | None:
        """What the batches so far say of those to come; None before the first."""
        if self.done == self.planned:
            return 0.0
        if not self.cost_done:
            return None
        return self.cost_left * self.pace / max(self.slots, 1)

    @property
    def pace(self) -> float:
        """Seconds a batch takes for each that the cost model gives it; 1 before the first."""
        return self.busy / self.cost_done if self.cost_done else 1.0

    def count(self, spec: RunSpec, outcome: Outcome) -> None:
        if outcome.status == "failed":
            self.failed += 1
            return
        self.trained += 1
        self.diverged += outcome.status == "diverged"
        if outcome.status == "ok":
            self.compare(spec, outcome.loss)

    def compare(self, spec: RunSpec, loss: float) -> None:
        """Keep a run if it is the best on its problem so far."""
        lowest = self.best.get(spec.problem)
        if lowest is None or loss < lowest[0]:
            self.best[spec.problem] = loss, spec


class Watcher(Protocol):
    """Is shown the progress now and then, and told what goes wrong."""

    def show(self, progress: Progress) -> None: ...
    def note(self, message: str) -> None: ...


def drive(
    specs: Sequence[RunSpec],
    store: Store,
    executor: Executor,
    watcher: Watcher,
    *,
    command: str = "",
    scale: str = "",
    retry_failed: bool = False,
) -> Progress:
    """Run those of `specs` that `store` lacks, most expensive batch first; return how it ended.

    A batch whose worker dies or raises is cut in halves and tried again, down to single runs; a
    run under which three workers died, or that raises by itself, is stored as failed with its
    reason. All that was stored stays stored whatever happens here.
    """
    missing = store.missing(specs, retry_failed=retry_failed)
    queue = _Queue(batches(missing, slots=executor.slots))
    progress = Progress(len(specs), len(specs) - len(missing), executor.slots, queue.cost)
    progress.failed_before = 0 if retry_failed else len(store.failed(specs))
    losses = store.losses()
    for spec in specs:
        if (loss := losses.get(spec.identity)) is not None:
            progress.compare(spec, loss)
    session = _begin(store, specs, progress, command, scale)
    under_way = 0
    unwritten: list[tuple[RunSpec, Outcome]] = []
    try:
        watcher.show(progress)
        while queue or under_way:
            while queue and under_way < executor.slots:
                executor.submit(queue.pop(_LONGEST / progress.pace))
                under_way += 1
            # Only now, while the workers train on: the disk may take its time.
            _write(store, session, unwritten, progress)
            watcher.show(progress)
            for report in executor.wait(1.0):
                under_way -= 1
                unwritten += _settled(report, queue, progress, watcher)
            progress.slots = executor.slots
        _write(store, session, unwritten, progress)
        watcher.show(progress)
    except BaseException:
        # What went wrong may be the store itself; the error to see is the first one.
        with contextlib.suppress(StoreError):
            _write(store, session, unwritten, progress)
            _end(store, session, "stopped")
        raise
    _end(store, session, "complete")
    return progress


def _settled(
    report: Done | Lost, queue: "_Queue", progress: Progress, watcher: Watcher
) -> list[tuple[RunSpec, Outcome]]:
    """The runs that a report ends, with their outcomes; what is worth another try is queued."""
    batch = report.batch
    if isinstance(report, Done):
        progress.busy += report.seconds
        progress.cost_done += batch.cost
        progress.cost_left -= batch.cost
        return list(zip(batch.specs, report.outcomes, strict=True))
    finished = _given_up(report, queue, watcher)
    progress.cost_left -= batch.cost * len(finished) / len(batch)
    return finished


def _write(
    store: Store,
    session: int,
    unwritten: list[tuple[RunSpec, Outcome]],
    progress: Progress,
) -> None:
    """Store finished runs and empty the list of them."""
    if not unwritten:
        return
    store.add_many(unwritten, session=session)
    for spec, outcome in unwritten:
        progress.count(spec, outcome)
    unwritten.clear()


def _given_up(report: Lost, queue: "_Queue", watcher: Watcher) -> list[tuple[RunSpec, Outcome]]:
    """Queue what is worth another try, and return the runs that are not, as failed."""
    batch = report.batch
    first = batch.specs[0]
    what = f"{len(batch)} runs of {first.study} {first.problem}" if len(batch) > 1 else "a run"
    if len(batch) > 1:
        watcher.note(f"{what}: {report.reason}; trying again in halves")
        queue.push(batch.halves())
        return []
    if report.again and batch.crashes + 1 < _CRASHES:
        watcher.note(f"{what}: {report.reason}; trying again")
        queue.push([Batch(batch.specs, batch.cost, batch.crashes + 1)])
        return []
    watcher.note(
        f"{first.study} {first.problem} {first.scheme} seed {first.seed} failed: {report.reason}"
    )
    return [(first, Outcome("failed", reason=report.reason, version=kandle.__version__))]


def _begin(
    store: Store, specs: Sequence[RunSpec], progress: Progress, command: str, scale: str
) -> int:
    study = specs[0].study if specs else ""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return store.execute(
        "INSERT INTO sessions (study, scale, command, started, planned, done) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (study, scale, command, now, progress.planned, progress.stored),
    )


def _end(store: Store, session: int, how: str) -> None:
    store.execute("UPDATE sessions SET ended = ? WHERE id = ?", (how, session))


class _Queue:
    """Batches to be run, the most expensive first; of equals, the one that came first."""

    def __init__(self, waiting: Iterable[Batch]):
        self._heap: list[tuple[float, int, Batch]] = []
        self._count = 0
        self.push(waiting)

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def cost(self) -> float:
        return sum(batch.cost for _, _, batch in self._heap)

    def push(self, waiting: Iterable[Batch]) -> None:
        for batch in waiting:
            heapq.heappush(self._heap, (-batch.cost, self._count, batch))
            self._count += 1

    def pop(self, longest: float) -> Batch:
        """The next batch, or the part of it that costs at most `longest`, if runs can be parted."""
        batch = heapq.heappop(self._heap)[2]
        while len(batch) > 1 and batch.cost > longest:
            batch, rest = batch.halves()
            self.push([rest])
        return batch
