"""The layer as one matrix product a term, in plain JAX: for accelerators, and without a compiler.

The basis is built in closed form, feature-major, as a table of (n_in · n_basis) rows and one column
a sample: the samples are the fast axis, so every elementwise operation runs over long contiguous
vectors, and the products are (n_out, rows) @ (rows, samples). The derivative of the table is the
table of the next order, which is all that differentiation to any order needs.
"""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from kandle.kernels._residual import Residual, residual_derivatives
from kandle.splines import SplineBasis, local_taps, locate

# Samples of a block: of 32 inputs and 23 functions, a table of 1.5 MB.
_BLOCK = 512


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _table(
    x: Float[Array, "n_in N"], basis: SplineBasis, order: int
) -> Float[Array, "n_in n_basis N"]:
    """B_m^{(ν)}(x_i), each tap written where its function is the m-th."""
    cell, u = locate(x, basis)
    tap = jnp.arange(basis.n_basis, dtype=x.dtype)[:, None] - cell[:, None, :]
    # 0 · x is zero where x is finite and NaN where it is not: no tap matches there.
    table = jnp.broadcast_to((0.0 * x)[:, None, :], tap.shape)
    for j, p in enumerate(local_taps(u, basis.degree, order)):
        table = jnp.where(tap == j, (p * basis.step**-order)[:, None, :], table)
    return table


@_table.defjvp
def _table_jvp(basis: SplineBasis, order: int, primals: tuple, tangents: tuple):
    (x,), (x_dot,) = primals, tangents
    return _table(x, basis, order), _table(x, basis, order + 1) * x_dot[:, None, :]


def _product(c: Array, b: Array, table: Array) -> Float[Array, "n_out N"]:
    """Σ_i c_ji Σ_m b_jim T_im,n."""
    n_out, n_in, n_basis = b.shape
    weights = (c[..., None] * b).reshape(n_out, n_in * n_basis)
    return weights @ table.reshape(n_in * n_basis, -1)


def _splines(x: Float[Array, "n_in N"], c: Array, b: Array, basis: SplineBasis) -> Array:
    """`_product` with the table of x, of many samples in blocks where that pays.

    A CPU's caches hold the table of a block, not of all samples: it is made again for the gradient
    rather than kept. Accelerators gain nothing from that and take all samples at once.
    """

    def product(x: Array) -> Array:
        return _product(c, b, _table(x, basis, 0))

    n_in, samples = x.shape
    if jax.default_backend() != "cpu" or samples <= 2 * _BLOCK:
        return product(x)
    blocks = -(-samples // _BLOCK)
    size = -(-samples // blocks)
    filled = jnp.pad(x, ((0, 0), (0, blocks * size - samples)))
    parts = jax.lax.map(
        jax.checkpoint(product, prevent_cse=False),
        filled.reshape(n_in, blocks, size).swapaxes(0, 1),
    )
    return parts.swapaxes(0, 1).reshape(len(b), -1)[:, :samples]


def layer(
    x: Float[Array, "N n_in"],
    r: Float[Array, "n_out n_in"] | None,
    c: Float[Array, "n_out n_in"],
    b: Float[Array, "n_out n_in n_basis"],
    bias: Float[Array, " n_out"] | None,
    *,
    basis: SplineBasis,
    residual: Residual | None,
) -> Float[Array, "N n_out"]:
    """y_j = Σ_i [ r_ji R(x_i) + c_ji Σ_m b_jim B_m(x_i) ] + bias_j."""
    x = x.T  # XLA cancels this transpose against the previous layer's
    y = _splines(x, c, b, basis)
    if r is not None and residual is not None:
        y = y + r @ residual(x)
    return y.T if bias is None else (y + bias[:, None]).T


def jet(
    x: Float[Array, "C N n_in"],
    r: Float[Array, "n_out n_in"] | None,
    c: Float[Array, "n_out n_in"],
    b: Float[Array, "n_out n_in n_basis"],
    bias: Float[Array, " n_out"] | None,
    *,
    first: int,
    second: int,
    basis: SplineBasis,
    residual: Residual | None,
) -> Float[Array, "C N n_out"]:
    """Every f in {B_m, R} becomes (f, f' x_d, f'' x_d² + f' x_dd), and y is linear in these.

    So each component of the jet is one product.
    """
    x, x_d, x_dd = jnp.split(x.swapaxes(1, 2), (1, 1 + first))  # (·, n_in, N)
    x = x[0]
    count = 3 if second else 2

    def propagate(f: list[Array], along: list[Array], curved: list[Array]) -> list[Array]:
        firsts = [f[1] * d for d in along]
        seconds = [f[2] * d * d + f[1] * dd for d, dd in zip(along, curved, strict=False)]
        return [f[0], *firsts, *seconds]

    tables = propagate(
        [_table(x, basis, order) for order in range(count)],
        [d[:, None, :] for d in x_d],
        [dd[:, None, :] for dd in x_dd],
    )
    y = [_product(c, b, table) for table in tables]  # C × (n_out, N)
    if r is not None and residual is not None:
        R = propagate([*residual_derivatives(residual, x, count)], [*x_d], [*x_dd])
        y = [s + r @ t for s, t in zip(y, R, strict=True)]
    if bias is not None:
        y[0] = y[0] + bias[:, None]
    return jnp.stack(y).swapaxes(1, 2)


def statistics(
    x: Float[Array, "N n_in"], *, basis: SplineBasis
) -> tuple[Float[Array, "n_in n_basis"], Float[Array, "n_in n_basis"]]:
    """Mean and population variance over the batch of every B_m(x_i)."""
    table = _table(x.T, basis, 0)
    return table.mean(-1), table.var(-1)


def total(x: Float[Array, "... N"]) -> Float[Array, "..."]:
    """Σ_n x_n over the last axis."""
    return jnp.sum(x, axis=-1)
