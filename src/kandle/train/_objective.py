"""What a training minimizes: a function from a model and data to a loss."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from kandle import kernels
from kandle.nn import KAN, squared_error
from kandle.problems import Problem
from kandle.train._rba import Variant
from kandle.train._solve import Solve
from kandle.train._terms import Data, Term, Weights


class Objective(Protocol):
    """The loss of a model on data: a hashable object, equal to others that compile the same.

    All data are arguments, so that one compiled program serves every problem of a kind.
    """

    @property
    def arrays(self) -> tuple[str, ...]:
        """Names of the problem's arrays that the loss reads, the network's inputs first."""
        ...

    def start(self, data: Data) -> Weights:
        """The attention weights before the first step, by kind; {} without attention."""
        ...

    def loss(
        self, model: KAN, data: Data, weights: Weights, backend: str
    ) -> tuple[Float[Array, ""], Weights]:
        """The loss, and the attention weights of the next step."""
        ...


@runtime_checkable
class SumOfSquares(Objective, Protocol):
    """An objective that is a sum of weighted squares, as least-squares optimizers require."""

    def terms(self, data: Data, weights: Weights) -> tuple[Term, ...]:
        """The parts of the loss; the attention weights are constants of the step."""
        ...

    def attention(self, residuals: Sequence[Array], weights: Weights) -> Weights:
        """The attention weights of the next step, from the residuals of each term."""
        ...


@runtime_checkable
class Penalized(SumOfSquares, Protocol):
    """A sum of squares with a quadratic penalty on weights, for least-squares optimizers."""

    def penalty_matrix(self, model: KAN) -> Float[np.ndarray, "P P"]:
        """Ω of the penalty θᵀ Ω θ, with θ in the order of `Layout`."""
        ...


class _WithoutAttention:
    """An objective whose points are never reweighted."""

    def start(self, data: Data) -> Weights:
        return {}

    def attention(self, residuals: Sequence[Array], weights: Weights) -> Weights:
        return weights


@dataclass(frozen=True)
class Fit(_WithoutAttention):
    """The mean squared error between model and samples, 1/N Σ_n |u(x_n) - y_n|²."""

    @property
    def arrays(self) -> tuple[str, ...]:
        return ("x", "y")

    def loss(
        self, model: KAN, data: Data, weights: Weights, backend: str
    ) -> tuple[Float[Array, ""], Weights]:
        x, y = data["x"], data["y"]
        fused = squared_error(model, x, y, jnp.full(len(y), 1 / y.size, y.dtype))
        if fused is not None:
            return fused, weights
        error = jnp.ravel(model(x) - y)
        return kernels.total(error * error, backend) / error.size, weights

    def terms(self, data: Data, weights: Weights) -> tuple[Term, ...]:
        y = data["y"]
        return (Term(data["x"], y, jnp.full_like(y, 1 / y.size)),)


@dataclass(frozen=True)
class FitRows(_WithoutAttention):
    """The weighted squared error, Σ_n w_n |u(x_n) - y_n|².

    Padding with rows of weight zero lets one compiled program serve any number of samples.
    """

    @property
    def arrays(self) -> tuple[str, ...]:
        return ("x", "y", "weight")

    def loss(
        self, model: KAN, data: Data, weights: Weights, backend: str
    ) -> tuple[Float[Array, ""], Weights]:
        x, y, weight = (data[name] for name in self.arrays)
        fused = squared_error(model, x, y, weight)
        if fused is not None:
            return fused, weights
        error = model(x) - y
        return kernels.total(jnp.ravel(weight[:, None] * error * error), backend), weights

    def terms(self, data: Data, weights: Weights) -> tuple[Term, ...]:
        x, y, weight = (data[name] for name in self.arrays)
        return (Term(x, y, jnp.broadcast_to(weight[:, None], y.shape)),)


@dataclass(frozen=True)
class Classify(_WithoutAttention):
    """The weighted cross-entropy, Σ_n w_n (log Σ_j exp u_j(x_n) - Σ_j y_nj u_j(x_n)).

    `y` is one-hot, (N, classes): the probability of class j is softmax_j u(x).
    """

    @property
    def arrays(self) -> tuple[str, ...]:
        return ("x", "y", "weight")

    def loss(
        self, model: KAN, data: Data, weights: Weights, backend: str
    ) -> tuple[Float[Array, ""], Weights]:
        u = model(data["x"])
        u = u - lax.stop_gradient(jnp.max(u, axis=-1, keepdims=True))
        log_sum = jnp.log(kernels.total(jnp.exp(u), backend))  # (N,)
        chosen = kernels.total(data["y"] * u, backend)
        return kernels.total(data["weight"] * (log_sum - chosen), backend), weights


def objective(problem: Problem, rba: Variant, balance: float = 1.0) -> Fit | Solve:
    """The objective of a problem; only PDEs use `rba` and `balance`."""
    if problem.kind == "function":
        return Fit()
    return Solve.of(problem, rba, balance)
