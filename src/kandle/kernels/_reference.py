"""The layer as its equation reads: the basis by its definition, and one einsum per term.

The other backends are compared with this one. It accepts any basis.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from kandle.bases import Basis
from kandle.bases._jax import values
from kandle.kernels._residual import Residual, residual_derivatives


def layer(
    x: Float[Array, "N n_in"],
    r: Float[Array, "n_out n_in"] | None,
    c: Float[Array, "n_out n_in"],
    b: Float[Array, "n_out n_in n_basis"],
    bias: Float[Array, " n_out"] | None,
    *,
    basis: Basis,
    residual: Residual | None,
) -> Float[Array, "N n_out"]:
    """y_j = Σ_i [ r_ji R(x_i) + c_ji Σ_m b_jim B_m(x_i) ] + bias_j."""
    y = jnp.einsum("oi,oim,nim->no", c, b, values(x, basis, 0))
    if r is not None and residual is not None:
        y = y + jnp.einsum("oi,ni->no", r, residual(x))
    return y if bias is None else y + bias


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
    """(x, x_d, x_dd) -> (y, y_d, y_dd) with φ_ji = r_ji R + c_ji Σ_m b_jim B_m.

    y_d = Σ_i φ'(x_i) x_d,i and y_dd = Σ_i φ''(x_i) x_d,i² + φ'(x_i) x_dd,i.
    """
    orders = range(1 + (first > 0) + (second > 0))
    phi = [jnp.einsum("oi,oim,nim->noi", c, b, values(x[0], basis, order)) for order in orders]
    if r is not None and residual is not None:
        R = residual_derivatives(residual, x[0], len(phi))
        phi = [p + r * d[:, None, :] for p, d in zip(phi, R, strict=True)]
    x_d, x_dd = x[1 : 1 + first], x[1 + first :]
    value = phi[0].sum(-1)
    if bias is not None:
        value = value + bias
    parts = [value[None]]
    if first:
        parts.append(jnp.einsum("noi,dni->dno", phi[1], x_d))
    if second:
        curved = jnp.einsum("noi,dni->dno", phi[2], x_d[:second] ** 2)
        parts.append(curved + jnp.einsum("noi,dni->dno", phi[1], x_dd))
    return jnp.concatenate(parts)


def statistics(
    x: Float[Array, "N n_in"], *, basis: Basis
) -> tuple[Float[Array, "n_in n_basis"], Float[Array, "n_in n_basis"]]:
    """Mean and population variance over the batch of every B_m(x_i)."""
    B = values(x, basis, 0)
    return B.mean(0), B.var(0)


def total(x: Float[Array, "... N"]) -> Float[Array, "..."]:
    """Σ_n x_n over the last axis."""
    return jnp.sum(x, axis=-1)
