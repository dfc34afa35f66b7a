"""Least squares for networks of many weights: the kernel form, on batches of residuals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from kandle.nn import KAN
from kandle.ntk._layerwise import Rows
from kandle.train._least_squares import (
    arrays_of,
    frozen,
    jitted,
    total_loss,
    warmed_up,
    weighted_residuals,
)
from kandle.train._levenberg_marquardt import LevenbergMarquardt, bounded
from kandle.train._objective import SumOfSquares
from kandle.train._optimizer import Optimizer
from kandle.train._program import Program, State
from kandle.train._terms import Data, Term

# Dampings tried per iteration, and iterations without a lower loss after which training stops.
_TRIALS, _PATIENCE = 6, 10


class Memory(NamedTuple):
    """What an iteration passes on, per model: λ, whether to stop, δ, and two counters."""

    damping: Float[np.ndarray, " P"]
    converged: np.ndarray
    direction: Float[np.ndarray, "P n"]
    iterations: np.ndarray
    failures: np.ndarray


@dataclass(frozen=True)
class KernelLeastSquares:
    """The Levenberg-Marquardt method in terms of the tangent kernel J Jᵀ of a batch of residuals.

    An iteration minimizes ‖J δ + ρ‖² + λ s ‖δ - μ δ'‖² for the residuals ρ of a batch, where δ' is
    the previous step:

        (J Jᵀ + λ s I) z = -ρ - μ J δ',        δ = Jᵀ z + μ δ',        s = mean diag(J Jᵀ)

    The system has as many unknowns as the batch has residuals, whatever the number of weights, and
    J Jᵀ comes from the closed form of `kandle.ntk`, without J. The momentum μ carries what earlier
    batches taught (as in SPRING). Only steps that lower the loss over all points are accepted;
    after a rejection δ' is dropped and λ grows.

    It has the methods of `Program`; a row of weights is that of `Program`.
    """

    program: Program
    objective: SumOfSquares
    settings: LevenbergMarquardt
    backend: str

    first_chunk = 1

    @classmethod
    def of(
        cls, model: KAN, objective: SumOfSquares, settings: LevenbergMarquardt, backend: str
    ) -> "KernelLeastSquares":
        """The program for models like this one."""
        program = Program.of(frozen(model, None), objective, Optimizer(), backend)
        return cls(program, objective, settings, backend)

    def model(self, weights: Float[ArrayLike, " n"]) -> KAN:
        """The model with these weights."""
        return self.program.model(weights)

    def evaluated(self, state: State) -> Float[Array, "P n"]:
        """The weights of the trained models."""
        return state.weights

    def start(self, models: Sequence[KAN], data: Data, previous: State | None = None) -> State:
        """The state before the first iteration, or after a refinement of models in `previous`."""
        x = data[self.objective.arrays[0]]
        if previous is None:
            models = warmed_up(models, data, self.objective, self.settings, self.backend)
        state = self.program.start([frozen(model, x) for model in models], data, previous)
        count = len(models)
        damping = np.full(count, self.settings.damping)
        if previous is not None:
            damping = np.asarray(previous.optimizer.damping)
        zeros = np.zeros(count, int)
        direction = np.zeros(state.weights.shape)
        memory = Memory(damping, zeros.astype(bool), direction, zeros, zeros)
        return state._replace(optimizer=memory)

    def advance(
        self, state: State, data: Data, steps: int
    ) -> tuple[State, Float[np.ndarray, "steps P"]]:
        """The state after `steps` iterations, and the loss before each of them."""
        weights = np.array(state.weights)
        memory = Memory(*(np.array(part) for part in state.optimizer))
        rba = {kind: np.array(alpha) for kind, alpha in state.rba.items()}
        losses = np.empty((steps, len(weights)), weights.dtype)
        for p, i in np.ndindex(len(weights), steps):
            alpha = {kind: jnp.asarray(a[p]) for kind, a in rba.items()}
            terms = self.objective.terms(data, alpha)
            losses[i, p] = total_loss(self, jnp.asarray(weights[p]), arrays_of(terms))
            if memory.converged[p]:
                continue
            weights[p] = self._iterate(weights[p], float(losses[i, p]), terms, memory, p)
            if alpha:
                found = _errors(self, jnp.asarray(weights[p]), terms)
                for kind, updated in self.objective.attention(found, alpha).items():
                    rba[kind][p] = updated
        attention = {kind: jnp.asarray(alpha) for kind, alpha in rba.items()}
        return State(jnp.asarray(weights), memory, attention), losses

    def losses(self, state: State, data: Data) -> Float[Array, " P"]:
        """The loss of every model on any data, without an update."""
        arrays = arrays_of(self.objective.terms(data, self.objective.start(data)))
        return jnp.stack([total_loss(self, row, arrays) for row in jnp.asarray(state.weights)])

    def _iterate(
        self, vector: np.ndarray, loss: float, terms: Sequence[Term], memory: Memory, p: int
    ) -> np.ndarray:
        """The weights after one iteration; `memory` is updated in place."""
        from scipy.linalg import LinAlgError, cho_factor, cho_solve

        batch = _batch(terms, self.settings.batch, int(memory.iterations[p]))
        memory.iterations[p] += 1
        here, arrays = jnp.asarray(vector), arrays_of(batch)
        rho = np.asarray(_concatenated(self, here, arrays), np.float64)
        if not (math.isfinite(loss) and np.isfinite(rho).all()):
            memory.converged[p] = True
            return vector
        kernel = _kernel(self.model(here), batch)
        scale = np.diagonal(kernel).mean()
        if loss == 0 or scale == 0:
            memory.converged[p] = True
            return vector

        damping, before = float(memory.damping[p]), self.settings.momentum * memory.direction[p]
        for _ in range(_TRIALS):
            right = -rho - np.asarray(_push(self, here, _like(vector, before), arrays), np.float64)
            matrix = kernel.copy()
            matrix[np.diag_indices_from(matrix)] += damping * scale
            try:
                factor = cho_factor(matrix.T, lower=True, overwrite_a=True, check_finite=False)
            except LinAlgError:
                damping = bounded(10 * damping)
                continue
            z = cho_solve(factor, right, check_finite=False)
            step = np.asarray(_pull(self, here, _like(vector, z), arrays), np.float64) + before
            after = float(total_loss(self, _like(vector, vector + step), arrays_of(terms)))
            if after < loss:
                memory.damping[p] = bounded(damping * self.settings.shrink)
                memory.direction[p], memory.failures[p] = step, 0
                return (vector + step).astype(vector.dtype)
            damping, before = bounded(self.settings.grow * damping), 0.0 * before
        memory.damping[p], memory.direction[p] = damping, 0.0
        memory.failures[p] += 1
        memory.converged[p] = memory.failures[p] >= _PATIENCE
        return vector


def _like(vector: np.ndarray, values: np.ndarray) -> Array:
    return jnp.asarray(values.astype(vector.dtype))


def _batch(terms: Sequence[Term], size: int, iteration: int) -> tuple[Term, ...]:
    """About `size` residuals of all terms; weights are scaled so that the mean loss is the same."""
    total = sum(term.y.size for term in terms)
    if total <= size:
        return tuple(terms)
    random = np.random.default_rng(iteration)
    chosen = []
    for term in terms:
        n = len(term.x)
        count = min(n, max(1, round(size * n / total)))
        rows = np.sort(random.permutation(n)[:count])
        x, y, weight = (array[rows] for array in term[:3])
        chosen.append(term._replace(x=x, y=y, weight=weight * (n / count)))
    return tuple(chosen)


def _kernel(model: KAN, terms: Sequence[Term]) -> Float[np.ndarray, "B B"]:
    """J Jᵀ of the weighted residuals of all terms."""
    rows = [Rows(model, np.asarray(t.x), t.residual, t.directions) for t in terms]
    ends = np.cumsum([0, *(t.y.size for t in terms)])
    K = np.empty((ends[-1], ends[-1]))
    for i, a in enumerate(rows):
        for j, b in enumerate(rows[i:], i):
            here, there = slice(*ends[i : i + 2]), slice(*ends[j : j + 2])
            K[here, there] = a.stacked(b)
            K[there, here] = K[here, there].T
    root = np.concatenate([np.sqrt(np.asarray(t.weight, np.float64)).ravel() for t in terms])
    return root[:, None] * K * root


def _errors(program: Any, vector: Array, terms: Sequence[Term]) -> list[Array]:
    """q(x) - y of each term, unweighted."""
    arrays = [(t.x, t.y, jnp.ones_like(t.y)) for t in terms]
    found = weighted_residuals(program, vector, arrays)
    return [r.reshape(t.y.shape) for r, t in zip(found, terms, strict=True)]


@jitted
def _concatenated(program: KernelLeastSquares, vector: Array, arrays: Any) -> Float[Array, " B"]:
    return jnp.concatenate(weighted_residuals(program, vector, arrays))


@jitted
def _push(program: KernelLeastSquares, vector: Array, step: Array, arrays: Any) -> Array:
    """J δ; constants of a normalized network do not move."""

    def residuals(vector: Array) -> Array:
        return jnp.concatenate(weighted_residuals(program, vector, arrays))

    return jax.jvp(residuals, (vector,), (step * _trained(program),))[1]


@jitted
def _pull(program: KernelLeastSquares, vector: Array, z: Array, arrays: Any) -> Array:
    """Jᵀ z, zero for constants."""

    def residuals(vector: Array) -> Array:
        return jnp.concatenate(weighted_residuals(program, vector, arrays))

    (pulled,) = jax.vjp(residuals, vector)[1](z)
    return pulled * _trained(program)


def _trained(program: KernelLeastSquares) -> np.ndarray:
    """One for weights and zero for the statistics of a normalized network."""
    shapes = program.program.shapes
    model = jax.tree.unflatten(program.program.structure, [np.ones(s, np.float32) for s in shapes])
    constants = {id(a) for layer in model.layers for a in (layer.mean, layer.variance)}
    parts = [
        np.zeros(leaf.size) if id(leaf) in constants else np.ones(leaf.size)
        for leaf in jax.tree.leaves(model)
    ]
    return np.concatenate(parts).astype(np.float32)
