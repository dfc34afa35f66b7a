"""What a network is fitted by: the loss of every row, penalties on its edges, and the rate."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from kandle.bases import Basis, Uniform
from kandle.nn import KAN
from kandle.train import Aux, Data, FitRows, Objective, Transformation

# (outputs, targets) -> the loss of every row and its score, which is averaged for people to read.
RowLoss = Callable[
    [Float[Array, "N n_out"], Float[Array, "N n_out"]],
    tuple[Float[Array, " N"], Float[Array, " N"]],
]

# The learning rate rises over this many updates: Adam's first steps are large and point anywhere.
_WARM_UP = 20


# ---- rows ----------------------------------------------------------------------------------------


def squared_error(
    u: Float[Array, "N n_out"], y: Float[Array, "N n_out"]
) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
    """|u - y|² / n_out; its score 1 - loss averages to R² where y has unit variance."""
    loss = jnp.mean((u - y) ** 2, axis=-1)
    return loss, 1 - loss


def cross_entropy(
    u: Float[Array, "N n_classes"], y: Float[Array, "N n_classes"]
) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
    """-log softmax(u) at the class whose y is 1; the score is 1 where that class is foremost."""
    loss = jax.nn.logsumexp(u, axis=-1) - jnp.sum(y * u, axis=-1)
    return loss, (jnp.argmax(u, axis=-1) == jnp.argmax(y, axis=-1)).astype(u.dtype)


LOSSES: dict[str, RowLoss] = {"values": squared_error, "classes": cross_entropy}


@dataclass(frozen=True)
class PenalizedRows(Objective):
    """The loss of the rows with two penalties on the edge functions φ = c Σ_m b_m B_m.

        Σ_n w_n L(u(x_n), y_n) + s Σ_edges ∫ φ''(x)² dx + d Σ (r² + (c·b)²)

    The factors s and d are data, `penalty`, so that one compiled program serves all of them.

    Args:
        kind: of L, a name of `LOSSES`.
    """

    kind: Literal["values", "classes"]

    penalized = True

    @property
    def arrays(self) -> tuple[str, ...]:
        return ("x", "y", "weight", "penalty")

    @property
    def squares(self) -> Literal["by layer"] | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "by layer" if self.kind == "values" else None

    def loss(self, model: KAN, data: Data, aux: Aux, backend: str) -> tuple[Float[Array, ""], Aux]:
        if self.kind == "values":
            loss, _ = FitRows().loss(model, self._per_output(data), aux, backend)
        else:
            by_row, _ = cross_entropy(model(data["x"]), data["y"])
            loss = jnp.sum(data["weight"] * by_row)
        curvature, size = penalties(model)
        smoothness, weight_decay = data["penalty"]
        return loss + smoothness * curvature + weight_decay * size, aux

    def measure(self, model: KAN, data: Data, backend: str) -> Float[Array, "2"]:
        """The loss of rows without penalties, and their score."""
        x, y, weight = data["x"], data["y"], data["weight"]
        # A row of weight 0 may lie so far out that its loss is infinite.
        parts = [jnp.where(weight > 0, weight * v, 0) for v in LOSSES[self.kind](model(x), y)]
        return jnp.stack([jnp.sum(part) for part in parts])

    def terms(self, data: Data, aux: Aux) -> Any:
        return FitRows().terms(self._per_output(data), aux)

    def _per_output(self, data: Data) -> Data:
        """The data with weights of single squares: the loss of a row is the mean of its targets."""
        return {**data, "weight": data["weight"] / data["y"].shape[1]}

    def penalty_matrix(self, model: KAN, data: Data) -> Float[np.ndarray, "P P"]:
        smoothness, weight_decay = np.asarray(data["penalty"], np.float64).tolist()
        layers = tuple(
            (layer.basis, layer.n_in, layer.n_out, layer.r is not None, layer.bias is not None)
            for layer in model.layers
        )
        return _penalty_matrix(layers, smoothness, weight_decay)


# ---- penalties -----------------------------------------------------------------------------------


def penalties(model: KAN) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """(Σ_edges ∫ φ''² dx, Σ r² + Σ (c·b)²), with φ = c Σ_m b_m B_m."""
    curvature, size = jnp.zeros((), model.dtype), jnp.zeros((), model.dtype)
    for layer in model.layers:
        b = layer.c[..., None] * layer.b  # (n_out, n_in, n_basis)
        curvature += _quadratic(b, jnp.asarray(curvature_gram(layer.basis), b.dtype))
        size += jnp.sum(b * b)
        if layer.r is not None:
            size += jnp.sum(layer.r**2)
    return curvature, size


@jax.custom_vjp
def _quadratic(b: Float[Array, "... n"], gram: Float[Array, "n n"]) -> Float[Array, ""]:
    """Σ bᵀ Ω b for a symmetric Ω, whose gradient 2 Ω b needs no product of its own."""
    return jnp.sum((b @ gram) * b)


def _quadratic_forward(b: Array, gram: Array) -> tuple[Array, Array]:
    product = b @ gram
    return jnp.sum(product * b), product


def _quadratic_backward(product: Array, cotangent: Array) -> tuple[Array, None]:
    return 2 * cotangent * product, None


_quadratic.defvjp(_quadratic_forward, _quadratic_backward)


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


@functools.lru_cache(maxsize=8)
def _penalty_matrix(
    layers: tuple[tuple[Basis, int, int, bool, bool], ...], smoothness: float, weight_decay: float
) -> Float[np.ndarray, "P P"]:
    """The matrix of both penalties: one block for each edge's b and r, zero for biases."""
    from scipy.linalg import block_diag

    blocks = []
    for basis, n_in, n_out, has_residual, has_bias in layers:
        n = basis.n_basis
        edge = np.eye(n + has_residual) * weight_decay
        edge[:n, :n] += smoothness * curvature_gram(basis)
        bias = [np.zeros((1, 1))] * has_bias
        blocks += [*[edge] * n_in, *bias] * n_out
    return np.asarray(block_diag(*blocks))


# ---- the update ----------------------------------------------------------------------------------


class _Moments(NamedTuple):
    """The state of Adam: the number of updates, and the moments."""

    updates: Array
    adam: Any


_adam = optax.scale_by_adam()


def _update(gradient: Any, state: _Moments, params: Any = None, *, data: Data, **_: Any) -> Any:
    rate, decay = data["rate"]
    t = state.updates.astype(rate.dtype)
    falling = rate * 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(1, t / decay)))
    size = falling * jnp.minimum(1, (t + 1) / _WARM_UP)
    direction: Any
    direction, adam = _adam.update(gradient, state.adam)
    return -size * direction, _Moments(state.updates + 1, adam)


# Adam with a rate that rises for 20 updates and falls along a cosine, η_t = η (1 + cos(π t/T))/2.
# (η, T) are data, `rate`, so that one compiled program serves all of them; T = ∞ keeps the rate.
ADAM = Transformation(
    optax.GradientTransformationExtraArgs(
        lambda params: _Moments(jnp.zeros((), jnp.int32), _adam.init(params)),
        _update,  # pyright: ignore[reportArgumentType]
    )
)
