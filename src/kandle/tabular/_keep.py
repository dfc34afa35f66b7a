"""Early stopping: keep the weights that validate best, and give up penalties that do worse."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int

from kandle.train import Data, Population, State

# Smaller improvements of the validation loss, as a share and altogether, do not prolong a training.
_WORTH, _LEAST = 5e-3, 1e-4

# Updates after which penalties that do worse are given up. Comparing later costs nearly twice as
# many updates, and the scores are the same.
_COMPARED_AFTER = 100


@dataclass
class Best:
    """What a population reached on one grid.

    Attributes:
        loss: the lowest validation loss of each network.
        noted_loss, noted_step: the validation loss after the last improvement worth waiting for,
            and after how many updates on this grid it was measured.
        state: the population as it was at these lowest losses, model by model.
        scores: the score of each network, whenever it was measured.
        began: the population's number of updates when it began to train on this grid.
    """

    loss: Float[np.ndarray, " P"]
    noted_loss: Float[np.ndarray, " P"]
    noted_step: Int[np.ndarray, " P"]
    state: Any
    began: int
    scores: list[Float[np.ndarray, " P"]] = field(default_factory=list)

    @classmethod
    def of(cls, population: Population) -> "Best":
        count = len(population)
        infinite = np.full(count, np.inf)
        state = jax.tree.map(np.array, population.state)
        return cls(infinite, infinite.copy(), np.zeros(count, int), state, population.steps)

    @property
    def mean(self) -> float:
        """The mean of the lowest losses; infinite if one of them never was a number."""
        return float(np.mean(self.loss))

    def note(self, state: State, step: int, losses: np.ndarray, scores: np.ndarray) -> None:
        """Losses and scores that were measured after a step."""
        better = losses < self.loss
        if better.any():
            self.loss = np.where(better, losses, self.loss)

            def replace(best: np.ndarray, now: Any) -> None:
                best[better] = np.asarray(now)[better]

            jax.tree.map(replace, self.state, state)
        # (1 - 0.005) · ∞ - 0.0001 = ∞: the first loss counts.
        noted = losses < (1 - _WORTH) * self.noted_loss - _LEAST
        self.noted_loss = np.where(noted, losses, self.noted_loss)
        self.noted_step = np.where(noted, step, self.noted_step)
        self.scores.append(scores)

    def is_worse_than(self, other: "Best") -> bool:
        """Whether the validation losses are higher by more than the networks differ in it.

        Network p of both began with the same weights and holds out the same rows, so their losses
        are compared in pairs: the mean difference against its standard error.
        """
        if not np.isfinite(self.loss).all():
            return bool(np.isfinite(other.loss).all())
        gap = self.loss - other.loss
        return len(gap) > 1 and gap.mean() > gap.std(ddof=1) / np.sqrt(len(gap))


class KeepBest:
    """The weights with the lowest validation loss are the result, of the penalty that reaches it.

    Args:
        held_out: the data that every network is measured on.
        patience: updates without an improvement after which a population stops; the networks are
            measured at least as often.
        every: updates between two measurements.
        unit: as how many updates one of the method counts.
    """

    def __init__(self, held_out: Data, patience: int, every: int = 25, unit: int = 1):
        self._held_out, self._patience, self._unit = held_out, patience, unit
        self._every = max(1, min(every, patience) // unit)
        self._best: dict[Population, list[Best]] = {}
        self._started: list[Population] = []  # on the present grid

    def history(self, population: Population) -> list[Best]:
        """What a population reached on each of its grids."""
        return self._best[population]

    def best(self, population: Population) -> Best:
        """What a population reached on its present grid."""
        return self._best[population][-1]

    def start(self, population: Population) -> None:
        self._best.setdefault(population, []).append(Best.of(population))
        if population in self._started:  # on a coarser grid
            self._started = []
        self._started.append(population)
        # What a training begins with is the first that it has to surpass.
        self.measure(population)

    def next_measurement(self, done: int) -> float:
        return done - done % self._every + self._every

    def measure(self, population: Population) -> None:
        best = self.best(population)
        losses, scores = population.measured(self._held_out).T
        step = self._done(population)
        best.note(population.state, step, losses.astype(np.float64), scores)

    def remaining(self, populations: Sequence[Population]) -> list[Population]:
        """Those that got better lately and may still become the best."""
        [leader] = self.choose(self._started)
        remaining = []
        for population in populations:
            best, done = self.best(population), self._done(population)
            stale = done - int(best.noted_step.max()) >= self._patience
            given_up = done >= _COMPARED_AFTER and best.is_worse_than(self.best(leader))
            if not (stale or given_up or population.converged):
                remaining.append(population)
        return remaining

    def _done(self, population: Population) -> int:
        """The updates that a population made on its present grid."""
        return (population.steps - self.best(population).began) * self._unit

    def choose(self, populations: Sequence[Population]) -> list[Population]:
        return [min(populations, key=lambda population: self.best(population).mean)]

    def models(self, population: Population) -> list[Any]:
        return population.models(self.best(population).state)
