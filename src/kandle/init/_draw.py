"""Draw weights of given standard deviations: the only place where randomness enters a network."""

import functools
import importlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from kandle._errors import UserError, must, unknown
from kandle.init._scheme import Law

DRAWS = ("independent", "published")


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
    draws: str | None = None,
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
        sigma_r: standard deviation of r; None draws no r.
        sigma_b: standard deviation of b: one number, or one per basis function.
        n_in, n_out, n_basis: shape of the layer.
        law: distribution of r, "normal" or "uniform" (on ±√3 σ_r).
        dtype: type of the weights.
        sampler: source of the random numbers; None is `Sampler()`.
        draws: deprecated, see `resolve_sampler`.
    """
    sampler = resolve_sampler(sampler, draws, "draw_scaled")
    dtype = _check_dtype(dtype)
    sigma_r = None if sigma_r is None else _check_sigma("sigma_r", sigma_r, dtype, [()])
    sigma_b = _check_sigma("sigma_b", sigma_b, dtype, [(), (int(n_basis),)])
    shape = int(n_out), int(n_in), int(n_basis)
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
    n_out, n_in, _ = shape
    # Inside a caller's `jit` these are constants. Without the barrier XLA would fold them into the
    # constants of the random numbers, and the last bits would differ from a draw outside it.
    sigma_r, sigma_b = jax.lax.optimization_barrier((sigma_r, sigma_b))
    c = jnp.ones((n_out, n_in), dtype)
    key_r, key_b = sampler.weight_keys(key)
    b = sigma_b * sampler.normal(key_b, shape, dtype)
    if sigma_r is None:
        return None, c, b
    unit = sampler.normal if law == "normal" else sampler.uniform
    return sigma_r * unit(key_r, (n_out, n_in), dtype), c, b


def resolve_sampler(sampler: Sampler | None, draws: str | None, where: str) -> Sampler:
    """The sampler to use in `where`; translates the deprecated argument `draws`.

    `draws="independent"` is `Sampler()`, `draws="published"` is `kandle.paper.PublishedSampler()`.
    """
    if draws is not None:
        if draws not in DRAWS:
            raise unknown(f"draws of {where}", draws, DRAWS)
        warnings.warn(
            f"The argument 'draws' of {where} is deprecated: pass "
            "sampler=kandle.paper.PublishedSampler() for the published draws.",
            DeprecationWarning,
            stacklevel=3,
        )
        if sampler is not None:
            raise UserError(f"Pass either 'sampler' or 'draws' to {where}, not both.")
        if draws == "published":
            return importlib.import_module("kandle.paper").PublishedSampler()
    if sampler is None:
        return Sampler()
    if not isinstance(sampler, Sampler):
        raise must(f"'sampler' of {where}", "a kandle.init.Sampler, or None", sampler)
    return sampler


def _check_dtype(dtype: Any) -> np.dtype:
    try:
        given = jnp.dtype(dtype)
    except TypeError:
        raise must("'dtype'", "a floating-point type", dtype) from None
    if not jnp.issubdtype(given, jnp.floating):
        raise must("'dtype'", "a floating-point type", str(given))
    if given == np.float64 and jnp.result_type(float) != np.float64:
        raise UserError(
            "'dtype' must be float32 unless double precision is enabled in JAX: "
            "jax.config.update('jax_enable_x64', True). Got 'float64' instead."
        )
    return given


def _check_sigma(name: str, sigma: Any, dtype: np.dtype, shapes: Sequence[tuple[int, ...]]) -> Any:
    if isinstance(sigma, Tracer):
        return sigma.astype(dtype)
    with np.errstate(over="ignore"):
        value = np.asarray(sigma).astype(dtype)
    if value.shape not in shapes or not (np.isfinite(value) & (value >= 0)).all():
        each = " (or one per basis function)" if len(shapes) > 1 else ""
        raise must(f"'{name}'", f"a number of at least 0 and finite in {dtype}{each}", sigma)
    return value
