"""Drawing weights of given standard deviations: the only place where randomness enters."""

import functools
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from kandle._errors import UserError, must

Law = Literal["normal", "uniform"]


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
    """
    dtype = _check_dtype(dtype)
    sigma_r = None if sigma_r is None else _check_sigma("sigma_r", sigma_r, dtype)
    sigma_b = _check_sigma("sigma_b", sigma_b, dtype)
    return _draw(key, sigma_r, sigma_b, (int(n_out), int(n_in), int(n_basis)), law, dtype)


@functools.partial(jax.jit, static_argnames=("shape", "law", "dtype"))
def _draw(key: Array, sigma_r, sigma_b, shape: tuple[int, int, int], law: Law, dtype: np.dtype):
    n_out, n_in, _ = shape
    # Inside a caller's `jit` these are constants, which XLA would multiply into those of the
    # random numbers, and the last bits would differ from a draw outside it.
    sigma_r, sigma_b = jax.lax.optimization_barrier((sigma_r, sigma_b))
    key_r, key_b = jax.random.split(key)
    c = jnp.ones((n_out, n_in), dtype)
    b = sigma_b * jax.random.normal(key_b, shape, dtype)
    if sigma_r is None:
        return None, c, b
    if law == "normal":
        unit = jax.random.normal(key_r, (n_out, n_in), dtype)
    else:
        end = np.sqrt(3.0)
        unit = jax.random.uniform(key_r, (n_out, n_in), dtype, minval=-end, maxval=end)
    return sigma_r * unit, c, b


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
