"""Successive halving: how many pairs, with how many seeds, train for how long."""

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

from kandle._errors import UserError

# One pair in three survives each rung, down to this many, which are trained to the end.
_KEPT, _FINALISTS = 3, 3


@dataclass(frozen=True)
class Rung:
    """`pairs` exponents, each from `seeds` starts, until `steps` updates are made."""

    pairs: int
    seeds: int
    steps: int


@dataclass(frozen=True)
class Plan:
    """The rungs of a search; models that go on are not trained again from the beginning."""

    rungs: tuple[Rung, ...]

    @property
    def model_steps(self) -> int:
        """Updates of single models in all."""
        return _cost(self.rungs)


def plan(pairs: int, seeds: int, steps: int, budget: float, at_least: int = 1) -> Plan:
    """The longest first looks that the budget allows.

    The steps of the rungs grow by one factor g from rung to rung up to `steps`; g is the smallest
    that keeps within the budget. The first rung has one seed, all others have all; if there are no
    others, it has all.

    Args:
        pairs: number of exponent pairs.
        seeds: starts of every pair that is not dropped after the first rung.
        steps: length of a whole training.
        budget: model-steps; what an exhaustive search costs, or more, gives just that.
        at_least: least steps of the first rung.

    Example:
        >>> plan(81, seeds=3, steps=2000, budget=97_200).rungs[-1]
        Rung(pairs=3, seeds=3, steps=2000)
    """
    if budget >= pairs * seeds * steps:
        return Plan((Rung(pairs, seeds, steps),))
    low, high = 1.0, _steepest(steps)
    if (least := least_budget(pairs, seeds, steps, at_least)) > budget:
        raise UserError(
            f"A budget of {budget:,.0f} model-steps is too small for {pairs} pairs, {seeds} seeds "
            f"and {steps:,} steps: at least {least:,} are needed."
        )

    def rungs(growth: float) -> tuple[Rung, ...]:
        return _rungs(pairs, seeds, steps, growth, at_least)

    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if _cost(rungs(middle)) <= budget else (middle, high)
    return Plan(rungs(high))


def least_budget(pairs: int, seeds: int, steps: int, at_least: int = 1) -> int:
    """Model-steps without which `plan` cannot plan."""
    return _cost(_rungs(pairs, seeds, steps, _steepest(steps), at_least))


def rung_count(pairs: int) -> int:
    """How often a search over so many pairs looks at them."""
    return len(_counts(pairs))


def shorten(
    rungs: Sequence[Rung], after: Rung, budget: float, a_rung: float = 0.0
) -> tuple[Rung, ...]:
    """What is left of rungs that follow one, on a budget that turned out to be small.

    All end earlier, so that they fit; if they never do, the first of them are left out, and if none
    fits, nothing is left.

    Args:
        rungs: as they were planned.
        after: the rung before them, already trained.
        budget: model-steps that are left.
        a_rung: what every rung costs besides, in model-steps.

    Example:
        >>> shorten([Rung(3, 1, 100)], after=Rung(9, 1, 10), budget=60)
        (Rung(pairs=3, seeds=1, steps=30),)
    """
    for first in range(len(rungs)):
        rest = rungs[first:]

        def cut(most: int, rest: Sequence[Rung] = rest) -> tuple[Rung, ...]:
            return tuple(Rung(r.pairs, r.seeds, min(r.steps, most)) for r in rest)

        # Whole numbers from one step more than there are to what was planned, the most that fits.
        fits = bisect.bisect_right(
            range(after.steps + 1, max(after.steps + 1, rest[-1].steps) + 1),
            budget - a_rung * len(rest),
            key=lambda most: _cost((after, *cut(most))) - _cost((after,)),
        )
        if fits:
            return cut(after.steps + fits)
    return ()


def _counts(pairs: int) -> list[int]:
    counts = [pairs]
    while counts[-1] > _FINALISTS:
        counts.append(max(_FINALISTS, counts[-1] // _KEPT))
    return counts


def _steepest(steps: int) -> float:
    """A factor that leaves one step to the first of any number of rungs."""
    return float(max(2, steps))


def _rungs(pairs: int, seeds: int, steps: int, growth: float, at_least: int) -> tuple[Rung, ...]:
    counts = _counts(pairs)
    last = len(counts) - 1
    return tuple(
        Rung(
            n,
            1 if i == 0 and last > 0 else seeds,
            min(steps, max(at_least, round(steps / growth ** (last - i)))),
        )
        for i, n in enumerate(counts)
    )


def _cost(rungs: Sequence[Rung]) -> int:
    total, seeds_before, steps_before = 0, 0, 0
    for rung in rungs:
        going_on, fresh = min(seeds_before, rung.seeds), max(0, rung.seeds - seeds_before)
        total += rung.pairs * (going_on * (rung.steps - steps_before) + fresh * rung.steps)
        seeds_before, steps_before = rung.seeds, rung.steps
    return total
