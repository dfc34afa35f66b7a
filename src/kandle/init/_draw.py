"""Drawing weights of given standard deviations: the only place where randomness enters."""

import functools
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from kandle import _threefry
from kandle._errors import UserError, must, unknown

Law = Literal["normal", "uniform"]
DRAWS = ("independent", "published")


def draw_scaled(
    key: Array,
    sigma_r: Any,
    sigma_b: Any,
    *,
    n_in: int,
    n_out: int,
    n_basis: int,
    law: Law = "normal",
    dtype: Any = jnp.float32,
    draws: str = "independent",
) -> tuple[
    Float[Array, "n_out n_in"] | None,
    Float[Array, "n_out n_in"],
    Float[Array, "n_out n_in n_basis"],
]:
    """Weights (r, c, b) with r ~ σ_r, c = 1 and b ~ N(0, σ_b²).

    The standard deviations are run-time arguments: one compiled program serves every scheme,
    exponent and seed of a shape. It is always compiled, for the same key gives other last bits
    when JAX runs operation by operation.

    Args:
        key: the layer's own key.
        sigma_r: standard deviation of r; None draws none.
        sigma_b: standard deviation of b.
        n_in, n_out, n_basis: the layer's shape.
        law: of r, "normal" or "uniform" (on ±√3 σ_r).
        dtype: of the weights.
        draws: "independent", or "published": the numbers that the paper's runs had from that key.
    """
    if draws not in DRAWS:
        raise unknown("draws", draws, DRAWS)
    dtype = _check_dtype(dtype)
    sigma_r = None if sigma_r is None else _check_sigma("sigma_r", sigma_r, dtype)
    sigma_b = _check_sigma("sigma_b", sigma_b, dtype)
    shape = int(n_out), int(n_in), int(n_basis)
    return _draw(key, sigma_r, sigma_b, shape, law, dtype, draws)


@functools.partial(jax.jit, static_argnames=("shape", "law", "dtype", "draws"))
def _draw(
    key: Array,
    sigma_r,
    sigma_b,
    shape: tuple[int, int, int],
    law: Law,
    dtype: np.dtype,
    draws: str,
):
    n_out, n_in, _ = shape
    # Inside a caller's `jit` these are constants, which XLA would multiply into those of the
    # random numbers, and the last bits would differ from a draw outside it.
    sigma_r, sigma_b = jax.lax.optimization_barrier((sigma_r, sigma_b))
    c = jnp.ones((n_out, n_in), dtype)
    if draws == "published":
        # jaxKAN numbers the draws of a layer, and its first, of c, is spent on ones.
        key_r, key_b = (jax.random.fold_in(key, number) for number in (1, 2))
    else:
        key_r, key_b = jax.random.split(key)
    b = sigma_b * _unit(key_b, shape, "normal", dtype, draws)
    if sigma_r is None:
        return None, c, b
    return sigma_r * _unit(key_r, (n_out, n_in), law, dtype, draws), c, b


def _unit(key: Array, shape: tuple[int, ...], law: Law, dtype: np.dtype, draws: str) -> Array:
    """Numbers of standard deviation one."""
    end = np.sqrt(3.0)
    if draws == "published":
        if law == "normal":
            return _threefry.normal(key, shape).astype(dtype)
        return _threefry.uniform(key, shape, -end, end).astype(dtype)
    if law == "normal":
        return jax.random.normal(key, shape, dtype)
    return jax.random.uniform(key, shape, dtype, minval=-end, maxval=end)


def _check_dtype(dtype: Any) -> np.dtype:
    try:
        given = jnp.dtype(dtype)
    except TypeError:
        raise must("'dtype'", "a floating-point type", dtype) from None
    if not jnp.issubdtype(given, jnp.floating):
        raise must("'dtype'", "a floating-point type", str(given))
    if given == np.float64 and jnp.result_type(float) != np.float64:
        raise UserError(
            "'dtype' must be float32 unless JAX is told to use double precision: "
            "jax.config.update('jax_enable_x64', True). Got 'float64' instead."
        )
    return given


def _check_sigma(name: str, sigma: Any, dtype: np.dtype) -> Any:
    if isinstance(sigma, Tracer):
        return sigma.astype(dtype)
    with np.errstate(over="ignore"):
        value = np.asarray(sigma).astype(dtype)
    if value.shape != () or not (np.isfinite(value) and value >= 0):
        raise must(f"'{name}'", f"a number of at least 0 and finite in {dtype}", sigma)
    return value
