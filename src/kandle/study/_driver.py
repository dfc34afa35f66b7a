"""The driver: trains the runs that a store lacks, stores the results, and retries what is lost."""

import contextlib
import heapq
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import kandle
from kandle.store import Outcome, RunSpec, Store, StoreError
from kandle.study import _catalogue as catalogue
from kandle.study._batch import Batch, batches
from kandle.study._executor import Done, Executor, Lost

# A run is given up after this many workers have died while they trained it.
_CRASHES = 3
# Seconds that a batch of several runs may take, judged by the batches so far.
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
    """Runs of the plan that failed in an earlier session."""
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
        """An estimate from the batches so far; None before the first."""
        if self.done == self.planned:
            return 0.0
        if not self.cost_done:
            return None
        return self.cost_left * self.pace / max(self.slots, 1)

    @property
    def pace(self) -> float:
        """Seconds that batches took, per second of the cost model; 1 before the first."""
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
        """Remember a run if it is the best on its problem so far."""
        lowest = self.best.get(spec.problem)
        if lowest is None or loss < lowest[0]:
            self.best[spec.problem] = loss, spec


class Watcher(Protocol):
    """Receives the progress from time to time, and messages about what goes wrong."""

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

    A batch whose worker dies or raises is split in halves and tried again, down to single runs. A
    run that raises on its own, or during which three workers died, is stored as failed with its
    reason. Runs that are stored stay stored, whatever happens here.
    """
    stored = {row.identity: row for row in store.rows()}
    missing, failed_before = [], 0
    for spec in specs:
        row = stored.get(spec.identity)
        failed = row is not None and row.status == "failed"
        if row is None or (failed and retry_failed):
            missing.append(spec)
        failed_before += failed and not retry_failed
    queue = _Queue(batches(missing, slots=executor.slots))
    progress = Progress(len(specs), len(specs) - len(missing), executor.slots, queue.cost)
    progress.failed_before = failed_before
    for spec in specs:
        row = stored.get(spec.identity)
        if row is not None and row.status == "ok" and row.loss is not None:
            progress.compare(spec, row.loss)
    session = store.begin_session(
        specs[0].study if specs else "",
        scale,
        command,
        planned=progress.planned,
        done=progress.stored,
    )
    if looks := catalogue.looks(missing):
        store.add_schemes(looks)
    under_way = 0
    unwritten: list[tuple[RunSpec, Outcome]] = []
    try:
        watcher.show(progress)
        while queue or under_way:
            while queue and under_way < executor.slots:
                executor.submit(queue.pop(_LONGEST / progress.pace))
                under_way += 1
            # Written only now, while the workers are busy: the disk may be slow.
            _write(store, session, unwritten, progress)
            watcher.show(progress)
            for report in executor.wait(1.0):
                under_way -= 1
                unwritten += _settled(report, queue, progress, watcher)
            progress.slots = executor.slots
        _write(store, session, unwritten, progress)
        watcher.show(progress)
    except BaseException:
        # If the store itself is the cause, the first error is the one to report.
        with contextlib.suppress(StoreError):
            _write(store, session, unwritten, progress)
            store.end_session(session, "stopped")
        raise
    store.end_session(session, "complete")
    return progress


def _settled(
    report: Done | Lost, queue: "_Queue", progress: Progress, watcher: Watcher
) -> list[tuple[RunSpec, Outcome]]:
    """The runs that a report finishes, with their outcomes; what is worth a retry is queued."""
    batch = report.batch
    if isinstance(report, Done):
        progress.busy += report.seconds
        progress.cost_done += batch.cost
        progress.cost_left -= batch.cost
        return list(zip(batch.specs, report.outcomes, strict=True))
    finished = _retry_or_give_up(report, queue, watcher)
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


def _retry_or_give_up(
    report: Lost, queue: "_Queue", watcher: Watcher
) -> list[tuple[RunSpec, Outcome]]:
    """Queue what is worth a retry, and return the runs that are not, as failed."""
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


class _Queue:
    """Batches to be run, the most expensive first; among equals, the one that came first."""

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
        """The next batch, or as much of it as costs at most `longest`; at least one run."""
        batch = heapq.heappop(self._heap)[2]
        while len(batch) > 1 and batch.cost > longest:
            batch, rest = batch.halves()
            self.push([rest])
        return batch
