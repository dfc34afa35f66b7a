"""What a network is fitted by: the loss of every row, and penalties on its edge functions."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kandle.bases import Basis, Uniform
from kandle.nn import KAN

# (outputs, targets) -> the loss of every row and its score, which is averaged for people to read.
RowLoss = Callable[
    [Float[Array, "N n_out"], Float[Array, "N n_out"]],
    tuple[Float[Array, " N"], Float[Array, " N"]],
]


def squared_error(u: Float[Array, "N n_out"], y: Float[Array, "N n_out"]):
    """|u - y|² / n_out; its score 1 - loss averages to R² where y has unit variance."""
    loss = jnp.mean((u - y) ** 2, axis=-1)
    return loss, 1 - loss


def cross_entropy(u: Float[Array, "N n_classes"], y: Float[Array, "N n_classes"]):
    """-log softmax(u) at the class whose y is 1; the score is 1 where that class is foremost."""
    loss = jax.nn.logsumexp(u, axis=-1) - jnp.sum(y * u, axis=-1)
    return loss, (jnp.argmax(u, axis=-1) == jnp.argmax(y, axis=-1)).astype(u.dtype)


LOSSES: dict[str, RowLoss] = {"values": squared_error, "classes": cross_entropy}


def penalties(model: KAN) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """(Σ_edges ∫ φ''² dx, Σ r² + Σ (c·b)²), with φ = c Σ_m b_m B_m."""
    curvature, size = jnp.zeros((), model.dtype), jnp.zeros((), model.dtype)
    for layer in model.layers:
        b = layer.c[..., None] * layer.b  # (n_out, n_in, n_basis)
        gram = jnp.asarray(curvature_gram(layer.basis), b.dtype)
        curvature += jnp.sum((b @ gram) * b)
        size += jnp.sum(b * b)
        if layer.r is not None:
            size += jnp.sum(layer.r**2)
    return curvature, size


@functools.lru_cache(maxsize=64)
def curvature_gram(basis: Basis) -> Float[np.ndarray, "n_basis n_basis"]:
    """Ω_mn = ∫ B_m''(x) B_n''(x) dx over the domain, so that ∫ φ'' ² = c² bᵀ Ω b.

    >>> from kandle.bases import BSpline
    >>> abs(curvature_gram(BSpline(1, 3, (0.0, 1.0)))[0]).round(2)
    array([0.33, 0.5 , 0.  , 0.17])
    """
    lo, hi = basis.domain

    def products(x: np.ndarray) -> np.ndarray:
        second = basis.values(x, order=2)  # (..., n_basis)
        return second[..., :, None] * second[..., None, :]

    return (hi - lo) * Uniform(lo, hi).expect(products, breakpoints=basis.breakpoints)
