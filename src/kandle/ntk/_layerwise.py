"""The tangent kernel as a sum over layers and their inputs, without a Jacobian.

The gradient of q_n with respect to the weights of one edge (j, i) is made of few numbers. With the
orders ν of derivatives that the jets carry (one for values, three for second derivatives) and

    h_nj⁽ᵛ⁾ = ∂q_n/∂φ_ji⁽ᵛ⁾(x_ni),        φ_ji = r_ji R + c_ji Σ_m b_jim B_m

it is, by b, c, r and the bias,

    c_ji Σ_ν h_nj⁽ᵛ⁾ B_m⁽ᵛ⁾,    Σ_ν h_nj⁽ᵛ⁾ Σ_m b_jim B_m⁽ᵛ⁾,    Σ_ν h_nj⁽ᵛ⁾ R⁽ᵛ⁾,    ∂q_n/∂y_nj.

In the products of two points, the sums over j and m of the largest block separate:

    Σ_jm (∂q_n/∂b_jim)(∂q_n'/∂b_jim) = Σ_νν' [Σ_j c_ji² h_nj⁽ᵛ⁾ h_n'j⁽ᵛ'⁾] [Σ_m B_m⁽ᵛ⁾ B_m⁽ᵛ'⁾]

which costs n_out + n_basis multiplications instead of n_out · n_basis, and no memory for them.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from kandle.bases import evaluate
from kandle.nn import KAN, KANLayer
from kandle.nn._layer import EPSILON
from kandle.ntk._tangents import Directions, Residual, Tangent, tangents

# Rows of K that are made at a time: small enough that all about them stays in the cache.
BLOCK = 128


class Rows:
    """Quantities at points, ready for kernels: one list of layers' tangents a quantity.

    Args:
        model: in float64; its rows must not depend on each other.
        x: points, (N, n_in).
        residual: what is asked of the derivatives there; None is the network's outputs.
        directions: the derivatives it reads.
        chunk: rows of a kernel made at a time.
    """

    def __init__(
        self,
        model: KAN,
        x: Float[np.ndarray, "N n_in"],
        residual: Residual | None = None,
        directions: Directions | None = None,
        chunk: int | None = None,
    ):
        self.model, self.directions, self.n = model, directions or Directions(), len(x)
        self.chunk = min(chunk or BLOCK, self.n)
        # Whole chunks: one compiled program serves all. What the added points give is cut off.
        padded = np.concatenate([x, np.repeat(x[-1:], -len(x) % self.chunk, axis=0)])
        self.blocks = [
            _tangents(model, block, residual=residual, directions=self.directions)
            for block in padded.reshape(-1, self.chunk, x.shape[1])
        ]
        self.quantities = len(self.blocks[0])

    def trace_kernel(self) -> Float[np.ndarray, "N N"]:
        """Σ_q J_q J_qᵀ over the quantities q at a point."""
        return symmetric(np.sum([self.kernel(q, self, q) for q in range(self.quantities)], axis=0))

    def stacked(self, other: "Rows") -> Float[np.ndarray, "NQ MP"]:
        """J Jᵀ of all quantities at all points, quantities the faster."""
        K = [
            [self.kernel(q, other, p) for p in range(other.quantities)]
            for q in range(self.quantities)
        ]
        stacked = np.moveaxis(np.asarray(K), (0, 1), (1, 3))  # (N, Q, M, P)
        return stacked.reshape(self.n * self.quantities, other.n * other.quantities)

    def kernel(self, q: int, other: "Rows", p: int) -> Float[np.ndarray, "N M"]:
        """J_q J_pᵀ of one quantity here and one there, of the same model."""
        symmetric = self is other and q == p
        K = np.empty((len(self.blocks) * self.chunk, len(other.blocks) * other.chunk))
        for i, own in enumerate(self.blocks):
            for j, its in enumerate(other.blocks):
                if symmetric and j < i:
                    continue
                a, b = i * self.chunk, j * other.chunk
                part = self._part(own[q], its[p], other.directions)
                K[a : a + self.chunk, b : b + other.chunk] = part
                if symmetric:
                    K[b : b + other.chunk, a : a + self.chunk] = part.T
        return K[: self.n, : other.n]

    def _part(
        self, own: tuple[Tangent, ...], its: tuple[Tangent, ...], directions: Directions
    ) -> Float[np.ndarray, "rows columns"]:
        layers = zip(self.model.layers, own, its, strict=True)
        parts = [layer_gram(*each, self.directions, directions) for each in layers]
        return np.sum([np.asarray(part) for part in parts], axis=0)


def symmetric(K: Float[np.ndarray, "N N"]) -> Float[np.ndarray, "N N"]:
    """K without the last bits that a matrix product may give one triangle and not the other."""
    return (K + K.T) / 2


@functools.partial(jax.jit, static_argnames=("residual", "directions"))
def _tangents(model, x, *, residual, directions):
    return tangents(model, x, residual, directions)


# By layer: those of one shape share a compiled program.
@functools.partial(jax.jit, static_argnums=(3, 4))
def layer_gram(
    layer: KANLayer, here: Tangent, there: Tangent, own: Directions, its: Directions
) -> Float[Array, "N M"]:
    """Σ over the weights of one layer of the products of gradients, one input after the other."""

    def add(K: Array, i: tuple[_Weights, _Inputs, _Inputs]) -> tuple[Array, None]:
        weights, a, b = i
        (H_a, D_a), (H_b, D_b) = (
            _gradients(weights, a, here.cotangent, own),
            _gradients(weights, b, there.cotangent, its),
        )
        for h_a, B_a in zip(H_a, a.B, strict=True):
            for h_b, B_b in zip(H_b, b.B, strict=True):
                K = K + (h_a @ h_b.T) * (B_a @ B_b.T)
        return K + D_a @ D_b.T, None

    weights = _Weights(layer.c.T, jnp.moveaxis(layer.b, 1, 0))
    if layer.bias is None:
        K = jnp.zeros((here.x.shape[1], there.x.shape[1]), here.x.dtype)
    else:
        K = here.cotangent[0] @ there.cotangent[0].T
    return lax.scan(add, K, (weights, _inputs(layer, here, own), _inputs(layer, there, its)))[0]


class _Weights(NamedTuple):
    """Of the edges from every input."""

    c: Float[Array, "n_in n_out"]
    b: Float[Array, "n_in n_out n_basis"]


class _Inputs(NamedTuple):
    """Every input's jet at the points, and its functions to as many orders as jets need."""

    x: Float[Array, "n_in C N"]
    B: tuple[Float[Array, "n_in N n_basis"], ...]
    R: tuple[Float[Array, "n_in N"], ...]


def _inputs(layer: KANLayer, tangent: Tangent, directions: Directions) -> _Inputs:
    x = tangent.x[0].T  # (n_in, N)
    orders = 1 + bool(directions.along) + bool(directions.second)
    B = [evaluate(x, layer.basis, order) for order in range(orders)]
    if layer.mean is not None and layer.variance is not None:
        B[0] = B[0] - layer.mean[:, None]
        scale = lax.rsqrt(layer.variance + EPSILON)[:, None]
        B = [table * scale for table in B]
    R, f = [], layer.residual
    for _ in range(orders if f is not None else 0):
        R.append(f(x))  # type: ignore[misc]
        f = _derivative(f)
    return _Inputs(jnp.moveaxis(tangent.x, -1, 0), tuple(B), tuple(R))


def _gradients(
    weights: _Weights, inputs: _Inputs, cotangent: Array, directions: Directions
) -> tuple[list[Float[Array, "N n_out"]], Float[Array, "N d"]]:
    """Of one input's edges: c h⁽ᵛ⁾ for every order, and the gradients by c and r side by side."""
    h = _by_order(cotangent, inputs.x, directions)
    by_c = sum(h_v * (B @ weights.b.T) for h_v, B in zip(h, inputs.B, strict=True))
    gradients = [by_c]
    if inputs.R:
        gradients.append(sum(h_v * R[:, None] for h_v, R in zip(h, inputs.R, strict=True)))
    return [h_v * weights.c for h_v in h], jnp.concatenate(gradients, axis=1)


def _by_order(
    cotangent: Float[Array, "C N n_out"], x: Float[Array, "C N"], directions: Directions
) -> list[Float[Array, "N n_out"]]:
    """h⁽ᵛ⁾: y = φ, y_d = φ' x_d and y_dd = φ'' x_d² + φ' x_dd, gathered by the order of φ."""
    n, second = len(directions.along), len(directions.second)
    x = x[..., None]
    orders = [cotangent[0]]
    if n:
        # Components from 1 on hold x_d and x_dd, and φ' multiplies both.
        orders.append(jnp.sum(cotangent[1:] * x[1:], axis=0))
    if second:
        orders.append(jnp.sum(cotangent[1 + n :] * x[1 : 1 + second] ** 2, axis=0))
    return orders


def _derivative(f):
    return lambda x: jax.jvp(f, (x,), (jnp.ones_like(x),))[1]
