"""Residual-based attention: a weight for every point, larger where the residual is (Eq. C13)."""

import functools
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from kandle import kernels

Variant = Literal["published", "text", "off"]
VARIANTS: tuple[Variant, ...] = ("published", "text", "off")

GAMMA, ETA = 0.999, 0.01


def attend(
    r: Float[Array, " N"], alpha: Float[Array, " N"] | None, variant: Variant, backend: str
) -> tuple[Float[Array, ""], Float[Array, " N"] | None]:
    """One sum of the loss (Eq. C12) and the weights of the next step (Eq. C13).

        L = 1/N Σ_i |α_i r_i|²,    α_i ← γ α_i + η |r_i| / max_j |r_j|

    "text" weights with the α of the step before, constants in this one. "published" updates first,
    weights with the new α and lets the gradient flow through it. "off" has no weights.

    Args:
        r: residuals of one kind.
        alpha: their weights, or None for "off".
    """
    if alpha is None:
        return _mean_square(r, backend), None
    updated = GAMMA * alpha + ETA * share(r, backend)
    weight = updated if variant == "published" else alpha
    return _mean_square(weight * r, backend), jax.lax.stop_gradient(updated)


def _mean_square(r: Array, backend: str) -> Array:
    return kernels.total(r * r, backend) / r.size


def share(r: Float[Array, " N"], backend: str) -> Float[Array, " N"]:
    """|r_i| / max_j |r_j|, zero where all residuals are.

    Its gradient is the usual one, written out so that the sum over points in it, from the maximum
    that they all share, is the kernels' sum too: its last bits do not depend on the batch.
    """
    return _share(r, backend)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def _share(r: Array, backend: str) -> Array:
    return _share_of_largest(r)[0]


def _share_of_largest(r: Array) -> tuple[Array, Array]:
    size = jnp.abs(r)
    largest = jnp.max(size)
    # A NaN among the residuals must not look like a zero.
    return jnp.where(largest == 0, 0.0, size / jnp.where(largest == 0, 1.0, largest)), largest


def _share_forward(r: Array, backend: str):
    s, largest = _share_of_largest(r)
    return s, (r, s, largest)


def _share_backward(backend: str, saved, cotangent: Array):
    r, s, largest = saved
    at_largest = jnp.abs(r) == largest
    # Where several points share the maximum, each carries its part of the derivative.
    ties = jnp.sum(at_largest, dtype=r.dtype)
    slope = cotangent - jnp.where(at_largest, kernels.total(cotangent * s, backend) / ties, 0.0)
    return (jnp.where(largest == 0, 0.0, jnp.sign(r) * slope / largest),)


_share.defvjp(_share_forward, _share_backward)
