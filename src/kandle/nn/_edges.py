"""The numbers behind a picture of a network: what each edge contributes over data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kandle._errors import must
from kandle.bases import evaluate
from kandle.nn._layer import KANLayer, blocks

if TYPE_CHECKING:
    from kandle.nn._network import KAN


@dataclass(frozen=True, eq=False)
class LayerEdges:
    """The edges of one layer over data.

    Edge (j, i) carries φ_ji(x_i) = r_ji R(x_i) + c_ji Σ_m b_jim B_m(x_i) from input i to output j.

    Attributes:
        importance: the standard deviation of φ_ji(x_i) over the data, (n_out, n_in).
        mean: its mean, (n_out, n_in).
        low, high: the range of each input over the data, (n_in,) each.
    """

    importance: Float[np.ndarray, "n_out n_in"]
    mean: Float[np.ndarray, "n_out n_in"]
    low: Float[np.ndarray, " n_in"]
    high: Float[np.ndarray, " n_in"]
    _layer: KANLayer
    _weights: Float[np.ndarray, "n_out n_in n_features"]

    @property
    def relative(self) -> Float[np.ndarray, "n_out n_in"]:
        """The importance as a share of the layer's largest; zero if no edge varies at all."""
        largest = self.importance.max()
        return self.importance / largest if largest > 0 else np.zeros_like(self.importance)

    def curve(
        self, j: int, i: int, points: int = 100
    ) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]:
        """The function φ_ji over the range of input i: points and values."""
        t = np.linspace(self.low[i], self.high[i], points)
        return t, _features(self._layer, t) @ self._weights[j, i]


def edges(model: "KAN", x: Float[Array, "N n_in"]) -> list[LayerEdges]:
    """`LayerEdges` of every layer, first to last, over the rows of x.

    The variance of an edge is a quadratic form in its weights,

        Var[φ_ji] = w_jiᵀ C_i w_ji,    w_ji = (r_ji, c_ji b_ji1, …, c_ji b_jin),

    with C_i the covariance of (R(x_i), B_1(x_i), …, B_n(x_i)) over the data, so the cost per edge
    does not grow with the number of rows.
    """
    found = []
    for layer in model.layers:
        found.append(_layer_edges(layer, x))
        x = jnp.concatenate([layer(block) for block in blocks(x)])
    return found


def _layer_edges(layer: KANLayer, x: Array) -> LayerEdges:
    weights = _edge_weights(layer, x)
    n_out, n_in, _ = weights.shape
    columns = np.asarray(x, np.float64).T
    if not np.isfinite(columns).all():
        raise must("The values inside the network", "finite on 'x'", "infinities or NaN")
    importance, mean = np.empty((n_out, n_in)), np.empty((n_out, n_in))
    for i, column in enumerate(columns):
        features = _features(layer, column)
        center = features.mean(axis=0)
        deviations = features - center
        covariance = deviations.T @ deviations / len(column)
        w = weights[:, i]
        mean[:, i] = w @ center
        importance[:, i] = np.sqrt(np.maximum(np.einsum("jm,mk,jk->j", w, covariance, w), 0.0))
    return LayerEdges(
        importance, mean, columns.min(axis=1), columns.max(axis=1), layer.freeze(x), weights
    )


def _edge_weights(layer: KANLayer, x: Array) -> Float[np.ndarray, "n_out n_in n_features"]:
    """w_ji of every edge; a normalized layer's standardization is part of them."""
    r, c, b, _ = layer.effective_weights(x)
    spline = np.asarray(c, np.float64)[..., None] * np.asarray(b, np.float64)
    if r is None:
        return spline
    return np.concatenate([np.asarray(r, np.float64)[..., None], spline], axis=-1)


def _features(layer: KANLayer, t: Float[np.ndarray, " N"]) -> Float[np.ndarray, "N n_features"]:
    values = layer.basis.values(t)
    if layer.residual is None:
        return values
    residual = np.asarray(layer.residual(jnp.asarray(t)), np.float64)
    return np.concatenate([residual[:, None], values], axis=-1)


def sparsity(model: "KAN", x: Float[Array, "N n_in"], *, entropy: float = 1.0) -> Float[Array, ""]:
    """A penalty that is small when few edges carry the network, differentiable in the weights.

        Σ_layers [ Σ_ji s_ji + η H(s / Σ s) ],    s_ji = √( E[φ_ji(x_i)²] + ε ),

    with H(p) = -Σ p ln p: the sum favours small edges, the entropy favours few of them. Add
    λ · sparsity(model, x) to the loss, then remove what became weak with `KAN.prune`.

    Args:
        model: the network.
        x: a sample of the inputs.
        entropy: η.
    """
    total = jnp.zeros((), model.dtype)
    for layer in model.layers:
        r, c, b, _ = layer.effective_weights(x)
        weights = c[..., None] * b  # (n_out, n_in, n_basis)
        features = evaluate(x, layer.basis)  # (N, n_in, n_basis)
        if r is not None and layer.residual is not None:
            weights = jnp.concatenate([r[..., None], weights], axis=-1)
            features = jnp.concatenate([layer.residual(x)[..., None], features], axis=-1)
        moment = jnp.einsum("nim,nik->imk", features, features) / len(x)
        square = jnp.einsum("jim,imk,jik->ji", weights, moment, weights)
        s = jnp.sqrt(jnp.maximum(square, 0.0) + 1e-12)
        p = s / s.sum()
        total = total + s.sum() - entropy * jnp.sum(p * jnp.log(p))
        x = layer(x)
    return total


def strongest(found: Sequence[LayerEdges], count: int) -> list[np.ndarray]:
    """A mask per layer, true for the `count` edges of the network with the largest `relative`."""
    scores = np.concatenate([layer.relative.ravel() for layer in found])
    chosen = np.zeros(scores.size, bool)
    chosen[np.argsort(-scores, kind="stable")[:count]] = True
    sizes = np.cumsum([layer.relative.size for layer in found])[:-1]
    return [
        part.reshape(layer.relative.shape)
        for part, layer in zip(np.split(chosen, sizes), found, strict=True)
    ]
