"""The random numbers and training points of the published runs."""

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float

from kandle.init import Sampler
from kandle.paper import _threefry
from kandle.paper._design import FEYNMAN, FUNCTIONS
from kandle.problems import PROBLEMS, Function, Problem

_SEED = 42  # of the points and of their split into training and test points
_GAP = 1e-6  # distance of the Feynman points from -1 and 0


@dataclass(frozen=True)
class PublishedSampler(Sampler):
    """The numbers of the published runs: `jax.random.key(42 + run)` gives run 1 to 5.

    Every layer draws from the network's key itself, so layers of one shape have equal initial
    weights. jaxKAN numbers the draws of a layer; its first, of c, is discarded.
    """

    def layer_keys(self, key: Array, n_layers: int) -> Sequence[Array]:
        return [key] * n_layers

    def weight_keys(self, key: Array) -> tuple[Array, Array]:
        return jax.random.fold_in(key, 1), jax.random.fold_in(key, 2)

    def normal(self, key: Array, shape: tuple[int, ...], dtype: np.dtype) -> Float[Array, "..."]:
        return _threefry.normal(key, shape).astype(dtype)

    def uniform(self, key: Array, shape: tuple[int, ...], dtype: np.dtype) -> Float[Array, "..."]:
        end = np.sqrt(3.0)
        return _threefry.uniform(key, shape, -end, end).astype(dtype)


class Draws(NamedTuple):
    """A problem on the points it is trained on, and the sampler of the initial weights."""

    problem: Problem
    sampler: Sampler


def published_draws(problem: Problem) -> Draws:
    """The problem on its published points, with the sampler of the published weights.

    >>> from kandle import problems
    >>> published_draws(problems.get("f1")).sampler
    PublishedSampler()
    """
    return Draws(published(problem), PublishedSampler())


def published(problem: Problem) -> Problem:
    """The problem on the points that its published runs were trained on.

    These are known for the five functions and the Feynman equations. Other problems are returned
    unchanged; the collocation points of the paper's PDEs are a grid in both cases.

    >>> from kandle import problems
    >>> published(problems.get("f1")).arrays()["x"][0]
    array([-0.7083397,  0.1243434], dtype=float32)
    """
    if isinstance(problem, Function) and PROBLEMS.get(problem.name) is problem:
        for names, gap in ((FUNCTIONS, 0.0), (FEYNMAN, _GAP)):
            if problem.name in names:
                points = functools.partial(
                    _points, problem.n_train, problem.n_test, problem.n_in, gap
                )
                return dataclasses.replace(problem, points=points)
    return problem


def _points(n_train: int, n_test: int, n_in: int, gap: float) -> Float[np.ndarray, "n n_in"]:
    """Training points first: the old Threefry order, shuffled by NumPy's `RandomState`."""
    n = n_train + n_test
    x = np.asarray(_threefry.uniform(jax.random.key(_SEED), (n, n_in), -1.0 + gap, 1.0))
    x = np.where(np.abs(x) < gap, np.sign(x) * np.float32(gap), x)
    order = np.random.RandomState(_SEED).permutation(n)
    return x[np.roll(order, -n_test)].astype(np.float64)
