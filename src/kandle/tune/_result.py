"""What a search found, and how sure it is."""

import itertools
import math
from dataclasses import dataclass

import numpy as np

from kandle import init
from kandle.tune._plan import Plan

# As many are drawn, if all that there are were more.
_RESAMPLES = 5000


@dataclass(frozen=True)
class Candidate:
    """One pair of exponents as far as it was trained.

    Attributes:
        alpha, beta: the exponents.
        rung: the last rung it took part in.
        steps: updates made.
        losses: the loss of each seed there, for a table that on the rows this seed held out;
            infinite for a training that diverged.
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

    Losses are those of the training, and for a table the mean squared errors on rows held out of
    its training rows: what fits noisy rows closest predicts others badly.

    Attributes:
        candidates: by the rung they reached, then by their loss.
        plan: what was trained.
        exhaustive: model-steps of an exhaustive search with the same seeds and steps.
        widths, grid, degree: the architecture searched for.
        seeds, steps: of a whole training; if a time was too short, the plan ends before.
        held_out: for a table, how many of the training rows each seed held out; otherwise None.
    """

    candidates: tuple[Candidate, ...]
    plan: Plan
    exhaustive: int
    widths: tuple[int, ...]
    grid: int
    degree: int
    seeds: int
    steps: int
    held_out: int | None = None

    @property
    def best(self) -> Candidate:
        return self.candidates[0]

    @property
    def scheme(self) -> init.PowerLaw:
        """The best pair as a scheme."""
        return init.PowerLaw(self.best.alpha, self.best.beta)

    @property
    def finalists(self) -> tuple[Candidate, ...]:
        """The pairs that were trained to the search's end."""
        return tuple(c for c in self.candidates if c.rung == self.best.rung)

    @property
    def ranked_by(self) -> str:
        """What pairs were compared by, in words."""
        if self.held_out is None:
            return "the training loss"
        rows = "1 row" if self.held_out == 1 else f"{self.held_out} rows"
        others = ", others for every seed" if self.plan.rungs[-1].seeds > 1 else ""
        return f"the error on {rows} held out of the training rows{others}"

    @property
    def cut(self) -> str | None:
        """What was left out of the search for lack of time, in words; None if nothing was."""
        last = self.plan.rungs[-1]
        short = []
        if last.steps < self.steps:
            short.append(f"after {last.steps:,} of {self.steps:,} steps")
        if last.seeds < self.seeds:
            short.append(f"from {last.seeds} of {self.seeds} seeds")
        if not short:
            return None
        return f"the time was too short: the best pairs were compared {' and '.join(short)}"

    @property
    def confidence(self) -> float:
        """How often the best pair would be found best again among the finalists.

        The share of resamples of the seeds, drawn with replacement and the same ones for all
        finalists, in which its median loss is the lowest; ties are shared. With a seed goes which
        rows of a table were held out, so that they are resampled too. The pair was chosen on
        these very losses, which flatters it. NaN for one seed, which cannot tell, and for one
        finalist.
        """
        losses = np.asarray([c.losses for c in self.finalists])  # (finalists, seeds)
        n, seeds = losses.shape
        if n < 2 or seeds < 2:
            return math.nan
        if seeds**seeds <= _RESAMPLES:
            drawn = np.asarray(list(itertools.product(range(seeds), repeat=seeds)))
        else:
            drawn = np.random.default_rng(0).integers(seeds, size=(_RESAMPLES, seeds))
        medians = np.median(losses[:, drawn], axis=-1)  # (finalists, resamples)
        lowest = medians == medians.min(axis=0)
        return float(np.mean(lowest[0] / lowest.sum(axis=0)))

    def landscape(self) -> tuple[list[float], list[float], np.ndarray]:
        """(alphas, betas, loss after the first rung of the first seed): all pairs alike."""
        alphas = sorted({c.alpha for c in self.candidates})
        betas = sorted({c.beta for c in self.candidates})
        values = np.full((len(alphas), len(betas)), np.nan)
        for c in self.candidates:
            values[alphas.index(c.alpha), betas.index(c.beta)] = c.first_loss
        return alphas, betas, values

    def code(self) -> str:
        """Lines that build a network with the best pair, to be pasted."""
        degree = "" if self.degree == 3 else f", degree={self.degree}"
        start = f"init.PowerLaw(alpha={self.best.alpha!r}, beta={self.best.beta!r})"
        return (
            "import jax\nfrom kandle import KAN, init\n\n"
            f"model = KAN({list(self.widths)}, grid={self.grid!r}{degree}, init={start}, "
            "key=jax.random.key(0))"
        )
