"""What differs between the releases of JAX that Kandle runs on."""

from typing import TYPE_CHECKING

import jax

__all__ = ["enable_x64", "transposed", "typeof"]

if TYPE_CHECKING or hasattr(jax, "enable_x64"):
    from jax import enable_x64
else:  # before 0.8
    from jax.experimental import enable_x64

if TYPE_CHECKING or hasattr(jax, "typeof"):
    from jax import typeof
else:  # before 0.6
    from jax.core import get_aval as typeof


def transposed(x: jax.Array) -> jax.Array:
    """x with its last two axes swapped.

    XLA of JAX 0.6 and 0.7 miscompiles a jitted function, such as `jax.nn.silu`, of the transpose of
    a constant: `jit(lambda s: s * silu(constant.T))` returns wrong numbers on a CPU. The barrier
    hides that it is a constant.
    """
    x = x.swapaxes(-1, -2)
    return jax.lax.optimization_barrier(x) if jax.__version_info__ < (0, 8) else x
