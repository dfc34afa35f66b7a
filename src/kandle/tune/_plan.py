"""Successive halving: how many pairs, with how many seeds, train for how long."""

from collections.abc import Sequence
from dataclasses import dataclass

from kandle._errors import UserError

# Of every three pairs one goes on, down to this many that are trained to the end.
_KEPT, _FINALISTS = 3, 3


@dataclass(frozen=True)
class Rung:
    """`pairs` exponents, each from `seeds` starts, until `steps` updates are made."""

    pairs: int
    seeds: int
    steps: int


@dataclass(frozen=True)
class Plan:
    """The rungs of a search; models that go on are not trained anew."""

    rungs: tuple[Rung, ...]

    @property
    def model_steps(self) -> int:
        """Updates of single models in all."""
        return _cost(self.rungs)


def plan(pairs: int, seeds: int, steps: int, budget: float, at_least: int = 1) -> Plan:
    """The longest first looks that the budget allows.

    The steps of the rungs grow by one factor g from rung to rung up to `steps`; g is the smallest
    that keeps within the budget. The first rung has one seed, all others have all.

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
    counts = [pairs]
    while counts[-1] > _FINALISTS:
        counts.append(max(_FINALISTS, counts[-1] // _KEPT))

    def rungs(growth: float) -> tuple[Rung, ...]:
        last = len(counts) - 1
        lengths = [max(at_least, round(steps / growth ** (last - i))) for i in range(len(counts))]
        return tuple(
            Rung(n, seeds if i else 1, min(steps, length))
            for i, (n, length) in enumerate(zip(counts, lengths, strict=True))
        )

    low, high = 1.0, float(max(2, steps))
    if _cost(rungs(high)) > budget:
        raise UserError(
            f"A budget of {budget:,.0f} model-steps is too small for {pairs} pairs, {seeds} seeds "
            f"and {steps:,} steps: at least {_cost(rungs(high)):,} are needed."
        )
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if _cost(rungs(middle)) <= budget else (middle, high)
    return Plan(rungs(high))


def _cost(rungs: Sequence[Rung]) -> int:
    total, seeds_before, steps_before = 0, 0, 0
    for rung in rungs:
        going_on, fresh = min(seeds_before, rung.seeds), max(0, rung.seeds - seeds_before)
        total += rung.pairs * (going_on * (rung.steps - steps_before) + fresh * rung.steps)
        seeds_before, steps_before = rung.seeds, rung.steps
    return total
