"""The layer as one matrix product per term, in plain JAX: for accelerators, and for any basis.

The basis is evaluated as a table of (n_basis · n_in) rows and one column per sample: the samples
are the fast axis, so every elementwise operation runs over long contiguous vectors, and the
products are (n_out, rows) @ (rows, samples). The derivative of the table is the table of the next
order, which is all that differentiation to any order needs.
"""

import functools
import operator

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from kandle._compat import transposed
from kandle.bases import Basis
from kandle.bases._jax import table as basis_table
from kandle.kernels._residual import Residual, residual_derivatives
from kandle.kernels._spread import spread

# Samples per block: with 32 inputs and 23 functions, a table of 1.5 MB. Tables of up to 4 MB are
# not divided.
_BLOCK = 512
_WHOLE = 2**20


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def table(x: Float[Array, "n_in N"], basis: Basis, order: int) -> Float[Array, "n_basis n_in N"]:
    """B_m^{(ν)}(x_i)."""
    return basis_table(x, basis, order)


@table.defjvp
def _table_jvp(basis: Basis, order: int, primals: tuple, tangents: tuple):
    (x,), (x_dot,) = primals, tangents
    following = table(x, basis, basis.check_order(order + 1))
    # The transpose is a sum over the functions, which XLA vectorizes only if it is written out.
    repeated = jnp.moveaxis(spread(x_dot, basis.n_basis, _sum_of_slices), -1, 0)
    return table(x, basis, order), following * repeated


def _sum_of_slices(x: Float[Array, "... n"]) -> Float[Array, "..."]:
    """Σ_m x_m over the last axis, term by term."""
    return functools.reduce(operator.add, (x[..., m] for m in range(x.shape[-1])))


def _product(
    c: Float[Array, "n_out n_in"],
    b: Float[Array, "n_out n_in n_basis"],
    B: Float[Array, "n_basis n_in N"],
) -> Float[Array, "n_out N"]:
    """Σ_i c_ji Σ_m b_jim B_m(x_in)."""
    n_out, n_in, n_basis = b.shape
    weights = (c[..., None] * b).swapaxes(1, 2).reshape(n_out, n_basis * n_in)
    return weights @ B.reshape(n_basis * n_in, -1)


def _basis_sum(x: Float[Array, "n_in N"], c: Array, b: Array, basis: Basis) -> Array:
    """`_product` with the table of x, in blocks of samples where that is faster.

    A CPU's caches hold the table of one block, not of all samples: the table is recomputed for the
    gradient rather than stored. Accelerators gain nothing from that and take all samples at once.
    """

    def product(x: Array) -> Array:
        return _product(c, b, table(x, basis, 0))

    n_in, samples = x.shape
    # Under jax.export the number of samples may be a symbol, which no block size fits.
    whole = not isinstance(samples, int) or samples * n_in * basis.n_basis <= _WHOLE
    if jax.default_backend() != "cpu" or whole:
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
    basis: Basis,
    residual: Residual | None,
) -> Float[Array, "N n_out"]:
    """y_j = Σ_i [ r_ji R(x_i) + c_ji Σ_m b_jim B_m(x_i) ] + bias_j."""
    x = transposed(x)  # XLA cancels this transpose against the previous layer's
    y = _basis_sum(x, c, b, basis)
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
    basis: Basis,
    residual: Residual | None,
) -> Float[Array, "C N n_out"]:
    """Every f in {B_m, R} becomes (f, f' x_d, f'' x_d² + f' x_dd), in which y is linear.

    So each component of the jet is one product.
    """
    x, x_d, x_dd = jnp.split(transposed(x), (1, 1 + first))  # (·, n_in, N)
    x = x[0]
    count = 1 + (first > 0) + (second > 0)

    def propagate(f: list[Array], along: list[Array], curved: list[Array]) -> list[Array]:
        firsts = [f[1] * d for d in along]
        seconds = [f[2] * d * d + f[1] * dd for d, dd in zip(along, curved, strict=False)]
        return [f[0], *firsts, *seconds]

    tables = propagate([table(x, basis, order) for order in range(count)], [*x_d], [*x_dd])
    y = [_product(c, b, B) for B in tables]  # C × (n_out, N)
    if r is not None and residual is not None:
        R = propagate([*residual_derivatives(residual, x, count)], [*x_d], [*x_dd])
        y = [s + r @ t for s, t in zip(y, R, strict=True)]
    if bias is not None:
        y[0] = y[0] + bias[:, None]
    return jnp.stack(y).swapaxes(1, 2)


def statistics(
    x: Float[Array, "N n_in"], *, basis: Basis
) -> tuple[Float[Array, "n_in n_basis"], Float[Array, "n_in n_basis"]]:
    """Mean and population variance over the batch of every B_m(x_i)."""
    B = table(x.T, basis, 0)
    return B.mean(-1).T, B.var(-1).T


def total(x: Float[Array, "... N"]) -> Float[Array, "..."]:
    """Σ_n x_n over the last axis."""
    return jnp.sum(x, axis=-1)
