"""A budget of time: what model-steps take here, and how many of them still fit."""

import time
from collections.abc import Callable, Sequence

from kandle._errors import UserError
from kandle.tune._budget import Budget
from kandle.tune._plan import Plan, Rung, least_budget, plan, rung_count, shorten

# Of the time that is left, what is planned with: the machine may have other work to do.
_SAFE = 0.9


class Clock:
    """Runs from when a search begins.

    Whatever is compiled and built before a rung's first steps is its overhead; both that and the
    time per step are measured again in every rung, because batches get smaller and machines busy.
    """

    def __init__(self, budget: Budget):
        assert budget.seconds is not None
        self._budget = budget
        self._began = time.perf_counter()
        self._overhead = self._a_step = 0.0  # seconds per rung and per step of one model

    def plan(
        self, pairs: int, seeds: int, steps: int, advance: Callable[[int], None], timed: int = 8
    ) -> Plan:
        """A plan at the speed of the first steps, which are made here.

        Args:
            pairs, seeds, steps: as of `kandle.tune.plan`.
            advance: makes steps with the first seed of all pairs.
            timed: how many of them are measured, after one that compiles.
        """
        timed = min(timed, steps - 1)
        began = time.perf_counter()
        advance(1)
        compiled = time.perf_counter()
        advance(timed)
        # What came before this is done once; every rung compiles for a batch of its own size.
        self._overhead = compiled - began
        took = time.perf_counter() - compiled if timed else self._overhead
        self._a_step = took / (max(1, timed) * pairs)
        budget, rest = self._budget, rung_count(pairs) - 1
        least = least_budget(pairs, seeds, steps, 1 + timed)
        needed = self._passed() + (rest * self._overhead + least * self._a_step) / _SAFE
        if needed > self._total:
            raise UserError(
                f"{budget.said(self._total)} is too short for {pairs} pairs, {seeds} seeds and "
                f"{steps:,} steps: at least about {budget.said(1.2 * needed)} are needed here."
            )
        model_steps = (_SAFE * self._left() - rest * self._overhead) / self._a_step
        return plan(pairs, seeds, steps, max(least, model_steps), 1 + timed)

    def note(self, began: float, marks: Sequence[tuple[float, int]], cost: int) -> None:
        """Learn from a rung that began then and has just ended.

        Args:
            began: seconds, of `time.perf_counter`.
            marks: (seconds, model-steps made), on the way, after the compilation.
            cost: model-steps of the rung.
        """
        if len(marks) > 1 and marks[-1][1] > marks[0][1]:
            self._a_step = (marks[-1][0] - marks[0][0]) / (marks[-1][1] - marks[0][1])
        self._overhead = max(0.0, time.perf_counter() - began - cost * self._a_step)

    def fit(self, rungs: Sequence[Rung], after: Rung) -> tuple[Rung, ...]:
        """The rungs, shortened to the time that is left; none, if nothing fits."""
        left = _SAFE * self._left() / self._a_step
        return shorten(rungs, after, left, self._overhead / self._a_step)

    @property
    def _total(self) -> float:
        assert self._budget.seconds is not None
        return self._budget.seconds

    def _passed(self) -> float:
        return time.perf_counter() - self._began

    def _left(self) -> float:
        return max(0.0, self._total - self._passed())
