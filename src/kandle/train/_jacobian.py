"""Residuals, Jacobian and normal equations of a network, in blocks of points.

A layer's part of the Jacobian has few independent numbers. With the sensitivities h of `kandle.ntk`
and the features F_ni = (B_1(x_ni), …, B_M(x_ni), R(x_ni)) of one input,

    ∂q_n/∂θ_jim = Σ_ν h_nji⁽ᵛ⁾ F_nim⁽ᵛ⁾,        ∂q_n/∂bias_j = ∂q_n/∂y_nj

(ν = 0 for values; orders 1 and 2 where q reads derivatives): one reverse pass serves all points.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from kandle.nn import KAN, KANLayer
from kandle.ntk._layerwise import _by_order, _inputs
from kandle.ntk._tangents import Directions, Tangent, tangents
from kandle.train._terms import Term

# Points per block: a block of the Jacobian should stay small, and matrix products efficient.
BLOCK = 1024


@dataclass(frozen=True)
class Layout:
    """How a network corresponds to one vector: the trained weights θ, then constants.

    The scales c are redundant, since only the products c_ji b_jim act. They are absorbed into b
    (c = 1 from then on; the function does not change), and θ consists of b, r and bias. Each layer
    contributes the matrix [b_ji1 … b_jiM r_ji | bias_j] of n_out rows. The constants are the
    statistics of a normalized network, which must be frozen.
    """

    structure: Any  # tree structure of the model
    shapes: tuple[tuple[int, ...], ...]  # of its leaves

    @classmethod
    def of(cls, model: KAN) -> "Layout":
        leaves, structure = jax.tree.flatten(model)
        return cls(structure, tuple(leaf.shape for leaf in leaves))

    @functools.cached_property
    def template(self) -> KAN:
        """The model with shapes in place of arrays."""
        shapes = [jax.ShapeDtypeStruct(shape, np.float64) for shape in self.shapes]
        return jax.tree.unflatten(self.structure, shapes)

    @functools.cached_property
    def n_weights(self) -> int:
        """The length of θ."""
        return sum(layer.n_out * _columns(layer) for layer in self.template.layers)

    def vector(self, model: KAN) -> Float[np.ndarray, " n"]:
        """θ and the constants of a model, with c absorbed into b."""
        trained, constants = [], []
        for layer in model.layers:
            columns = [np.asarray(layer.c)[..., None] * np.asarray(layer.b)]
            if layer.r is not None:
                columns.append(np.asarray(layer.r)[..., None])
            matrix = np.concatenate(columns, axis=-1).reshape(layer.n_out, -1)
            if layer.bias is not None:
                matrix = np.concatenate([matrix, np.asarray(layer.bias)[:, None]], axis=1)
            trained.append(matrix.ravel())
            constants += [np.ravel(s) for s in (layer.mean, layer.variance) if s is not None]
        return np.concatenate([*trained, *constants])

    def model(self, vector: Float[Array, " n"]) -> KAN:
        """The model of a vector."""
        layers, start, constant = [], 0, self.n_weights
        for layer in self.template.layers:
            n_out, n_in, n_basis = layer.b.shape
            size = n_out * _columns(layer)
            matrix = vector[start : start + size].reshape(n_out, -1)
            start += size
            bias = None if layer.bias is None else matrix[:, -1]
            edges = matrix if bias is None else matrix[:, :-1]
            edges = edges.reshape(n_out, n_in, -1)
            r = None if layer.r is None else edges[..., n_basis]
            c = jnp.ones((n_out, n_in), vector.dtype)
            statistics = []
            for shape in (layer.mean, layer.variance):
                if shape is None:
                    statistics.append(None)
                    continue
                statistics.append(vector[constant : constant + shape.size].reshape(shape.shape))
                constant += shape.size
            layers.append(
                eqx.tree_at(
                    lambda layer: (
                        *(layer.r, layer.c, layer.b, layer.bias),
                        *(layer.mean, layer.variance),
                    ),
                    layer,
                    (r, c, edges[..., :n_basis], bias, *statistics),
                    is_leaf=lambda leaf: leaf is None,
                )
            )
        return KAN.from_layers(layers)


def _columns(layer: KANLayer) -> int:
    """Trained weights per output of a layer."""
    _, n_in, n_basis = layer.b.shape
    return n_in * (n_basis + (layer.r is not None)) + (layer.bias is not None)


class Normal(NamedTuple):
    """The normal equations of Σ_n w_n r_n²: the loss, JᵀWJ, JᵀWr, and the residuals per term."""

    loss: float
    gram: Float[np.ndarray, "P P"]
    gradient: Float[np.ndarray, " P"]
    residuals: list[Float[np.ndarray, "N Q"]]


def normal_equations(
    layout: Layout, vector: Float[ArrayLike, " n"], terms: tuple[Term, ...]
) -> Normal:
    """The normal equations at θ, accumulated in float64 over blocks of the Jacobian."""
    P = layout.n_weights
    gram, gradient, loss, residuals = np.zeros((P, P)), np.zeros(P), 0.0, []
    # The first product is written in place; a buffer for the others avoids an allocation per block.
    buffer, first = np.empty((P, P)), True
    for term in terms:
        found = []
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
            found.append(np.asarray(r))
        residuals.append(np.concatenate(found)[: len(term.x)])
    return Normal(loss, gram, gradient, residuals)


def _computed_ahead(
    layout: Layout, vector: Float[Array, " n"], term: Term
) -> Iterator[tuple[Term, tuple[Array, Array]]]:
    """Each block with its residuals and its Jacobian, while JAX computes those of the next one."""
    waiting = None
    for block in _blocks(term):
        rows = _rows(layout, vector, *block[:3], block.residual, block.directions)
        if waiting is not None:
            yield waiting
        waiting = block, rows
    if waiting is not None:
        yield waiting


def jacobian(
    layout: Layout, vector: Float[ArrayLike, " n"], term: Term
) -> tuple[Float[Array, "N Q"], Float[Array, "NQ P"]]:
    """The residuals q(x) - y, and the Jacobian of √w (q(x) - y) by θ, quantities the faster."""
    return _rows(layout, jnp.asarray(vector), *term[:3], term.residual, term.directions)


def _blocks(term: Term) -> Iterator[Term]:
    """The term in blocks of equal size, padded with points of weight zero."""
    n = len(term.x)
    count = -(-n // BLOCK)
    size = -(-n // count)
    for start in range(0, n, size):
        block = [array[start : start + size] for array in term[:3]]
        if missing := size - len(block[0]):
            edge = ((0, missing), (0, 0))
            block = [jnp.pad(array, edge, mode="edge") for array in block[:2]] + [
                jnp.pad(block[2], edge)
            ]
        yield Term(*block, term.residual, term.directions)


@functools.partial(jax.jit, static_argnums=(0, 5, 6))
def _rows(layout, vector, x, y, weight, residual, directions):
    model = layout.model(vector)
    found = tangents(model, x, residual, directions)
    rows = []
    for tangent in found:
        parts = [
            _layer_rows(layer, here, directions)
            for layer, here in zip(model.layers, tangent, strict=True)
        ]
        rows.append(jnp.concatenate(parts, axis=1))
    J = jnp.stack(rows, axis=1) * jnp.sqrt(weight)[..., None]  # (N, Q, P)
    return quantities(model, x, residual, directions) - y, J.reshape(-1, J.shape[-1])


def quantities(
    model: KAN, x: Float[Array, "N n_in"], residual: Any, directions: Directions
) -> Float[Array, "N Q"]:
    """The network's outputs, or the residual of its derivatives."""
    if residual is None:
        return model(x)
    derivatives = model.derivatives(x, directions.first, directions.second)
    return residual(x, derivatives).reshape(len(x), -1)


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
