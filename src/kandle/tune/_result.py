"""What a search found, and how sure it is."""

import math
from dataclasses import dataclass

import numpy as np

from kandle import init
from kandle.tune._plan import Plan


@dataclass(frozen=True)
class Candidate:
    """One pair of exponents as far as it was trained.

    Attributes:
        alpha, beta: the exponents.
        rung: the last rung it took part in.
        steps: updates made.
        losses: the loss of each seed there; infinite for a training that diverged.
        first_loss: that of the first seed after the first rung, which all pairs have.
    """

    alpha: float
    beta: float
    rung: int
    steps: int
    losses: tuple[float, ...]
    first_loss: float

    @property
    def loss(self) -> float:
        """The median over seeds."""
        return float(np.median(self.losses))


@dataclass(frozen=True)
class Tuned:
    """The outcome of a search: all pairs, the best first.

    Attributes:
        candidates: by the rung they reached, then by their loss.
        plan: what was trained.
        exhaustive: model-steps of an exhaustive search with the same seeds and steps.
        widths, grid, degree: the architecture searched for.
    """

    candidates: tuple[Candidate, ...]
    plan: Plan
    exhaustive: int
    widths: tuple[int, ...]
    grid: int
    degree: int

    @property
    def best(self) -> Candidate:
        return self.candidates[0]

    @property
    def scheme(self) -> init.PowerLaw:
        """The best pair as a scheme."""
        return init.PowerLaw(self.best.alpha, self.best.beta)

    @property
    def finalists(self) -> tuple[Candidate, ...]:
        """The pairs that were trained to the end."""
        return tuple(c for c in self.candidates if c.rung == self.best.rung)

    @property
    def confidence(self) -> float:
        """How often a run of the best pair has a lower loss than one of the runner-up.

        Over all pairs of seeds, ties counting one half: 1 is always, 0.5 is a coin's toss. NaN
        without a runner-up.
        """
        if len(self.finalists) < 2:
            return math.nan
        a = np.asarray(self.finalists[0].losses)[:, None]
        b = np.asarray(self.finalists[1].losses)[None, :]
        return float(np.mean((a < b) + 0.5 * (a == b)))

    def landscape(self) -> tuple[list[float], list[float], np.ndarray]:
        """(alphas, betas, loss after the first rung of the first seed): all pairs alike."""
        alphas = sorted({c.alpha for c in self.candidates})
        betas = sorted({c.beta for c in self.candidates})
        values = np.full((len(alphas), len(betas)), np.nan)
        for c in self.candidates:
            values[alphas.index(c.alpha), betas.index(c.beta)] = c.first_loss
        return alphas, betas, values

    def code(self) -> str:
        """The line that builds a network with the best pair."""
        degree = "" if self.degree == 3 else f", degree={self.degree}"
        return (
            f"KAN({list(self.widths)}, grid={self.grid}{degree}, init=init.PowerLaw("
            f"alpha={self.best.alpha:g}, beta={self.best.beta:g}), key=jax.random.key(0))"
        )
