"""Layers in C++ through the FFI.

Of uniform B-splines only the k + 1 functions that are not zero are computed; of Chebyshev, Legendre
and Fourier bases and Gaussians all are, block by block, so that no table leaves the caches.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from kandle.bases import Basis, BSpline
from kandle.kernels import _dense
from kandle.kernels._families import is_global, is_local
from kandle.kernels._fused import jet_p
from kandle.kernels._residual import Residual
from kandle.kernels._trilinear import basis_sums, row_sums

_DTYPES = ("float32", "float64")


def accelerates(basis: Basis) -> bool:
    """Whether this backend has kernels for a basis."""
    return is_local(basis) or is_global(basis)


def layer(x, r, c, b, bias, *, basis: Basis, residual: Residual | None) -> Array:
    """y_j = Σ_i [ r_ji R(x_i) + c_ji Σ_m b_jim B_m(x_i) ] + bias_j."""
    return jet(x[None], r, c, b, bias, first=0, second=0, basis=basis, residual=residual)[0]


def jet(
    x: Float[Array, "C N n_in"],
    r: Float[Array, "n_out n_in"] | None,
    c: Float[Array, "n_out n_in"],
    b: Float[Array, "n_out n_in n_basis"],
    bias: Float[Array, " n_out"] | None,
    *,
    first: int,
    second: int,
    basis: Basis,
    residual: Residual | None,
) -> Float[Array, "C N n_out"]:
    """(x, x_d, x_dd) -> (y, y_d, y_dd) in one call.

    SiLU is part of that call; any other residual function is added by JAX, which sums it to the
    same value but in an order of its own.
    """
    counts = {"first": first, "second": second, "basis": basis}
    if x.dtype.name not in _DTYPES:
        return _dense.jet(x, r, c, b, bias, residual=residual, **counts)
    fused = residual is jax.nn.silu
    weights = r if fused and r is not None else jnp.zeros_like(c)
    shift = jnp.zeros(c.shape[0], c.dtype) if bias is None else bias
    operands = (operand[None] for operand in (x, weights, c, b, shift))
    y = jet_p.bind(*operands, residual=fused, **counts)[0]
    if residual is None or fused:
        return y
    none = jnp.zeros((*c.shape, basis.n_basis), c.dtype)
    return y + _dense.jet(x, r, c, none, None, residual=residual, **counts)


def statistics(
    x: Float[Array, "N n_in"], *, basis: Basis
) -> tuple[Float[Array, "n_in n_basis"], Float[Array, "n_in n_basis"]]:
    """Mean and population variance over the batch of every B_m(x_i)."""
    if x.dtype.name not in _DTYPES or not isinstance(basis, BSpline):
        return _dense.statistics(x, basis=basis)
    first, second = (sums[0] / len(x) for sums in basis_sums(x[None], basis=basis))
    # Rounding can leave a function that is constant over the batch just below zero.
    return first, jnp.maximum(second - first**2, 0.0)


def total(x: Float[Array, "... N"]) -> Float[Array, "..."]:
    """Σ_n x_n over the last axis, in an order that depends on N alone."""
    if x.dtype.name not in _DTYPES:
        return _dense.total(x)
    return row_sums(x.reshape(-1, x.shape[-1])).reshape(x.shape[:-1])
