"""Optimizers of `optax.contrib`, and what two of them need beyond an elementwise update.

Muon orthogonalizes the update of a matrix, so it must see the arrays of a layer instead of one flat
vector. Schedule-free methods take gradients at one sequence of weights and evaluate an average of
it.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float
from optax import contrib

Arrays = Mapping[str, Array]

# A layer's r (n_out, n_in) and b (n_out, n_in, n_basis) are linear maps from the residual and basis
# functions of its inputs to its outputs. The scales c, the biases and the coefficients of a PDE are
# not matrices, and Muon leaves such arrays to AdamW.
_MAPS = {
    "r": contrib.MuonDimensionNumbers(reduction_axis=1, output_axis=0),
    "b": contrib.MuonDimensionNumbers(reduction_axis=(1, 2), output_axis=0),
}


def _maps(arrays: Any) -> Any:
    if not isinstance(arrays, Mapping):
        return None
    return {name: _MAPS.get(name.rpartition(".")[2]) for name in arrays}


OPTIMIZERS = {
    "muon": functools.partial(contrib.muon, muon_weight_dimension_numbers=_maps),
    "schedule_free_adamw": contrib.schedule_free_adamw,
    "schedule_free_sgd": contrib.schedule_free_sgd,
    "prodigy": contrib.prodigy,
    "adopt": contrib.adopt,
    "ademamix": contrib.ademamix,
}


def by_array(
    transformation: optax.GradientTransformationExtraArgs,
    names: Sequence[str],
    shapes: Sequence[tuple[int, ...]],
) -> optax.GradientTransformationExtraArgs:
    """The transformation of a flat vector that applies another one to its named arrays."""
    template = {n: jax.ShapeDtypeStruct(s, jnp.float32) for n, s in zip(names, shapes, strict=True)}

    def split(flat: Float[Array, " n"]) -> dict[str, Array]:
        arrays, begin = {}, 0
        for name, like in template.items():
            arrays[name] = flat[begin : begin + like.size].reshape(like.shape)
            begin += like.size
        return arrays

    def join(arrays: Arrays) -> Float[Array, " n"]:
        return jnp.concatenate([arrays[name].ravel() for name in template])

    def init(params: Any) -> Any:
        return transformation.init(split(params))

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        # A line search would need the objective of the named arrays; none of these has one.
        arrays = None if params is None else split(params)
        changes: Any
        changes, state = transformation.update(split(updates), state, arrays)
        return join(changes), state

    return optax.GradientTransformationExtraArgs(init, update)


def evaluated(state: Any, weights: Float[Array, " n"]) -> Float[Array, " n"]:
    """The weights to evaluate: the average of a schedule-free method, otherwise those trained."""
    if isinstance(state, contrib.ScheduleFreeState):
        average: Any = contrib.schedule_free_eval_params(state, weights)
        return average
    return weights
