"""The points that the published runs were trained on."""

import dataclasses
import functools
from typing import Any

import numpy as np

from kandle.problems._feynman import FEYNMAN
from kandle.problems._functions import FUNCTIONS

_SEED = 42  # of the draw and of the split
_GAP = 1e-6  # that the Feynman equations keep from -1 and 0


def published(problem: Any) -> Any:
    """The problem on the points that its published runs were trained on.

    Those are known for the five functions and the Feynman equations. Other problems are given back
    as they are: the points of the differential equations are a grid, here as there.

    >>> from kandle import problems
    >>> problems.published(problems.get("f1")).arrays()["x"][0]
    array([-0.7083397,  0.1243434], dtype=float32)
    """
    for known, gap in ((FUNCTIONS, 0.0), (FEYNMAN, _GAP)):
        if known.get(problem.name) is problem:
            points = functools.partial(_points, problem.n_train, problem.n_test, problem.n_in, gap)
            return dataclasses.replace(problem, points=points)
    return problem


def _points(n_train: int, n_test: int, n_in: int, gap: float) -> np.ndarray:
    """Training points first: JAX's Threefry of old, and the shuffle of NumPy's `RandomState`."""
    import jax

    from kandle import _threefry

    n = n_train + n_test
    x = np.asarray(_threefry.uniform(jax.random.key(_SEED), (n, n_in), -1.0 + gap, 1.0))
    x = np.where(np.abs(x) < gap, np.sign(x) * np.float32(gap), x)
    order = np.random.RandomState(_SEED).permutation(n)
    return x[np.roll(order, -n_test)].astype(np.float64)
