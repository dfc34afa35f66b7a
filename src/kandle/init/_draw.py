"""Weights from JAX keys, in one compiled program: those of `KAN`, training and studies.

Apart from `_weights.py`, which has the formula, because this file imports JAX: estimators and
PyTorch draw without it.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from kandle._errors import UserError, must
from kandle.init._weights import Law, draw_weights


@dataclass(frozen=True)
class Sampler:
    """The source of a network's random numbers: `jax.random`, with a separate key per weight array.

    Subclass it to inject other numbers into `KAN`, `Scheme.draw` and `train`. A sampler is a frozen
    dataclass: equal samplers share one compiled program.

    >>> Sampler().normal(jax.random.key(0), (2, 3), np.dtype("float32")).shape
    (2, 3)
    """

    def layer_keys(self, key: Array, n_layers: int) -> Sequence[Array]:
        """One key per layer of a network."""
        return jax.random.split(key, n_layers)  # pyright: ignore[reportReturnType]

    def weight_keys(self, key: Array) -> tuple[Array, Array]:
        """The keys of r and b of a layer."""
        key_r, key_b = jax.random.split(key)
        return key_r, key_b

    def normal(self, key: Array, shape: tuple[int, ...], dtype: np.dtype) -> Float[Array, "..."]:
        """Normal numbers with mean 0 and standard deviation 1."""
        return jax.random.normal(key, shape, dtype)

    def uniform(self, key: Array, shape: tuple[int, ...], dtype: np.dtype) -> Float[Array, "..."]:
        """Uniform numbers on [-√3, √3): mean 0 and standard deviation 1."""
        end = np.sqrt(3.0)
        return jax.random.uniform(key, shape, dtype, minval=-end, maxval=end)


@dataclass(frozen=True)
class _KeySource:
    """The numbers that a sampler draws from one key, as a source of `draw_weights`."""

    sampler: Sampler
    key: Array
    dtype: np.dtype

    def normal(self, shape: tuple[int, ...]) -> Array:
        return self.sampler.normal(self.key, shape, self.dtype)

    def uniform(self, shape: tuple[int, ...]) -> Array:
        return self.sampler.uniform(self.key, shape, self.dtype)

    def ones(self, shape: tuple[int, ...]) -> Array:
        return jnp.ones(shape, self.dtype)


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
    sampler: Sampler | None = None,
) -> tuple[
    Float[Array, "n_out n_in"] | None,
    Float[Array, "n_out n_in"],
    Float[Array, "n_out n_in n_basis"],
]:
    """Weights (r, c, b) with r of standard deviation σ_r, c = 1 and b ~ N(0, σ_b²).

    The standard deviations are run-time arguments, so one compiled program serves every scheme,
    exponent and seed of a shape. The draw is always compiled: eager JAX rounds differently.

    Args:
        key: the layer's own key.
        sigma_r: standard deviation of r: one number, or one per input; None draws no r.
        sigma_b: standard deviation of b: one number, one per basis function, or an array of shape
            (n_in, 1) or (n_in, n_basis).
        n_in, n_out, n_basis: shape of the layer.
        law: distribution of r, "normal" or "uniform" (on ±√3 σ_r).
        dtype: type of the weights.
        sampler: source of the random numbers; None is `Sampler()`.
    """
    sampler = resolve_sampler(sampler, "draw_scaled")
    dtype = _check_dtype(dtype)
    n_out, n_in, n_basis = shape = int(n_out), int(n_in), int(n_basis)
    if sigma_r is not None:
        sigma_r = _check_sigma("sigma_r", sigma_r, dtype, [(), (n_in,)])
    shapes_b = [(), (n_basis,), (n_in, 1), (n_in, n_basis)]
    sigma_b = _check_sigma("sigma_b", sigma_b, dtype, shapes_b)
    return _draw(key, sigma_r, sigma_b, shape, law, dtype, sampler)


@functools.partial(jax.jit, static_argnames=("shape", "law", "dtype", "sampler"))
def _draw(
    key: Array,
    sigma_r: Any,
    sigma_b: Any,
    shape: tuple[int, int, int],
    law: Law,
    dtype: np.dtype,
    sampler: Sampler,
):
    # Inside a caller's `jit` these are constants. Without the barrier XLA would fold them into the
    # constants of the random numbers, and the last bits would differ from a draw outside it.
    sigma_r, sigma_b = jax.lax.optimization_barrier((sigma_r, sigma_b))
    key_r, key_b = sampler.weight_keys(key)
    sources = _KeySource(sampler, key_r, dtype), _KeySource(sampler, key_b, dtype)
    return draw_weights(shape, sigma_r, sigma_b, law=law, sources=sources)


def resolve_sampler(sampler: Sampler | None, where: str) -> Sampler:
    """The sampler to use in `where`: the argument of that name, or `jax.random` for None."""
    if sampler is None:
        return Sampler()
    if not isinstance(sampler, Sampler):
        raise must(f"'sampler' of {where}", "a kandle.init.Sampler, or None", sampler)
    return sampler


def _check_dtype(dtype: Any) -> np.dtype:
    try:
        checked = jnp.dtype(dtype)
    except TypeError:
        raise must("'dtype'", "a floating-point type", dtype) from None
    if not jnp.issubdtype(checked, jnp.floating):
        raise must("'dtype'", "a floating-point type", str(checked))
    if checked == np.float64 and jnp.result_type(float) != np.float64:
        raise UserError(
            "'dtype' must be float32 unless double precision is enabled in JAX: "
            "jax.config.update('jax_enable_x64', True). Got 'float64' instead."
        )
    return checked


def _check_sigma(name: str, sigma: Any, dtype: np.dtype, shapes: Sequence[tuple[int, ...]]) -> Any:
    """The standard deviations in the precision of the weights."""
    if isinstance(sigma, Tracer):  # inside of a caller's `jit` it has no value yet
        return sigma.astype(dtype)
    with np.errstate(over="ignore"):
        value = np.asarray(sigma).astype(dtype)
    valid = np.isfinite(value) & (value >= 0)
    if value.shape not in shapes or not valid.all():
        allowed = " or ".join("a number" if shape == () else f"shape {shape}" for shape in shapes)
        raise must(f"'{name}'", f"at least 0 and finite in {dtype}, {allowed}", sigma)
    return value
