"""The transpose of a total: one value repeated along a new last axis.

A broadcast of JAX's own would do, but for its gradient, which is a sum in whatever order XLA finds
best for the shapes around it. This one's gradient is the backend's `total`.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Float


def spread(
    x: Float[Array, "..."], n: int, total: Callable[[Array], Array]
) -> Float[Array, "... n"]:
    """x repeated n times along a new last axis, with `total` for its transpose."""
    return _spread_p.bind(x, n=n, total=total)


def _repeat(x, *, n, total):
    return jnp.broadcast_to(x[..., None], (*x.shape, n))


def _batch(operands, dims, **params):
    (x,), (dim,) = operands, dims
    return _spread_p.bind(jnp.moveaxis(x, dim, 0), **params), 0


_spread_p = Primitive("kandle_spread")
_spread_p.def_abstract_eval(lambda x, *, n, total: ShapedArray((*x.shape, n), x.dtype))
_spread_p.def_impl(_repeat)
mlir.register_lowering(_spread_p, mlir.lower_fun(_repeat, multiple_results=False))
batching.primitive_batchers[_spread_p] = _batch
ad.deflinear2(_spread_p, lambda cotangent, x, *, n, total: [total(cotangent)])
