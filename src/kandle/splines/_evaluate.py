"""The basis functions on uniform knots, in closed form."""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from kandle.splines._basis import SplineBasis, as_floating, check_order
from kandle.splines._cardinal import local_taps


def locate(
    x: Float[Array, "..."], basis: SplineBasis
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Cell and local coordinate of each point: x = lo + (cell + u) h, 0 ≤ u < 1.

    Cells 0, …, G - 1 make up the domain, -k, …, G + k - 1 the augmented interval; they are returned
    as whole floating-point numbers, which no x however large can overflow.
    """
    lo, _ = basis.domain
    s = (x - lo) * (1.0 / basis.step)
    cell = jnp.floor(s)
    return cell, s - cell


def evaluate(
    x: Float[ArrayLike, "..."], basis: SplineBasis, order: int = 0
) -> Float[Array, "... n_basis"]:
    """B_m^{(ν)}(x) for every m, the derivative of order ν of each basis function.

    Zero outside the augmented interval and for ν > k; NaN where x is not finite. Differentiating in
    JAX, in either mode and any nesting, gives the same as asking for the next order.

    Args:
        x: points, (...).
        basis: the functions, of degree k on uniform knots.
        order: ν.

    Returns:
        (..., G + k).

    Example:
        >>> evaluate(0.0, SplineBasis(grid=2, degree=1))
        Array([0., 1., 0.], dtype=float32)
    """
    return _evaluate(as_floating(x), basis, check_order(order))


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
@functools.partial(jax.jit, static_argnums=(1, 2), inline=True)
def _evaluate(x: Array, basis: SplineBasis, order: int) -> Array:
    cell, u = locate(x, basis)
    tap = jnp.arange(basis.n_basis, dtype=x.dtype) - cell[..., None]  # (..., n_basis)
    value = jnp.zeros_like(tap)
    for j, p in enumerate(local_taps(u, basis.degree, order)):
        value = jnp.where(tap == j, p[..., None], value)
    value = value * basis.step**-order
    return jnp.where(jnp.isfinite(x)[..., None], value, jnp.nan)


@_evaluate.defjvp
def _evaluate_jvp(basis: SplineBasis, order: int, primals: tuple, tangents: tuple):
    # The next order, rather than the derivative of the polynomials above: it stays right where
    # `where` would leak the derivative of a branch not taken, and NaN inputs stay NaN.
    (x,), (x_dot,) = primals, tangents
    return _evaluate(x, basis, order), _evaluate(x, basis, order + 1) * x_dot[..., None]
