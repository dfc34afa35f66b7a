"""Random numbers as JAX generated them before version 0.5, which the published runs used.

Newer versions fill an array from the same key in another order. Here the counter runs through the
whole array, its first half paired with its second. The numbers are float32 in every precision.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import threefry_2x32
from jaxtyping import Array, Float, UInt32

from kandle._errors import must

# A float32 has 23 bits of fraction; the bits of 1.0 above them are sign and exponent.
_FRACTION, _ONE = 23, np.float32(1.0).view(np.uint32)


# Compiled, because eager JAX rounds differently.
@functools.partial(jax.jit, static_argnames="shape")
def uniform(key: Array, shape: tuple[int, ...], low: float, high: float) -> Float[Array, "..."]:
    """Uniform numbers on [low, high)."""
    # 1.f with a random fraction f lies in [1, 2).
    fraction = (_bits(key, shape) >> (32 - _FRACTION)) | _ONE
    unit = jax.lax.bitcast_convert_type(fraction, jnp.float32) - jnp.float32(1.0)
    start, end = jnp.asarray(low, jnp.float32), jnp.asarray(high, jnp.float32)
    return jnp.maximum(start, unit * (end - start) + start)


def normal(key: Array, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Normal numbers of mean 0 and standard deviation 1: √2 erf⁻¹(u), u uniform on (-1, 1)."""
    above = float(np.nextafter(np.float32(-1.0), np.float32(0.0)))
    return jnp.float32(math.sqrt(2.0)) * jax.lax.erf_inv(uniform(key, shape, above, 1.0))


def _bits(key: Array, shape: tuple[int, ...]) -> UInt32[Array, "..."]:
    words = jax.random.key_data(key)
    if words.shape != (2,):
        raise must("The key of published draws", "one Threefry key", jax.random.key_impl(key))
    count = jnp.arange(math.prod(shape), dtype=jnp.uint32)
    return threefry_2x32((words[0], words[1]), count).reshape(shape)
