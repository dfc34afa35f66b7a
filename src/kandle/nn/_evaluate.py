"""The value of a network at rows of inputs, its squared error, and the path that either takes."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from kandle._errors import must
from kandle._route import (
    LayerSpec,
    Route,
    evaluation_obstacle,
    layer_obstacle,
    squared_error_obstacle,
)
from kandle.kernels import _network
from kandle.kernels._api import native_obstacle
from kandle.kernels._network import Weights
from kandle.nn._layer import KANLayer

Layers = tuple[KANLayer, ...]


# Not methods of the network: looking up a method of an Equinox module takes longer than evaluating
# a small network.
def points(layers: Layers, x: ArrayLike) -> Float[Array, "... n_in"]:
    """Inputs of a network as an array of its type, or an error that says what they must be."""
    dtype, n_in = layers[0].b.dtype, layers[0].n_in
    x = x if isinstance(x, Array) else jnp.asarray(x)  # which takes time even of an array
    if x.dtype != dtype:
        if jnp.iscomplexobj(x):
            raise must("'x' of KAN", "real", f"an array of {x.dtype}")
        x = x.astype(dtype)
    if x.ndim == 0 or x.shape[-1] != n_in:
        raise must("'x' of KAN", f"an array whose last axis has {n_in} components", x.shape)
    return x


def flat_rows(layers: Layers, x: ArrayLike) -> tuple[Float[Array, "N n_in"], tuple[Any, ...]]:
    """The same as rows, and the leading axes that they had."""
    x = points(layers, x)
    return x.reshape(-1, x.shape[-1]), x.shape[:-1]  # under jax.export these may be symbols


# One compiled program for all layers: a call outside of `jit` is dispatched once, not several times
# per layer. The backends are part of the key, because a layer's own may be None.
@functools.partial(jax.jit, static_argnums=2, inline=True)
def evaluate(
    layers: Layers, x: Float[Array, "... n_in"], backends: tuple[str, ...]
) -> Float[Array, "... n_out"]:
    """F(x) for any leading axes of x, on the given backends."""
    rows = x.reshape(-1, x.shape[-1])
    if values_route(layers).path == "one call":
        rows = _network.values(rows, _specs(layers), _weights(layers))
    else:
        for layer in layers:
            rows = layer(rows)
    return rows.reshape(*x.shape[:-1], rows.shape[-1])  # -1 is undefined for no rows


def one_call_squared_error(
    layers: Layers,
    x: Float[Array, "N n_in"],
    y: Float[Array, "N n_out"],
    weight: Float[Array, " N"],
) -> Float[Array, ""]:
    """Σ_n weight_n |F(x_n) - y_n|², where its route is one call."""
    dtype = layers[0].b.dtype
    x, y, weight = (array.astype(dtype) for array in (x, y, weight))
    return _network.squared_error(x, y, weight, _specs(layers), _weights(layers))


def _specs(layers: Layers) -> tuple[LayerSpec, ...]:
    specs = []
    for layer in layers:
        residual = "other"
        if layer.residual is None:
            residual = None
        elif layer.residual is jax.nn.silu:
            residual = "silu"
        specs.append(LayerSpec(layer.n_in, layer.n_out, layer.basis, residual, layer.normalized))
    return tuple(specs)


def _weights(layers: Layers) -> list[Weights]:
    return [Weights(layer.r, layer.c, layer.b, layer.bias) for layer in layers]


# ---- the path ------------------------------------------------------------------------------------

Condition = Callable[[Sequence[LayerSpec], str], str | None]


def values_route(layers: Layers) -> Route:
    """The path of F(x)."""
    return _route(layers, evaluation_obstacle)


def squared_error_route(layers: Layers, x: Any, y: Any) -> Route:
    """The path of the squared error of inputs (N, n_0) and targets (N, n_L)."""
    n_in, n_out = layers[0].n_in, layers[-1].n_out
    rows, wide = jnp.shape(x), jnp.shape(y)
    if rows[1:] != (n_in,) or wide != (*rows[:1], n_out):
        shapes = f"(N, {n_in}) and (N, {n_out}), not {rows} and {wide}"
        return per_layer_route(layers, f"the call takes 'x' and 'y' of shapes {shapes}")
    return _route(layers, squared_error_obstacle)


def per_layer_route(layers: Layers, reason: str) -> Route:
    """The path of a call that takes the layers one by one for this reason."""
    return _route(layers, lambda specs, dtype: reason)


def _route(layers: Layers, obstacle: Condition) -> Route:
    """All that is decided about a call in JAX.

    Transformations and platforms need no condition: every primitive has its own rules for them.

    Args:
        obstacle: what the layers' specifications and type have against one call.
    """
    specs, dtype = _specs(layers), layers[0].b.dtype.name
    against_one_call, not_native = [], []
    for index, (layer, spec) in enumerate(zip(layers, specs, strict=True)):
        where = f"layers[{index}]"
        reason = native_obstacle(layer.backend, layer.basis) or layer_obstacle(spec, dtype)
        if reason is not None:
            not_native.append(f"{where}: {reason}")
        if type(layer) is not KANLayer:
            kind = type(layer).__name__
            against_one_call.append(f"{where}: a {kind} may compute something else than a KANLayer")
    types = sorted({leaf.dtype.name for leaf in jax.tree.leaves(layers)})
    if len(types) > 1:
        against_one_call.append(f"the weights are of several types: {', '.join(types)}")
    against_one_call += not_native
    one_call = against_one_call[0] if against_one_call else obstacle(specs, dtype)
    per_layer = not_native[0] if len(not_native) == len(layers) else None
    return Route.first(one_call, per_layer)
