"""The compiled training program: some steps of many models of one shape.

A model's weights are one row of a matrix, so an optimizer's update is one elementwise operation.
Data, weights and the number of steps are arguments; only what shapes the computation is static. One
compilation thus serves every problem of a kind, every scheme, exponent and seed.
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
from jaxtyping import Array, Float

from kandle.nn import KAN
from kandle.train._objective import Data, Objective, Weights
from kandle.train._optimizer import Optimizer

# Losses that one call can return: the most steps it can take.
LONGEST = 512

_traces = 0


def trace_count() -> int:
    """How often a training program was traced in this process, hence compiled."""
    return _traces


class State(NamedTuple):
    """What changes from step to step, with a leading model axis everywhere."""

    weights: Float[Array, "P n"]
    optimizer: Any
    rba: Weights


@dataclass(frozen=True)
class Program:
    """What is static about a training: two equal ones share their compiled code."""

    structure: Any  # the models' tree structure, with their bases, residual and backend
    shapes: tuple[tuple[int, ...], ...]
    objective: Objective
    optimizer: Optimizer
    backend: str

    @classmethod
    def of(cls, model: KAN, objective: Objective, optimizer: Optimizer, backend: str) -> "Program":
        leaves, structure = jax.tree.flatten(model)
        return cls(structure, tuple(leaf.shape for leaf in leaves), objective, optimizer, backend)

    def model(self, weights: Float[Array, " n"]) -> KAN:
        """The model whose weights are this vector."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])
        parts = jnp.split(weights, ends[:-1])
        leaves = [part.reshape(s) for part, s in zip(parts, self.shapes, strict=True)]
        return jax.tree.unflatten(self.structure, leaves)

    def start(self, models: Sequence[KAN], data: Data) -> State:
        """The state before the first step."""
        rows = [np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(m)]) for m in models]
        weights = jnp.asarray(np.stack(rows))
        optimizer = _initial(self, weights)
        rba = {
            kind: jnp.broadcast_to(alpha, (len(models), *alpha.shape)).copy()
            for kind, alpha in self.objective.start(data).items()
        }
        return State(weights, optimizer, rba)

    def advance(
        self, state: State, data: Data, steps: int
    ) -> tuple[State, Float[Array, "steps P"]]:
        """The state `steps` later, and the loss before each of those updates.

        The memory of the given state is reused: it must not be used again.
        """
        state, losses = _advance(self, state, data, np.int32(steps))
        return state, losses[:steps]

    def losses(self, state: State, data: Data) -> Float[Array, " P"]:
        """The objective of every model as it is, on any data."""
        return _losses(self, state.weights, data)


@functools.partial(jax.jit, static_argnums=0)
def _losses(program: Program, weights: Float[Array, "P n"], data: Data) -> Float[Array, " P"]:
    def loss(weights: Array) -> Array:
        model, rba = program.model(weights), program.objective.start(data)
        return program.objective.loss(model, data, rba, program.backend)[0]

    return _over_models(loss, program.backend)(weights)


@functools.partial(jax.jit, static_argnums=0)
def _initial(program: Program, weights: Array) -> Any:
    return jax.vmap(program.optimizer.build().init)(weights)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=1)
def _advance(program: Program, state: State, data: Data, steps: Array):
    global _traces
    _traces += 1
    step = _over_models(
        functools.partial(_step, program, program.optimizer.build(), data), program.backend
    )

    def body(i, carry):
        state, losses = carry
        state, loss = step(state)
        return state, losses.at[i].set(loss)

    losses = jnp.full((LONGEST, len(state.weights)), jnp.nan, state.weights.dtype)
    return jax.lax.fori_loop(0, steps, body, (state, losses))


def _over_models(step: Callable, backend: str) -> Callable:
    """The step of all models: at once, where that pays.

    The native kernels and accelerators gain from a batch. XLA's matrix products on a CPU lose: with
    a batch axis they do not reach its fast routines, so there the models take turns.
    """
    if backend == "native" or jax.default_backend() != "cpu":
        return jax.vmap(step)
    return functools.partial(jax.lax.map, step)


def _step(
    program: Program, optimizer: optax.GradientTransformationExtraArgs, data: Data, state: State
) -> tuple[State, Float[Array, ""]]:
    """One update of one model."""
    weights, optimizer_state, rba = state

    def objective(weights: Array) -> tuple[Array, Weights]:
        return program.objective.loss(program.model(weights), data, rba, program.backend)

    (loss, rba_after), gradient = jax.value_and_grad(objective, has_aux=True)(weights)
    updates: Any
    updates, optimizer_state = optimizer.update(
        gradient,
        optimizer_state,
        weights,
        # For those that search along a line: the same objective, with this step's weights.
        value=loss,
        grad=gradient,
        value_fn=lambda weights: objective(weights)[0],
    )
    return State(weights + updates, optimizer_state, rba_after), loss
