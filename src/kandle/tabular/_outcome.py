"""What a training on rows results in."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from kandle.nn import KAN
from kandle.tabular._loop import State

Report = Callable[[int, int, float], None]  # updates made, the most there will be, training loss


@dataclass(frozen=True)
class Outcome:
    """Trained networks and how they got there.

    Attributes:
        model: the average of the networks.
        networks: the networks themselves.
        loss_curve: the training loss before every update, the mean over the networks.
        validation_scores: the score on the rows held out, the mean over the networks, when it was
            measured: before every update, or after some batches. Empty without validation.
        validation_loss: the mean of the lowest validation losses; NaN without validation.
        smoothness: the penalty that was used.
        updates: updates made.
        state: of all networks and their optimizer at the end, to continue from.
        held_out: rows that each network held out.
    """

    model: KAN
    networks: tuple[KAN, ...]
    loss_curve: Float[np.ndarray, " updates"]
    validation_scores: Float[np.ndarray, " measured"]
    validation_loss: float
    smoothness: float
    updates: int
    state: State
    held_out: int
