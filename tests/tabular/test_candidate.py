"""Penalties that do clearly worse than another are given up, others are not."""

import numpy as np
import pytest

from kandle.tabular._candidate import Candidate
from kandle.tabular._loop import State


def candidate(losses):
    """One whose networks have these lowest validation losses."""
    best_loss = np.asarray(losses, np.float32)
    unused = np.zeros((len(best_loss), 1), np.float32)
    step = np.zeros(len(best_loss), np.int32)
    state = State(unused, None, step[0], unused, best_loss, best_loss, step)  # pyright: ignore[reportArgumentType]
    return Candidate(1e-3, 0.0, state)


@pytest.mark.parametrize(
    ("own", "best", "worse"),
    [
        ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], False),
        # The same difference in every network, though the networks differ by more.
        ([1.1, 2.1, 3.1], [1.0, 2.0, 3.0], True),
        # As large a mean difference, but from one network alone.
        ([1.3, 2.0, 3.0], [1.0, 2.0, 3.0], False),
        ([0.9, 1.9, 2.9], [1.0, 2.0, 3.0], False),
        ([1.0, np.inf], [1.0, 2.0], True),
        ([np.inf, np.inf], [np.inf, 2.0], False),
        # One network says nothing about how networks differ.
        ([9.0], [1.0], False),
    ],
)
def test_losses_are_compared_in_pairs(own, best, worse):
    assert candidate(own).is_worse_than(candidate(best)) == worse
    assert candidate(own).validation_loss == pytest.approx(np.mean(own))
