"""The Jacobian of a network's residuals layer by layer, and normal equations from it.

A layer's part of the Jacobian has few independent numbers. With the sensitivities h of `kandle.ntk`
and the features F_ni = (B_1(x_ni), …, B_M(x_ni), R(x_ni)) of one input,

    ∂q_n/∂θ_jim = Σ_ν h_nji⁽ᵛ⁾ F_nim⁽ᵛ⁾,        ∂q_n/∂bias_j = ∂q_n/∂y_nj

(ν = 0 for values; orders 1 and 2 where q reads derivatives): one reverse pass serves all points.
"""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from kandle.nn import KAN, KANLayer
from kandle.ntk._layerwise import _by_order, _inputs
from kandle.ntk._tangents import Directions, Tangent, tangents
from kandle.train._layout import Layout
from kandle.train._levenberg_marquardt import Normal
from kandle.train._objective import Term

# Points per block: a block of the Jacobian should stay small, and matrix products efficient.
BLOCK = 1024


def normal_equations(
    layout: Layout, vector: Float[ArrayLike, " n"], terms: tuple[Term, ...]
) -> Normal:
    """The normal equations at θ, accumulated in float64 over blocks of the Jacobian."""
    P = layout.n_trained
    gram, gradient, loss = np.zeros((P, P)), np.zeros(P), 0.0
    # The first product is written in place; a buffer for the others avoids an allocation per block.
    buffer, first = np.empty((P, P)), True
    for term in terms:
        for block, (r, J) in _computed_ahead(layout, jnp.asarray(vector), term):
            root = np.sqrt(np.asarray(block.weight, np.float64)).ravel()
            weighted = root * np.asarray(r, np.float64).ravel()
            J = np.asarray(J)
            if J.dtype == np.float64:
                np.matmul(J.T, J, out=gram if first else buffer)
                if not first:
                    gram += buffer
            else:
                gram += J.T @ J
            first = False
            gradient += J.T @ weighted
            loss += float(weighted @ weighted)
    return Normal(loss, gram, gradient)


def _computed_ahead(
    layout: Layout, vector: Float[Array, " n"], term: Term
) -> Iterator[tuple[Term, tuple[Array, Array]]]:
    """Each block with its residuals and its Jacobian, while JAX computes those of the next one."""
    waiting = None
    for block in _blocks(term):
        rows = jacobian(layout, vector, block)
        if waiting is not None:
            yield waiting
        waiting = block, rows
    if waiting is not None:
        yield waiting


def _blocks(term: Term) -> Iterator[Term]:
    """The term in blocks of equal size, padded with points of weight zero."""
    n = len(term.x)
    count = -(-n // BLOCK)
    size = -(-n // count)
    for start in range(0, n, size):
        rows = slice(start, start + size)
        x, y, weight = term.x[rows], term.y[rows], term.weight[rows]
        if missing := size - len(x):
            edge = ((0, missing), (0, 0))
            x, y = (jnp.pad(array, edge, mode="edge") for array in (x, y))
            weight = jnp.pad(weight, edge)
        yield dataclasses.replace(term, x=x, y=y, weight=weight)


@functools.partial(jax.jit, static_argnums=0)
def jacobian(
    layout: Layout, vector: Float[Array, " n"], term: Term
) -> tuple[Float[Array, "N Q"], Float[Array, "NQ P"]]:
    """The residuals q(x) - y, and the Jacobian of √w (q(x) - y) by θ.

    A row of the Jacobian is one quantity at one point; the quantities of a point follow each other.
    """
    network, directions = layout.network(vector), term.directions
    rows = []
    for tangent in tangents(network, term.x, term.residual, directions):
        parts = [
            _layer_rows(layer, here, directions)
            for layer, here in zip(network.layers, tangent, strict=True)
        ]
        rows.append(jnp.concatenate(parts, axis=1))
    J = jnp.stack(rows, axis=1) * jnp.sqrt(term.weight)[..., None]  # (N, Q, P)
    return quantities(network, term) - term.y, J.reshape(-1, J.shape[-1])


def quantities(network: KAN, term: Term) -> Float[Array, "N Q"]:
    """The network's outputs, or the residual of its derivatives."""
    if term.residual is None:
        return network(term.x)
    derivatives = network.derivatives(term.x, term.directions.first, term.directions.second)
    return term.residual(term.x, derivatives).reshape(len(term.x), -1)


def features_by_order(layer: KANLayer, inputs: Any) -> list[Float[Array, "N n_in n_features"]]:
    """B_m(x_i) and, if the layer has one, R(x_i), and their derivatives, one array per order."""
    if layer.r is None:
        orders = inputs.B
    else:
        both = zip(inputs.B, inputs.R, strict=True)
        orders = [jnp.concatenate([B, R[..., None]], axis=-1) for B, R in both]
    return [jnp.moveaxis(F, 0, 1) for F in orders]


def _layer_rows(
    layer: KANLayer, tangent: Tangent, directions: Directions
) -> Float[Array, "N columns"]:
    """∂q_n/∂(b, r, bias) of one layer, in the order of `Layout`."""
    inputs = _inputs(layer, tangent, directions)
    N = tangent.x.shape[1]
    features = features_by_order(layer, inputs)  # (N, n_in, n_basis + 1)
    bias = tangent.cotangent[0][..., None]  # (N, n_out, 1)
    if len(features) == 1:
        edges = bias * features[0].reshape(N, 1, -1)
    else:
        by_input = jax.vmap(lambda x: jnp.stack(_by_order(tangent.cotangent, x, directions)))
        h = by_input(inputs.x)  # (n_in, orders, N, n_out)
        edges = sum(
            h[:, order].transpose(1, 2, 0)[..., None] * F[:, None]
            for order, F in enumerate(features)
        )
        edges = jnp.asarray(edges).reshape(N, layer.n_out, -1)
    parts = [edges] if layer.bias is None else [edges, bias]
    return jnp.concatenate(parts, axis=-1).reshape(N, -1)
