"""Evaluation of a basis in JAX, differentiable to any order that the basis defines."""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from kandle.bases._basis import Basis


def evaluate(
    x: Float[ArrayLike, "..."], basis: Basis, order: int = 0
) -> Float[Array, "... n_basis"]:
    """B_m^{(ν)}(x) for every m, the derivative of order ν of each basis function, in JAX.

    NaN where x is not finite. Differentiating in JAX, in either mode and any nesting, gives the
    same as asking for the next order.

    Args:
        x: points, (...).
        basis: the functions.
        order: ν.

    Example:
        >>> from kandle.bases import BSpline
        >>> evaluate(jnp.zeros(1), BSpline(grid=2, degree=1))
        Array([[0., 1., 0.]], dtype=float32)
    """
    return jnp.moveaxis(table(as_floating(x), basis, basis.check_order(order)), 0, -1)


def as_floating(x: ArrayLike) -> Array:
    """The points as a floating-point array: as they are, or in JAX's default precision."""
    x = jnp.asarray(x)
    return x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(jnp.result_type(float))


class _Namespace:
    """`jax.numpy` with a `stack` that XLA does not fuse with what computes its parts.

    If they were fused, a CPU would select a part per element and vectorize none of them.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(jnp, name)

    @staticmethod
    def stack(arrays: Sequence[Array], axis: int = 0) -> Array:
        return jnp.stack(jax.lax.optimization_barrier(list(arrays)), axis)


_NAMESPACE: Any = _Namespace()


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
@functools.partial(jax.jit, static_argnums=(1, 2), inline=True)
def table(x: Float[Array, "..."], basis: Basis, order: int) -> Float[Array, "n_basis ..."]:
    """`Basis.table`: the functions along the first axis, in their fastest form."""
    return basis.table(x, order, _NAMESPACE)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
@functools.partial(jax.jit, static_argnums=(1, 2), inline=True)
def values(x: Float[Array, "..."], basis: Basis, order: int) -> Float[Array, "... n_basis"]:
    """`Basis.values`: the functions along the last axis, by their definition."""
    return basis.values(x, order, jnp)


# The derivative is the next order, rather than that of the operations: it stays right where
# `where` would leak the derivative of the other branch, and NaN inputs stay NaN.


@table.defjvp
def _table_jvp(basis: Basis, order: int, primals: tuple, tangents: tuple):
    (x,), (x_dot,) = primals, tangents
    return table(x, basis, order), table(x, basis, basis.check_order(order + 1)) * x_dot[None]


@values.defjvp
def _values_jvp(basis: Basis, order: int, primals: tuple, tangents: tuple):
    (x,), (x_dot,) = primals, tangents
    following = values(x, basis, basis.check_order(order + 1))
    return values(x, basis, order), following * x_dot[..., None]
