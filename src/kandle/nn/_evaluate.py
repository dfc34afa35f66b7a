"""The value of a network at rows of inputs."""

import functools

import jax
from jaxtyping import Array, Float

from kandle.kernels import _network
from kandle.nn._layer import KANLayer


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
