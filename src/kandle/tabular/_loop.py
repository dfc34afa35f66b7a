"""The compiled training loop: several networks at once on rows, each with its own held-out rows.

The networks of one loop have one shape, and their weights are the rows of a matrix. They differ in
their initial weights, in the weights they give to rows (zero for those held out) and in their
penalties, all of which are arguments: one compilation serves them all.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from kandle.nn import KAN
from kandle.tabular._loss import LOSSES, penalties

# The most updates of one call. Between two calls the clock, the bar and the keyboard are served.
LONGEST = 50

# The learning rate rises over this many updates: Adam's first steps are large and point anywhere.
_WARM_UP = 20

# Smaller improvements of the validation loss, as a share and altogether, do not prolong a training.
_WORTH, _LEAST = 5e-3, 1e-4

_adam = optax.scale_by_adam()


class Rows(NamedTuple):
    """Inputs and targets, scaled, and the weight that each of P networks gives to each row."""

    x: Float[Array, "N n_in"]
    y: Float[Array, "N n_out"]
    weight: Float[Array, "P N"]


class Penalty(NamedTuple):
    """The factors of both penalties, one per network."""

    smoothness: Float[Array, " P"]
    weight_decay: Float[Array, " P"]


class State(NamedTuple):
    """What changes from update to update."""

    weights: Float[Array, "P n"]
    adam: Any
    step: Int[Array, ""]
    best: Float[Array, "P n"]
    best_loss: Float[Array, " P"]  # validation loss of the best weights
    noted_loss: Float[Array, " P"]  # the one after the last improvement that is worth waiting for
    noted_step: Int[Array, " P"]


class Curve(NamedTuple):
    """What a call reports, before each of its updates."""

    loss: Float[Array, "steps P"]
    validation_loss: Float[Array, "steps P"]
    validation_score: Float[Array, "steps P"]


@dataclass(frozen=True)
class Program:
    """What is static: two equal programs share their compiled code.

    Args:
        structure, shapes: of a network's arrays.
        loss: a name of `LOSSES`.
        whole: whether every update sees all rows; validation then comes with each of them.
    """

    structure: Any
    shapes: tuple[tuple[int, ...], ...]
    loss: str
    whole: bool

    @classmethod
    def of(cls, model: KAN, loss: str, whole: bool) -> "Program":
        leaves, structure = jax.tree.flatten(model)
        return cls(structure, tuple(leaf.shape for leaf in leaves), loss, whole)

    def start(self, models: Sequence[KAN]) -> State:
        flat = [np.concatenate([np.ravel(w) for w in jax.tree.leaves(m)]) for m in models]
        weights, count = np.stack(flat), len(models)
        # NumPy arrays, here and wherever a loop is prepared: each operation of JAX would be
        # compiled for itself. No array may occur twice, since the state's memory is reused.
        state: Any = State(
            weights,  # pyright: ignore[reportArgumentType]
            optax.ScaleByAdamState(np.int32(0), np.zeros_like(weights), np.zeros_like(weights)),
            np.int32(0),  # pyright: ignore[reportArgumentType]
            weights.copy(),  # pyright: ignore[reportArgumentType]
            np.full(count, np.inf, weights.dtype),  # pyright: ignore[reportArgumentType]
            np.full(count, np.inf, weights.dtype),  # pyright: ignore[reportArgumentType]
            np.zeros(count, np.int32),  # pyright: ignore[reportArgumentType]
        )
        return jax.tree.map(jnp.asarray, state)

    def model(self, weights: Float[Array, " n"] | Float[np.ndarray, " n"]) -> KAN:
        """The network whose weights are this vector."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])
        parts = (jnp if isinstance(weights, Array) else np).split(weights, ends[:-1])
        leaves = [part.reshape(s) for part, s in zip(parts, self.shapes, strict=True)]
        return jax.tree.unflatten(self.structure, leaves)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=1)
def advance(
    program: Program,
    state: State,
    rows: Rows,
    held_out: Float[Array, "P N"],
    penalty: Penalty,
    batches: Int[Array, "LONGEST B"],
    steps: Array,
    rate: Array,
    decay_steps: Array,
) -> tuple[State, Curve]:
    """Make up to `LONGEST` updates.

    The memory of the given state is reused: it must not be used again.

    Args:
        held_out: weights of the rows in each network's validation loss; used if `program.whole`.
        batches: which rows each update sees; ignored if `program.whole`.
        steps: how many updates.
        rate: the learning rate η.
        decay_steps: T, with η_t = η (1 + cos(π t/T))/2; infinity keeps the rate.
    """

    def loss(weights, x, y, weight, held_out, penalty):
        model = program.model(weights)
        by_row, score = LOSSES[program.loss](model(x), y)
        curvature, size = penalties(model)
        fit = jnp.sum(weight * by_row)
        # A row of weight 0 may lie so far out that its loss is infinite.
        validation = [jnp.sum(jnp.where(held_out > 0, held_out * v, 0)) for v in (by_row, score)]
        total = fit + penalty.smoothness * curvature + penalty.weight_decay * size
        return total, (fit, *validation)

    gradient = jax.vmap(jax.grad(loss, has_aux=True), in_axes=(0, None, None, 0, 0, 0))

    def update(i, carry):
        state, curve = carry
        if program.whole:
            x, y, weight, held = rows.x, rows.y, rows.weight, held_out
        else:
            chosen = batches[i]
            x, y, weight = rows.x[chosen], rows.y[chosen], rows.weight[:, chosen]
            weight = weight / jnp.maximum(jnp.sum(weight, axis=1, keepdims=True), 1e-30)
            held = jnp.zeros_like(weight)
        g, measured = gradient(state.weights, x, y, weight, held, penalty)
        curve = Curve(*(c.at[i].set(m) for c, m in zip(curve, measured, strict=True)))
        t = state.step.astype(g.dtype)
        falling = rate * 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(1, t / decay_steps)))
        direction: Any
        direction, adam = _adam.update(g, state.adam)
        weights = state.weights - falling * jnp.minimum(1, (t + 1) / _WARM_UP) * direction
        if program.whole:
            state = keep_best(state, measured[1])
        state = state._replace(weights=weights, adam=adam, step=state.step + 1)
        return state, curve

    empty = jnp.full((LONGEST, len(state.weights)), jnp.nan, state.weights.dtype)
    return jax.lax.fori_loop(0, steps, update, (state, Curve(empty, empty, empty)))


def keep_best(state: State, loss: Float[Array, " P"]) -> State:
    """The state with its weights kept where this is their lowest validation loss so far."""
    better = loss < state.best_loss
    # (1 - 0.005) · ∞ - 0.0001 = ∞: the first loss counts.
    noted = loss < (1 - _WORTH) * state.noted_loss - _LEAST
    return state._replace(
        best=jnp.where(better[:, None], state.weights, state.best),
        best_loss=jnp.where(better, loss, state.best_loss),
        noted_loss=jnp.where(noted, loss, state.noted_loss),
        noted_step=jnp.where(noted, state.step, state.noted_step),
    )


@functools.partial(jax.jit, static_argnums=0)
def validate(
    program: Program, weights: Float[Array, "P n"], rows: Rows
) -> tuple[Float[Array, " P"], Float[Array, " P"]]:
    """The weighted loss and score of every network on rows."""

    def measure(weights, weight):
        by_row, score = LOSSES[program.loss](program.model(weights)(rows.x), rows.y)
        loss, total = (jnp.sum(jnp.where(weight > 0, weight * v, 0)) for v in (by_row, score))
        return loss, total

    return jax.vmap(measure)(weights, rows.weight)
