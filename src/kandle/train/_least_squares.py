"""Least-squares training: the counterpart of `Program` for the Levenberg-Marquardt method."""

import functools
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from kandle._errors import UserError, must
from kandle.nn import KAN
from kandle.train._jacobian import BLOCK, Layout, normal_equations, quantities
from kandle.train._levenberg_marquardt import LevenbergMarquardt, System, iterate
from kandle.train._objective import Objective, Penalized, SumOfSquares
from kandle.train._optimizer import Optimizer
from kandle.train._program import LONGEST, Program, State
from kandle.train._terms import Data, Term

# The step along δ for the second difference of the residuals, relative to δ.
_DIFFERENCE = 0.1


class Memory(NamedTuple):
    """What an iteration passes on, per model."""

    damping: Float[np.ndarray, " P"]
    converged: np.ndarray
    first: Float[np.ndarray, " P"]  # the loss before the first iteration
    restarts: np.ndarray  # restarts used


@dataclass(frozen=True)
class LeastSquares:
    """Trains models by the Levenberg-Marquardt method, one after the other, on full batches.

    It has the methods of `Program`. A vector of weights is that of `Layout`: scales c are absorbed,
    and the statistics of normalized networks are frozen at the initialization, on the objective's
    first inputs, because rows of the Jacobian must not depend on each other.
    """

    layout: Layout
    objective: SumOfSquares
    settings: LevenbergMarquardt
    backend: str

    first_chunk = 1  # steps until progress is reported: one iteration may take seconds

    @classmethod
    def of(
        cls, model: KAN, objective: Any, settings: LevenbergMarquardt, backend: str
    ) -> "LeastSquares":
        """The program for models like this one, or an error if the method does not apply."""
        if not isinstance(objective, SumOfSquares):
            raise must(
                "The objective of 'levenberg-marquardt'",
                "a sum of squares (functions, tables with numeric targets, PDEs)",
                type(objective).__name__,
            )
        program = cls(Layout.of(frozen(model, None)), objective, settings, backend)
        check_memory(program.layout.n_weights)
        return program

    def model(self, weights: Float[ArrayLike, " n"]) -> KAN:
        """The model with these weights."""
        return self.layout.model(jnp.asarray(weights))

    def evaluated(self, state: State) -> Float[Array, "P n"]:
        """The weights of the trained models."""
        return state.weights

    def start(self, models: Sequence[KAN], data: Data, previous: State | None = None) -> State:
        """The state before the first iteration.

        If the models were refined from those of a previous state, damping and attention weights
        carry over, and there is no second warm-up.
        """
        x = data[self.objective.arrays[0]]
        if previous is None:
            models = warmed_up(models, data, self.objective, self.settings, self.backend)
        rows = [self.layout.vector(frozen(model, x)) for model in models]
        rba = {
            kind: jnp.broadcast_to(alpha, (len(models), *alpha.shape)).copy()
            for kind, alpha in self.objective.start(data).items()
        }
        count = len(models)
        damping, restarts = np.full(count, self.settings.damping), np.zeros(count, int)
        if previous is not None:
            # A training that has been refined is past the region that restarts are for.
            damping, rba = np.asarray(previous.optimizer.damping), previous.rba
            restarts += self.settings.restarts
        memory = Memory(damping, np.zeros(count, bool), np.full(count, np.nan), restarts)
        return State(jnp.asarray(np.stack(rows)), memory, rba)

    def advance(
        self, state: State, data: Data, steps: int
    ) -> tuple[State, Float[np.ndarray, "steps P"]]:
        """The state after `steps` iterations, and the loss before each of them.

        A model that has converged stays as it is.
        """
        weights = np.array(state.weights)
        memory = Memory(*(np.array(part) for part in state.optimizer))
        damping, converged, first, restarts = memory
        rba = {kind: np.array(alpha) for kind, alpha in state.rba.items()}
        losses = np.empty((steps, len(weights)), weights.dtype)
        for p in range(len(weights)):
            for i in range(steps):
                if converged[p] and i > 0:
                    losses[i, p] = losses[i - 1, p]
                    continue
                alpha = {kind: jnp.asarray(a[p]) for kind, a in rba.items()}
                terms = self.objective.terms(data, alpha)
                if converged[p]:
                    losses[i, p] = self._loss(weights[p], arrays_of(terms))
                    continue
                step, residuals = self._iterate(weights[p], damping[p], terms)
                losses[i, p], weights[p], damping[p], converged[p] = step
                first[p] = losses[i, p] if np.isnan(first[p]) else first[p]
                if restarts[p] < self.settings.restarts:
                    after = self._loss(weights[p], arrays_of(terms))
                    if self.settings.makes_no_progress(first[p], losses[i, p], after):
                        restarts[p] += 1
                        weights[p], better = self._restart(weights[p], data)
                        converged[p] = converged[p] and not better
                        damping[p] = self.settings.damping if better else damping[p]
                for kind, updated in self.objective.attention(residuals, alpha).items():
                    rba[kind][p] = updated
        attention = {kind: jnp.asarray(alpha) for kind, alpha in rba.items()}
        return State(jnp.asarray(weights), memory, attention), losses

    def _restart(self, vector: np.ndarray, data: Data) -> tuple[np.ndarray, bool]:
        """The weights after another warm-up if that lowers the loss, and whether it does."""
        model = self.model(vector)
        [warm] = warmed_up([model], data, self.objective, self.settings, self.backend)
        return (vector, False) if warm is model else (self.layout.vector(warm), True)

    def losses(self, state: State, data: Data) -> Float[Array, " P"]:
        """The loss of every model on any data, without an update."""
        arrays = arrays_of(self.objective.terms(data, self.objective.start(data)))
        return jnp.stack([jnp.asarray(self._loss(row, arrays)) for row in state.weights])

    @functools.cached_property
    def _penalty(self) -> Float[np.ndarray, "P P"] | None:
        """Ω of the objective's penalty θᵀ Ω θ, if it has one."""
        if not isinstance(self.objective, Penalized):
            return None
        return self.objective.penalty_matrix(self.layout.template)

    def _loss(self, vector: ArrayLike, arrays: Any) -> float:
        loss = float(total_loss(self, jnp.asarray(vector), arrays))
        if self._penalty is None:
            return loss
        theta = np.asarray(vector, np.float64)[: self.layout.n_weights]
        return loss + float(theta @ self._penalty @ theta)

    def _iterate(self, vector: np.ndarray, damping: float, terms: tuple[Term, ...]):
        arrays, P = arrays_of(terms), self.layout.n_weights
        constants, residuals = vector[P:], []

        def full(theta: np.ndarray) -> Array:
            return jnp.asarray(np.concatenate([theta, constants]).astype(vector.dtype))

        def normal(theta: np.ndarray):
            loss, gram, gradient, found = normal_equations(self.layout, full(theta), terms)
            residuals.extend(found)
            if self._penalty is not None:
                slope = self._penalty @ theta
                loss, gram, gradient = (
                    loss + float(theta @ slope),
                    gram + self._penalty,
                    gradient + slope,
                )
            return loss, gram, gradient

        def loss(theta: np.ndarray) -> float:
            return self._loss(full(theta), arrays)

        def curvature(theta: np.ndarray, step: np.ndarray) -> np.ndarray:
            direction = full(step).at[P:].set(0.0)
            return np.asarray(_curvature(self, full(theta), direction, arrays), np.float64)[:P]

        theta = vector[:P].astype(np.float64)
        found = iterate(System(normal, loss, curvature), theta, damping, self.settings)
        return found._replace(theta=np.concatenate([found.theta, constants])), residuals


def warmed_up(
    models: Sequence[Any],
    data: Data,
    objective: Objective,
    settings: LevenbergMarquardt,
    backend: str,
) -> Sequence[Any]:
    """The models after the warm-up, or as they were where it does not lower the loss."""
    steps = settings.warmup
    if steps == 0:
        return models
    cosine = {"name": "cosine_decay", "decay_steps": steps}
    adam = Program.of(models[0], objective, Optimizer("adam", 1e-2, cosine), backend)
    state = adam.start(models, data)
    before = adam.losses(state, data)
    for done in range(0, steps, LONGEST):
        state, _ = adam.advance(state, data, min(LONGEST, steps - done))
    better = np.asarray(adam.losses(state, data) < before)
    warm = [adam.model(row) for row in np.asarray(state.weights)]
    return [new if b else old for new, old, b in zip(warm, models, better, strict=True)]


def frozen(model: KAN, x: Array | None) -> KAN:
    """The model with statistics, if its layers standardize their basis; x = None: any."""
    if not any(layer.normalized and layer.mean is None for layer in model.layers):
        return model
    return model.freeze(np.zeros((1, model.widths[0])) if x is None else x)


def arrays_of(terms: Sequence[Term]) -> tuple[tuple[Array, ...], ...]:
    """The arrays of the terms, which are arguments of compiled programs."""
    return tuple(tuple(term[:3]) for term in terms)


def weighted_residuals(program: Any, vector: Array, arrays: Any) -> list[Array]:
    """√w (q(x) - y), one vector per term; the program has a model and an objective."""
    model, statics = program.model(vector), _statics(program.objective)
    return [
        jnp.ravel(jnp.sqrt(weight) * (quantities(model, x, *static) - y))
        for (x, y, weight), static in zip(arrays, statics, strict=True)
    ]


def _statics(objective: SumOfSquares) -> list[tuple[Any, Any]]:
    """Residual and directions of each term, which do not depend on the data."""
    empty = {name: jnp.zeros((1, 1)) for name in objective.arrays}
    if "weight" in empty:
        empty["weight"] = jnp.zeros(1)
    return [(term.residual, term.directions) for term in objective.terms(empty, {})]


jitted = functools.partial(jax.jit, static_argnums=0)


@jitted
def total_loss(program: Any, vector: Array, arrays: Any) -> Float[Array, ""]:
    return sum(jnp.vdot(r, r) for r in weighted_residuals(program, vector, arrays))  # pyright: ignore


@jitted
def _curvature(program: LeastSquares, vector: Array, step: Array, arrays: Any) -> Array:
    """Jᵀ of the second derivative of the residuals along a step, by central differences."""

    def residuals(vector: Array) -> list[Array]:
        return weighted_residuals(program, vector, arrays)

    here, pull = jax.vjp(residuals, vector)
    ahead, behind = (residuals(vector + sign * _DIFFERENCE * step) for sign in (1, -1))
    second = [(a - 2 * r + b) / _DIFFERENCE**2 for a, r, b in zip(ahead, here, behind, strict=True)]
    (pulled,) = pull(second)
    return pulled


def check_memory(n_weights: int, available: float | None = None) -> None:
    """Reject networks whose normal equations do not fit into half of the machine's memory."""
    if available is None:
        available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2
    # JᵀJ, a buffer, its factor and one temporary, and a block of J with its temporaries.
    needed = 8 * (4 * n_weights**2 + 4 * BLOCK * n_weights)
    if needed <= available:
        return
    fits = int((math.sqrt(BLOCK**2 + available / 8) - BLOCK) / 2)
    raise UserError(
        f"'levenberg-marquardt' needs {needed / 2**30:.3g} GiB for the normal equations of "
        f"{n_weights} weights, but {available / 2**30:.3g} GiB may be used. Networks of up to "
        f"{fits} weights fit: reduce the width or the grid, or use another optimizer."
    )
