"""Errors of a trained model on the evaluation grid and on held-out samples.

Each model is evaluated on its own, in blocks of one size, so that its errors do not depend on other
models, one compiled program serves all grids, and memory stays small.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from kandle.nn import KAN
from kandle.problems import PDE, Problem, relative_l2, robust_error

BLOCK = 8192


class Errors(NamedTuple):
    """Relative L² and median relative error on the grid, mean squared error on test samples."""

    l2: float = math.nan
    l2_robust: float = math.nan
    test_mse: float = math.nan


@eqx.filter_jit
def _forward(model: KAN, x: Float[ArrayLike, "N n_in"]) -> Float[Array, "N n_out"]:
    return model(x)


def predict(model: KAN, x: Float[ArrayLike, "N n_in"]) -> Float[np.ndarray, "N n_out"]:
    """The model's outputs, in its own precision.

    A normalized model takes its statistics from all rows of x, unless it is frozen.
    """
    x = np.asarray(x, model.dtype)
    if any(layer.normalized and layer.mean is None for layer in model.layers):
        model = model.freeze(x)
    outputs = []
    for start in range(0, len(x), BLOCK):
        block = x[start : start + BLOCK]
        # Padding the last block lets one compiled program serve all blocks.
        padded = np.pad(block, ((0, BLOCK - len(block)), (0, 0)), mode="edge")
        outputs.append(np.asarray(_forward(model, padded))[: len(block)])
    return np.concatenate(outputs)


def evaluate(model: KAN, problem: Problem, data: Mapping[str, np.ndarray]) -> Errors:
    """The errors that the problem defines, summed in float64; the others are NaN."""
    errors = Errors()
    points, reference = problem.evaluation()
    if reference is not None:
        prediction = predict(model, points)
        if isinstance(problem, PDE):
            prediction = problem.transformed(points, prediction)
        if np.isfinite(prediction).all():
            # Dividing by a tiny reference may overflow; the median tolerates infinities.
            with np.errstate(over="ignore"):
                robust = robust_error(prediction, reference)
            errors = errors._replace(l2=relative_l2(prediction, reference), l2_robust=robust)
    if "x_test" in data:
        difference = predict(model, data["x_test"]) - data["y_test"].astype(np.float64)
        errors = errors._replace(test_mse=float(np.mean(difference**2)))
    return errors
