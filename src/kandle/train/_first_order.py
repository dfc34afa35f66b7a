"""Optimizers of Optax as a method of training: a number of updates as one compiled program.

A model's weights are one row of a matrix, so an optimizer's update is one elementwise operation.
Kandle's own Adam updates any number of arrays in one operation, and leaves them apart.

Data, weights and the number of updates are arguments of the program; only shapes and settings are
static. One compilation therefore serves all problems of a kind, schemes, exponents and seeds.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from kandle.train._adam import NATIVE_SIZE, FusedAdam
from kandle.train._contrib import by_array, evaluated
from kandle.train._objective import Aux, Data, Objective
from kandle.train._optimizer import Optimizer, Transformation
from kandle.train._training import LONGEST, Curves, Method, State, of_model, over_models

_traces = 0


def trace_count() -> int:
    """How many training programs were traced, and therefore compiled, in this process."""
    return _traces


def _as_given(data: Data, i: Array) -> Data:
    return data


@dataclass(frozen=True)
class FirstOrder(Method):
    """Gradients of the loss, and the updates that an optimizer makes of them.

    Equal methods share their compiled program. `State.weights` is a matrix (P, n), or with Kandle's
    own Adam a model whose arrays lead with P; `State.memory` is the optimizer's state.

    Attributes:
        structure: tree structure of the models, including bases, residual and backend.
        names: of the models' arrays, such as ".layers[0].b".
        shapes: of the models' arrays.
        objective: what is minimized.
        optimizer: the update rule.
        backend: of the kernels.
        pick: from the data of a call and the number of an update in it to the data of that update.
    """

    structure: Any
    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    objective: Objective
    optimizer: Optimizer | Transformation
    backend: str
    pick: Callable[[Data, Array], Data] = _as_given

    @classmethod
    def of(
        cls,
        model: Any,
        objective: Objective,
        optimizer: Optimizer | Transformation,
        backend: str,
        pick: Callable[[Data, Array], Data] = _as_given,
    ) -> "FirstOrder":
        """The method for models like this one."""
        leaves, structure = jax.tree.flatten_with_path(model)
        names = tuple(jax.tree_util.keystr(path) for path, _ in leaves)
        shapes = tuple(leaf.shape for _, leaf in leaves)
        return cls(structure, names, shapes, objective, optimizer, backend, pick)

    # --- the methods of every method ------------------------------------------------------------

    def start(self, models: Sequence[Any], data: Data, before: State | None = None) -> State:
        rows = [np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(m)]) for m in models]
        weights: Any = jax.device_put(np.stack(rows))
        if isinstance(self.transformation(), FusedAdam):
            weights = self.split(weights)
        # The moments of an optimizer belong to a grid; attention weights belong to the points.
        memory = _initial(self, weights)
        if before is not None:
            return State(weights, memory, before.aux)
        aux = {
            name: jnp.broadcast_to(values, (len(models), *values.shape)).copy()
            for name, values in self.objective.start(of_model(data, 0)).items()
        }
        return State(weights, memory, aux)

    def advance(self, state: State, data: Data, steps: int) -> tuple[State, Curves]:
        return _advance(self, state, data, np.int32(steps))

    def models(self, state: State) -> Any:
        # Some methods average the weights that they visit: that average is the model.
        return self.split(jax.vmap(evaluated)(state.memory, _rows(state.weights)))

    def unstacked(self, state: State) -> list[Any]:
        # NumPy cuts the rows: as a program this would be compiled for every shape.
        rows = np.asarray(jax.vmap(evaluated)(state.memory, _rows(state.weights)))
        return [jax.tree.map(jax.device_put, self.split(row)) for row in rows]

    # --- weights and models ---------------------------------------------------------------------

    def split(self, weights: Any) -> Any:
        """The models with these weights (…, n), as one whose arrays have the same leading axes."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])
        cut = np.split if isinstance(weights, np.ndarray) else jnp.split
        parts = zip(cut(weights, ends[:-1], axis=-1), self.shapes, strict=True)
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


def _rows(weights: Any) -> Any:
    """The weights of all models as rows (P, n), from rows or from a model with that axis."""
    if isinstance(weights, jax.Array | np.ndarray):
        return weights
    leaves = [leaf.reshape(len(leaf), -1) for leaf in jax.tree.leaves(weights)]
    return jnp.concatenate(leaves, axis=1)


# ---- the compiled programs -----------------------------------------------------------------------


@functools.partial(jax.jit, static_argnums=0)
def _initial(method: FirstOrder, weights: Any) -> Any:
    return jax.vmap(method.transformation().init)(weights)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=1)
def _advance(method: FirstOrder, state: State, data: Data, steps: Array) -> tuple[State, Curves]:
    global _traces
    _traces += 1
    optimizer = method.transformation()
    update = functools.partial(_update, method, optimizer)

    def body(i: Array, carry: tuple[State, Curves]) -> tuple[State, Curves]:
        state, curves = carry
        state, *recorded = over_models(update, method.backend)(state, method.pick(data, i))
        pairs = zip(curves, recorded, strict=True)
        return state, Curves(*(curve.at[i].set(now) for curve, now in pairs))

    leaf = jax.tree.leaves(state.weights)[0]
    models = jax.eval_shape(method.models, state)
    k = jax.eval_shape(method.objective.unknowns, models).shape[-1]
    curves = Curves(
        jnp.full((LONGEST, len(leaf)), jnp.nan, leaf.dtype),
        jnp.full((LONGEST, len(leaf), k), jnp.nan, leaf.dtype),
    )
    return jax.lax.fori_loop(0, steps, body, (state, curves))


def _update(
    method: FirstOrder,
    optimizer: FusedAdam | optax.GradientTransformationExtraArgs,
    state: State,
    data: Data,
) -> tuple[State, Float[Array, ""], Float[Any, " k"]]:
    """One update of one model: its new state, the loss before it, and the unknowns after it."""
    weights, memory, aux = state
    apart = isinstance(optimizer, FusedAdam)

    def objective(weights: Any) -> tuple[Array, Aux]:
        model = weights if apart else method.split(weights)
        return method.objective.loss(model, data, aux, method.backend)

    (loss, aux_after), gradient = jax.value_and_grad(objective, has_aux=True)(weights)
    if isinstance(optimizer, FusedAdam):
        weights, memory = optimizer.apply(gradient, memory, weights)
        return State(weights, memory, aux_after), loss, method.objective.unknowns(weights)

    def value(weights: Any, data: Data) -> Array:
        # With this update's attention weights. Optax passes a line search's other arguments on.
        return objective(weights)[0]

    updates: Any
    updates, memory = optimizer.update(
        gradient,
        memory,
        weights,
        value=loss,
        grad=gradient,
        value_fn=value,
        # A schedule may read its settings from the data, where they compile nothing.
        data=data,
    )
    weights = weights + updates
    return State(weights, memory, aux_after), loss, method.objective.unknowns(method.split(weights))
