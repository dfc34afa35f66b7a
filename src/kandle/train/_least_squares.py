"""Least-squares training: the counterpart of `Program` for the Levenberg-Marquardt method."""

import functools
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from kandle._errors import UserError, must
from kandle.nn import KAN
from kandle.train import _weighted_residuals as residuals
from kandle.train._jacobian import BLOCK, Layout, normal_equations
from kandle.train._kernel_form import Carried, Residuals, iterate_by_kernel
from kandle.train._levenberg_marquardt import LevenbergMarquardt, Step, System, iterate
from kandle.train._objective import Objective, Penalized, SumOfSquares
from kandle.train._optimizer import Optimizer
from kandle.train._program import LONGEST, Program, State
from kandle.train._terms import Data, Term
from kandle.train._weighted_residuals import arrays_of


class Memory(NamedTuple):
    """What an iteration passes on, per model."""

    damping: Float[np.ndarray, " P"]
    converged: np.ndarray
    first: Float[np.ndarray, " P"]  # the loss before the first iteration
    restarts: np.ndarray  # restarts used
    carried: tuple[Carried, ...]  # of the kernel form


@dataclass(frozen=True)
class LeastSquares:
    """Trains models by the Levenberg-Marquardt method, one after the other.

    Iterations solve the normal equations, or, for many weights, a system of as many unknowns as
    there are residuals (`kandle.train._kernel_form`). It has the methods of `Program`. A vector of
    weights is that of `Layout`: scales c are absorbed, and the statistics of normalized networks
    are frozen at the initialization, on the objective's first inputs, because rows of the Jacobian
    must not depend on each other.
    """

    layout: Layout
    objective: SumOfSquares
    settings: LevenbergMarquardt
    backend: str
    by_kernel: bool = False

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
        layout = Layout.of(frozen(model, None))
        # The kernel form knows no penalty.
        by_kernel = settings.uses_kernel(layout.n_weights) and not isinstance(objective, Penalized)
        if not by_kernel:
            check_memory(layout.n_weights)
        return cls(layout, objective, settings, backend, by_kernel)

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
        x, start = data[self.objective.arrays[0]], self.objective.start(data)
        if self.by_kernel:
            terms = self.objective.terms(data, start)
            check_kernel_memory(min(self.settings.batch, sum(t.y.size for t in terms)))
        if previous is None:
            models = self._warmed_up(models, data)
        rows = [self.layout.vector(frozen(model, x)) for model in models]
        rba = {
            kind: jnp.broadcast_to(alpha, (len(models), *alpha.shape)).copy()
            for kind, alpha in start.items()
        }
        count = len(models)
        damping, restarts = np.full(count, self.settings.damping), np.zeros(count, int)
        if previous is not None:
            # A training that has been refined is past the region that restarts are for.
            damping, rba = np.asarray(previous.optimizer.damping), previous.rba
            restarts += self.settings.restarts
        carried = (Carried(np.zeros(self.layout.n_weights if self.by_kernel else 0)),) * count
        memory = Memory(damping, np.zeros(count, bool), np.full(count, np.nan), restarts, carried)
        return State(jnp.asarray(np.stack(rows)), memory, rba)

    def advance(
        self, state: State, data: Data, steps: int
    ) -> tuple[State, Float[np.ndarray, "steps P"]]:
        """The state after `steps` iterations, and the loss before each of them.

        A model that has converged stays as it is.
        """
        weights = np.array(state.weights)
        *parts, carried = state.optimizer
        damping, converged, first, restarts = (np.array(part) for part in parts)
        carried = list(carried)
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
                if self.by_kernel:
                    step, found, carried[p] = self._iterate_by_kernel(
                        weights[p], damping[p], terms, carried[p]
                    )
                else:
                    step, found = self._iterate(weights[p], damping[p], terms)
                losses[i, p], weights[p], damping[p], converged[p] = step
                first[p] = losses[i, p] if np.isnan(first[p]) else first[p]
                if restarts[p] < self.settings.restarts:
                    after = self._loss(weights[p], arrays_of(terms))
                    if self.settings.makes_no_progress(first[p], losses[i, p], after):
                        restarts[p] += 1
                        weights[p], better = self._restart(weights[p], data)
                        converged[p] = converged[p] and not better
                        damping[p] = self.settings.damping if better else damping[p]
                for kind, updated in self.objective.attention(found, alpha).items():
                    rba[kind][p] = updated
        attention = {kind: jnp.asarray(alpha) for kind, alpha in rba.items()}
        memory = Memory(damping, converged, first, restarts, tuple(carried))
        return State(jnp.asarray(weights), memory, attention), losses

    def _warmed_up(self, models: Sequence[KAN], data: Data) -> Sequence[KAN]:
        options = self.objective, self.settings, self.backend, self.by_kernel
        return warmed_up(models, data, *options)

    def _restart(self, vector: np.ndarray, data: Data) -> tuple[np.ndarray, bool]:
        """The weights after another warm-up if that lowers the loss, and whether it does."""
        model = self.model(vector)
        [warm] = self._warmed_up([model], data)
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
        loss = float(residuals.total_loss(self, jnp.asarray(vector), arrays))
        if self._penalty is None:
            return loss
        theta = np.asarray(vector, np.float64)[: self.layout.n_weights]
        return loss + float(theta @ self._penalty @ theta)

    def _iterate(
        self, vector: np.ndarray, damping: float, terms: tuple[Term, ...]
    ) -> tuple[Step, list[Any]]:
        """One iteration by normal equations, and the residuals of each term before it."""
        arrays, P = arrays_of(terms), self.layout.n_weights
        full, found = self._completed(vector), []

        def normal(theta: np.ndarray):
            loss, gram, gradient, errors = normal_equations(self.layout, full(theta), terms)
            found.extend(errors)
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
            along = full(step, constants=0.0)
            return _double(residuals.curvature(self, full(theta), along, arrays))[:P]

        theta = vector[:P].astype(np.float64)
        step = iterate(System(normal, loss, curvature), theta, damping, self.settings)
        return step._replace(theta=np.concatenate([step.theta, vector[P:]])), found

    def _iterate_by_kernel(
        self, vector: np.ndarray, damping: float, terms: tuple[Term, ...], carried: Carried
    ) -> tuple[Step, list[Array], Carried]:
        """One iteration in the kernel form, and the residuals of each term before it."""
        arrays, P = arrays_of(terms), self.layout.n_weights
        full, dtype = self._completed(vector), vector.dtype

        def pull(theta: np.ndarray, z: np.ndarray, batch: tuple[Term, ...]) -> np.ndarray:
            cotangent = jnp.asarray(z.astype(dtype))
            return _double(residuals.pull(self, full(theta), cotangent, arrays_of(batch)))[:P]

        def along(derivative: Callable) -> Callable[..., np.ndarray]:
            def compute(theta: np.ndarray, step: np.ndarray, batch: tuple[Term, ...]):
                direction = full(step, constants=0.0)
                return _double(derivative(self, full(theta), direction, arrays_of(batch)))

            return compute

        functions = Residuals(
            model=lambda theta: self.model(full(theta)),
            loss=lambda theta: self._loss(full(theta), arrays),
            values=lambda theta, batch: _double(
                residuals.values(self, full(theta), arrays_of(batch))
            ),
            push=along(residuals.push),
            pull=pull,
            second=along(residuals.second),
        )
        theta = vector[:P].astype(np.float64)
        step, carried = iterate_by_kernel(functions, theta, damping, terms, carried, self.settings)
        found = residuals.errors(self, jnp.asarray(vector), arrays)
        return step._replace(theta=np.concatenate([step.theta, vector[P:]])), found, carried

    def _completed(self, vector: np.ndarray) -> Callable[..., Array]:
        """From θ to a vector of the models' type, with constants behind θ."""
        given = vector[self.layout.n_weights :]

        def full(theta: np.ndarray, constants: float | None = None) -> Array:
            rest = given if constants is None else np.full_like(given, constants)
            return jnp.asarray(np.concatenate([theta, rest]).astype(vector.dtype))

        return full


def _double(values: Array) -> Float[np.ndarray, " n"]:
    return np.asarray(values, np.float64)


def warmed_up(
    models: Sequence[Any],
    data: Data,
    objective: Objective,
    settings: LevenbergMarquardt,
    backend: str,
    by_kernel: bool = False,
) -> Sequence[Any]:
    """The models after the warm-up, or as they were where it does not lower the loss."""
    steps, rate = settings.warmup, settings.rate_of_warmup(by_kernel)
    if steps == 0:
        return models
    cosine = {"name": "cosine_decay", "decay_steps": steps}
    adam = Program.of(models[0], objective, Optimizer("adam", rate, cosine), backend)
    state = adam.start(models, data)
    before = adam.losses(state, data)
    for done in range(0, steps, LONGEST):
        state, _ = adam.advance(state, data, min(LONGEST, steps - done))
    better = np.asarray(adam.losses(state, data) < before)
    warm = [adam.model(row) for row in np.asarray(adam.evaluated(state))]
    return [new if b else old for new, old, b in zip(warm, models, better, strict=True)]


def frozen(model: KAN, x: Array | None) -> KAN:
    """The model with statistics, if its layers standardize their basis; x = None: any."""
    if not any(layer.normalized and layer.mean is None for layer in model.layers):
        return model
    return model.freeze(np.zeros((1, model.widths[0])) if x is None else x)


def check_memory(n_weights: int, available: float | None = None) -> None:
    """Reject networks whose normal equations do not fit into half of the machine's memory."""
    if available is None:
        available = _half_of_memory()
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


def check_kernel_memory(n_residuals: int, available: float | None = None) -> None:
    """Reject batches whose kernel does not fit into half of the machine's memory."""
    if available is None:
        available = _half_of_memory()
    needed = 8 * 3 * n_residuals**2  # J Jᵀ, its factor and one temporary
    if needed > available:
        raise UserError(
            f"'levenberg-marquardt' needs {needed / 2**30:.3g} GiB for the kernel of {n_residuals} "
            f"residuals, but {available / 2**30:.3g} GiB may be used. "
            f"Set 'batch' to {int(math.sqrt(available / 24))} or less."
        )


def _half_of_memory() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2
