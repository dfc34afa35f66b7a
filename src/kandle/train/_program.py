"""The compiled training program: a number of steps of many models of one shape.

A model's weights are one row of a matrix, so an optimizer's update is one elementwise operation.
Kandle's own Adam updates any number of arrays in one operation, and leaves them apart.
Data, weights and the number of steps are arguments, and only shapes and settings are static. One
compilation therefore serves all problems of a kind, schemes, exponents and seeds.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, ArrayLike, Float

from kandle.nn import KAN
from kandle.train._adam import NATIVE_SIZE, FusedAdam
from kandle.train._contrib import by_array, evaluated
from kandle.train._objective import Data, Objective, Weights
from kandle.train._optimizer import Optimizer, Transformation
from kandle.train._solve import TRAJECTORY, Solve

# The largest number of steps per call: the call returns an array of that many losses.
LONGEST = 512

_traces = 0


def trace_count() -> int:
    """How many training programs were traced, and therefore compiled, in this process."""
    return _traces


class State(NamedTuple):
    """What a step updates. All arrays have a leading model axis.

    The weights are a matrix (P, n) or, with Kandle's own Adam, a model whose arrays have that axis.
    """

    weights: Any
    optimizer: Any
    rba: Weights

    @property
    def models(self) -> int:
        """The number of models."""
        return len(jax.tree.leaves(self.weights)[0])


@dataclass(frozen=True)
class Program:
    """The static part of a training: equal programs share their compiled code."""

    structure: Any  # the models' tree structure, including bases, residual and backend
    names: tuple[str, ...]  # of the arrays, such as ".layers[0].b"
    shapes: tuple[tuple[int, ...], ...]
    objective: Objective
    optimizer: Optimizer | Transformation
    backend: str

    first_chunk = 16  # steps until the time per step is first measured

    @classmethod
    def of(
        cls,
        model: KAN,
        objective: Objective,
        optimizer: Optimizer | Transformation,
        backend: str,
    ) -> "Program":
        """The program for models like this one."""
        leaves, structure = jax.tree.flatten_with_path(model)
        names = tuple(jax.tree_util.keystr(path) for path, _ in leaves)
        shapes = tuple(leaf.shape for _, leaf in leaves)
        return cls(structure, names, shapes, objective, optimizer, backend)

    def model(self, weights: Float[ArrayLike, " n"]) -> Any:
        """The model with these weights."""
        return self.split(jnp.asarray(weights))

    def split(self, weights: Float[Array, "*P n"]) -> Any:
        """The models with these weights, as one whose arrays have the same leading axes."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])
        parts = zip(jnp.split(weights, ends[:-1], axis=-1), self.shapes, strict=True)
        leaves = [part.reshape(*weights.shape[:-1], *shape) for part, shape in parts]
        return jax.tree.unflatten(self.structure, leaves)

    def transformation(self) -> FusedAdam | optax.GradientTransformationExtraArgs:
        """The optimizer's update of the flat vector of weights.

        Kandle's own Adam, of the model's arrays, where they are large enough for it: which one it
        is depends on the shape of a model alone, so that a run has the same bits in every batch.
        """
        fused = self.optimizer.fused()
        long = sum(map(math.prod, self.shapes)) >= NATIVE_SIZE
        if fused is not None and long and self.backend == "native":
            return fused
        built = self.optimizer.build()
        return by_array(built, self.names, self.shapes) if self.optimizer.by_array else built

    def evaluated(self, state: State) -> Float[Array, "P n"]:
        """The weights of the trained models; see `kandle.train._contrib.evaluated`."""
        return jax.vmap(evaluated)(state.optimizer, _rows(state.weights))

    def start(self, models: Sequence[KAN], data: Data, previous: State | None = None) -> State:
        """The state before the first step.

        If the models were refined from those of a previous state, attention weights carry over,
        and the optimizer's state is reset.
        """
        rows = [np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(m)]) for m in models]
        weights: Any = jnp.asarray(np.stack(rows))
        if isinstance(self.transformation(), FusedAdam):
            weights = self.split(weights)
        optimizer = _initial(self, weights)
        rba = {
            kind: jnp.broadcast_to(alpha, (len(models), *alpha.shape)).copy()
            for kind, alpha in self.objective.start(data).items()
        }
        return State(weights, optimizer, rba if previous is None else previous.rba)

    def advance(
        self, state: State, data: Data, steps: int
    ) -> tuple[State, Float[Array, "steps P"]]:
        """The state after `steps` updates, and the loss before each of them.

        The given state is donated: its memory is reused, so it must not be read again.
        """
        state, losses = _advance(self, state, data, np.int32(steps))
        return state, losses[:steps]

    def residuals(self, state: State, points: Array) -> Float[Array, "P M q"]:
        """The residual of a PDE for every model at any points."""
        return _residuals(self, _rows(state.weights), points)

    def losses(self, state: State, data: Data) -> Float[Array, " P"]:
        """The loss of every model on any data, without an update."""
        return _losses(self, self.evaluated(state), data)


@functools.partial(jax.jit, static_argnums=0)
def _losses(program: Program, weights: Float[Array, "P n"], data: Data) -> Float[Array, " P"]:
    def loss(weights: Array) -> Array:
        model, rba = program.model(weights), program.objective.start(data)
        return program.objective.loss(model, data, rba, program.backend)[0]

    return _over_models(loss, program.backend)(weights)


@functools.partial(jax.jit, static_argnums=0)
def _residuals(program: Program, weights: Array, points: Array) -> Float[Array, "P M q"]:
    assert isinstance(program.objective, Solve)
    equation, solve = program.objective.groups[0], program.objective

    def residual(weights: Array) -> Array:
        r = solve.residual(equation, program.model(weights), {"collocation": points})
        return r.reshape(len(points), -1)

    return _over_models(residual, program.backend)(weights)


@functools.partial(jax.jit, static_argnums=0)
def _initial(program: Program, weights: Any) -> Any:
    return jax.vmap(program.transformation().init)(weights)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=1)
def _advance(program: Program, state: State, data: Data, steps: Array):
    global _traces
    _traces += 1
    optimizer = program.transformation()
    step = _over_models(functools.partial(_step, program, optimizer, data), program.backend)

    def body(i, carry):
        state, losses = carry
        state, loss = step(state)
        return _recorded(state, i), losses.at[i].set(loss)

    losses = jnp.full((LONGEST, state.models), jnp.nan, jax.tree.leaves(state.weights)[0].dtype)
    return jax.lax.fori_loop(0, steps, body, (state, losses))


def _rows(weights: Any) -> Float[Array, "P n"]:
    """The weights of all models as rows, from rows or from a model with an axis of models."""
    leaves = [leaf.reshape(len(leaf), -1) for leaf in jax.tree.leaves(weights)]
    return leaves[0] if len(leaves) == 1 else jnp.concatenate(leaves, axis=1)


def _recorded(state: State, i: Array) -> State:
    """The state with the coefficients of a PDE noted after step i.

    They are the last of the weights, whether these are rows or leaves.
    """
    if TRAJECTORY not in state.rba:
        return state
    trajectory = state.rba[TRAJECTORY]  # (P, LONGEST, n)
    now = jax.tree.leaves(state.weights)[-1][:, -trajectory.shape[-1] :]
    return state._replace(rba={**state.rba, TRAJECTORY: trajectory.at[:, i].set(now)})


def _over_models(step: Callable, backend: str) -> Callable:
    """The step of all models, batched where that is faster.

    Native kernels and accelerators gain from batching. XLA's matrix products on a CPU do not: with
    a batch axis they miss its fast routines, so there the models are updated one by one.
    """
    if backend == "native" or jax.default_backend() != "cpu":
        return jax.vmap(step)
    return functools.partial(jax.lax.map, step)


def _step(
    program: Program,
    optimizer: FusedAdam | optax.GradientTransformationExtraArgs,
    data: Data,
    state: State,
) -> tuple[State, Float[Array, ""]]:
    """One update of one model."""
    weights, optimizer_state, rba = state

    def objective(weights: Any) -> tuple[Array, Weights]:
        model = weights if isinstance(optimizer, FusedAdam) else program.model(weights)
        return program.objective.loss(model, data, rba, program.backend)

    (loss, rba_after), gradient = jax.value_and_grad(objective, has_aux=True)(weights)
    if isinstance(optimizer, FusedAdam):
        weights, optimizer_state = optimizer.apply(gradient, optimizer_state, weights)
        return State(weights, optimizer_state, rba_after), loss
    updates: Any
    updates, optimizer_state = optimizer.update(
        gradient,
        optimizer_state,
        weights,
        # Line searches evaluate the same objective, with this step's attention weights.
        value=loss,
        grad=gradient,
        value_fn=lambda weights: objective(weights)[0],
    )
    return State(weights + updates, optimizer_state, rba_after), loss
