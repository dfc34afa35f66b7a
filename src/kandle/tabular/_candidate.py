"""The networks of one penalty while they train, beside those of others."""

import numpy as np

from kandle.tabular._loop import Penalty, State


class Candidate:
    """The networks that train with one penalty, and what was measured of them."""

    def __init__(self, smoothness: float, decay: float, state: State):
        count = len(state.weights)
        self.smoothness, self.state = smoothness, state
        self.penalty = Penalty(*(np.full(count, p, np.float32) for p in (smoothness, decay)))  # pyright: ignore[reportArgumentType]
        self.updates = 0
        self.losses: list[np.ndarray] = []
        self.scores: list[np.ndarray] = []

    @property
    def validation_loss(self) -> float:
        """The mean of the lowest validation losses; infinite if one of them never was a number."""
        return float(np.mean(np.asarray(self.state.best_loss, np.float64)))

    def is_worse_than(self, other: "Candidate") -> bool:
        """Whether the validation losses are higher by more than the networks differ in it.

        Network p of both began with the same weights and holds out the same rows, so their losses
        are compared in pairs: the mean difference against twice its standard error.
        """
        own, best = (np.asarray(c.state.best_loss, np.float64) for c in (self, other))
        if not np.isfinite(own).all():
            return bool(np.isfinite(best).all())
        gap = own - best
        return len(gap) > 1 and gap.mean() > 2 * gap.std(ddof=1) / np.sqrt(len(gap))
