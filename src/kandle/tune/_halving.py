"""Successive halving: train all pairs a little, then the better ones on."""

import time
from collections.abc import Callable, Sequence

import numpy as np

from kandle._errors import UserError
from kandle.train import Data, Population
from kandle.tune._clock import Clock
from kandle.tune._plan import Plan, Rung
from kandle.tune._result import Candidate

Pair = tuple[float, float]
# Model-steps done, of how many, best training loss.
Progress = Callable[[int, int, float], None]


class Racers:
    """The models of one seed, as many as are still in the race.

    Args:
        population: one model per pair.
        pairs: which pairs these are.
        held_out: the data that models are compared on, with an axis of models; None is what they
            are trained on.
    """

    def __init__(
        self,
        population: Population,
        pairs: Sequence[int],
        held_out: Data | None = None,
    ):
        self._population, self._pairs, self._held_out = population, list(pairs), held_out
        self.losses = np.full(len(self._pairs), np.nan)

    @property
    def steps(self) -> int:
        return self._population.steps

    @property
    def held_out_rows(self) -> int | None:
        return None if self._held_out is None else self._held_out["x"].shape[1]

    def keep(self, pairs: Sequence[int]) -> None:
        if list(pairs) != self._pairs:
            rows = [self._pairs.index(i) for i in pairs]
            self._population.keep(rows)
            self._pairs, self.losses = list(pairs), self.losses[rows]

    def advance(self, steps: int, report: Callable[[int, np.ndarray], None] | None = None) -> None:
        """Train on; a model that diverged has an infinite loss from then on."""
        if steps > 0:
            curve = self._population.advance(steps, report)
            fine = np.isfinite(curve).all(axis=0) & ~np.isinf(self.losses)
            losses = curve[-1]
            if self._held_out is not None:
                losses = self._population.losses(self._held_out)
            self.losses = np.where(fine & np.isfinite(losses), losses, np.inf)


Build = Callable[[Sequence[int], int], Racers]  # of some of the pairs, from a seed


class Race:
    """All seeds of the pairs that are still in, in the order of `alive`."""

    def __init__(self, pairs: int, first: Racers, build: Build, progress: Progress | None):
        self.alive = list(range(pairs))
        self.marks: list[tuple[float, int]] = []  # when how many model-steps were made
        self._build, self._progress = build, progress
        self._seeds, self._spent = {0: first}, first.steps * pairs

    def run(self, rung: Rung, total: int) -> np.ndarray:
        """Train the first of those alive until the rung's end: losses (seeds, pairs)."""
        self.alive, self.marks = self.alive[: rung.pairs], []
        for seed in range(rung.seeds):
            if seed not in self._seeds:
                self._seeds[seed] = self._build(self.alive, seed)
            racers = self._seeds[seed]
            racers.keep(self.alive)
            before, start = racers.steps, self._spent

            def report(done: int, now: np.ndarray, before=before, start=start) -> None:
                spent = start + (done - before) * len(now)
                self.marks.append((time.perf_counter(), spent))
                if self._progress is not None:
                    best = float(np.nanmin(now)) if np.isfinite(now).any() else float("nan")
                    self._progress(spent, total, best)

            racers.advance(rung.steps - before, report)
            self._spent += (rung.steps - before) * len(self.alive)
        return np.stack([self._seeds[seed].losses for seed in range(rung.seeds)])


def halve(
    pairs: Sequence[Pair],
    planned: Plan,
    first: Racers,
    build: Build,
    progress: Progress | None = None,
    clock: Clock | None = None,
) -> tuple[tuple[Candidate, ...], Plan]:
    """All pairs, the best first, and the rungs that were made.

    These are the planned ones, unless a clock says that the rest does not fit.
    """
    race = Race(len(pairs), first, build, progress)
    candidates: dict[int, Candidate] = {}
    made: list[Rung] = []
    rest = list(planned.rungs)
    while rest:
        rung, rest = rest[0], rest[1:]
        spent, began = Plan(tuple(made)).model_steps, time.perf_counter()
        losses = race.run(rung, Plan((*made, rung, *rest)).model_steps)
        made.append(rung)
        _check_some_converged(losses)
        order = np.argsort(np.median(losses, axis=0), kind="stable")
        for p in order:
            i = race.alive[p]
            candidates[i] = Candidate(
                alpha=pairs[i][0],
                beta=pairs[i][1],
                rung=len(made) - 1,
                steps=rung.steps,
                losses=tuple(losses[:, p].tolist()),
                first_loss=candidates[i].first_loss if i in candidates else float(losses[0, p]),
            )
        race.alive = [race.alive[p] for p in order]
        if clock is not None and rest:
            clock.note(began, race.marks, Plan(tuple(made)).model_steps - spent)
            rest = list(clock.fit(rest, rung))
    best_first = sorted(candidates.values(), key=lambda c: (-c.rung, c.loss))
    return tuple(best_first), Plan(tuple(made))


def _check_some_converged(losses: np.ndarray) -> None:
    if not np.isfinite(np.median(losses, axis=0)).any():
        which = "Every training" if np.isinf(losses).all() else "Most trainings of every pair"
        raise UserError(f"{which} diverged: a lower learning rate may help.")
