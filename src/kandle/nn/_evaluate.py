"""The value of a network at rows of inputs."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from kandle._errors import must
from kandle.kernels import _network
from kandle.nn._layer import KANLayer


# Not methods of the network: looking up a method of an Equinox module takes longer than evaluating
# a small network.
def points(layers: tuple[KANLayer, ...], x: ArrayLike) -> Float[Array, "... n_in"]:
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


def flat_rows(
    layers: tuple[KANLayer, ...], x: ArrayLike
) -> tuple[Float[Array, "N n_in"], tuple[Any, ...]]:
    """The same as rows, and the leading axes that they had."""
    x = points(layers, x)
    return x.reshape(-1, x.shape[-1]), x.shape[:-1]  # under jax.export these may be symbols


# One compiled program for all layers: a call outside of `jit` is dispatched once, not several times
# per layer. The backends are part of the key, because a layer's own may be None.
@functools.partial(jax.jit, static_argnums=2, inline=True)
def evaluate(
    layers: tuple[KANLayer, ...], x: Float[Array, "... n_in"], backends: tuple[str, ...]
) -> Float[Array, "... n_out"]:
    """F(x) for any leading axes of x, on the given backends."""
    rows = x.reshape(-1, x.shape[-1])
    if _fused(layers, backends):
        weights = [(layer.r, layer.c, layer.b, layer.bias) for layer in layers]
        rows = _network.values(rows, weights, **_static(layers))
    else:
        for layer in layers:
            rows = layer(rows)
    return rows.reshape(*x.shape[:-1], rows.shape[-1])  # -1 is undefined for no rows


def _fused(layers: tuple[KANLayer, ...], backends: tuple[str, ...]) -> bool:
    """Whether one native call evaluates all layers. What inherits from a layer may compute
    something else.
    """
    plain = all(type(layer) is KANLayer and not layer.normalized for layer in layers)
    same = len({leaf.dtype for leaf in jax.tree.leaves(layers)}) == 1
    if not plain or not same or set(backends) != {"native"}:
        return False
    widths = (layers[0].n_in, *(layer.n_out for layer in layers))
    return _network.accepts(widths, dtype=layers[0].b.dtype, **_static(layers))


def _static(layers: tuple[KANLayer, ...]) -> dict:
    return {
        "bases": [layer.basis for layer in layers],
        "residuals": [layer.residual for layer in layers],
    }
