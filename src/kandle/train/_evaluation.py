"""How good a trained model is: errors on the evaluation grid and on held-out samples.

Every model is evaluated by itself, in blocks of one size: neither the models beside it nor the size
of a grid decides what is computed, and memory stays small.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from kandle.nn import KAN
from kandle.problems import relative_l2, robust_error

BLOCK = 8192


class Errors(NamedTuple):
    """Relative L² and median relative error on the grid, mean squared error on test samples."""

    l2: float = math.nan
    l2_robust: float = math.nan
    test_mse: float = math.nan


@eqx.filter_jit
def _forward(model: KAN, x):
    return model(x)


def predict(model: KAN, x: np.ndarray) -> np.ndarray:
    """The model's outputs in its own precision.

    A normalized model sees all of x as one batch, unless it is frozen.
    """
    x = np.asarray(x, model.dtype)
    if any(layer.normalized and layer.mean is None for layer in model.layers):
        model = model.freeze(x)
    outputs = []
    for start in range(0, len(x), BLOCK):
        block = x[start : start + BLOCK]
        # The last block repeats its last row, so that one compiled program serves all.
        padded = np.pad(block, ((0, BLOCK - len(block)), (0, 0)), mode="edge")
        outputs.append(np.asarray(_forward(model, padded))[: len(block)])
    return np.concatenate(outputs)


def evaluate(model: KAN, problem: Any, data: Mapping[str, np.ndarray]) -> Errors:
    """The errors that a problem defines, sums in float64; NaN for those it does not."""
    errors = Errors()
    points, reference = problem.evaluation()
    if reference is not None:
        prediction = predict(model, points)
        if np.isfinite(prediction).all():
            # A reference that all but vanishes makes an infinity, which a median does not mind.
            with np.errstate(over="ignore"):
                robust = robust_error(prediction, reference)
            errors = errors._replace(l2=relative_l2(prediction, reference), l2_robust=robust)
    if "x_test" in data:
        difference = predict(model, data["x_test"]) - data["y_test"].astype(np.float64)
        errors = errors._replace(test_mse=float(np.mean(difference**2)))
    return errors
