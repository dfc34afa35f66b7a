"""Residual-based attention: point weights that grow where the residual is large (Eq. C13)."""

import functools
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from kandle import kernels

Variant = Literal["published", "text", "off"]
VARIANTS: tuple[Variant, ...] = ("published", "text", "off")

GAMMA, ETA = 0.999, 0.01


def attend(
    r: Float[Array, " N"],
    alpha: Float[ArrayLike, " N"] | None,
    variant: Variant,
    backend: str,
) -> tuple[Float[Array, ""], Float[Array, " N"] | None]:
    """One term of the loss (Eq. C12) and the weights of the next step (Eq. C13).

        L = 1/N Σ_i |α_i r_i|²,    α_i ← γ α_i + η |r_i| / max_j |r_j|

    "text" uses the α of the previous step, as constants. "published" updates α first, uses the new
    values and differentiates through them. "off" uses no weights.

    Args:
        r: residuals of one kind.
        alpha: their weights, or None for "off".
    """
    if alpha is None:
        return _mean_square(r, backend), None
    previous = jnp.asarray(alpha)
    updated = GAMMA * previous + ETA * share(r, backend)
    weight = updated if variant == "published" else previous
    return _mean_square(weight * r, backend), jax.lax.stop_gradient(updated)


def _mean_square(r: Array, backend: str) -> Array:
    return kernels.total(r * r, backend) / r.size


def share(r: Float[Array, " N"], backend: str) -> Float[Array, " N"]:
    """|r_i| / max_j |r_j|, or zero if all residuals are zero.

    The gradient is written out so that its sum over points, which comes from the shared maximum,
    is computed by `kernels.total`: its last bits must not depend on the batch.
    """
    return _share(r, backend)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def _share(r: Array, backend: str) -> Array:
    return jnp.abs(r) * _inverse(jnp.max(jnp.abs(r)))


def _inverse(largest: Array) -> Array:
    """1 / largest, or 0 if all residuals are zero.

    Multiply by this rather than dividing: XLA rewrites a quotient by a shared number as such a
    product for some batch sizes only, which changes the last bits.
    """
    return jnp.where(largest == 0, 0.0, 1.0 / jnp.where(largest == 0, 1.0, largest))


def _share_forward(r: Array, backend: str):
    return _share(r, backend), r


def _share_backward(backend: str, r: Array, cotangent: Array):
    size = jnp.abs(r)
    largest = jnp.max(size)
    inverse = _inverse(largest)
    at_largest = size == largest
    # Points that tie for the maximum share its derivative equally.
    ties = jnp.sum(at_largest, dtype=r.dtype)
    through_largest = kernels.total(cotangent * size, backend) * inverse / ties
    slope = cotangent - jnp.where(at_largest, through_largest, 0.0)
    return (jnp.sign(r) * slope * inverse,)


_share.defvjp(_share_forward, _share_backward)
