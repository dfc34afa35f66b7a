"""Names that moved between the releases of JAX that Kandle runs on."""

from typing import TYPE_CHECKING

import jax

__all__ = ["enable_x64", "typeof"]

if TYPE_CHECKING or hasattr(jax, "enable_x64"):
    from jax import enable_x64
else:  # before 0.8
    from jax.experimental import enable_x64

if TYPE_CHECKING or hasattr(jax, "typeof"):
    from jax import typeof
else:  # before 0.6
    from jax.core import get_aval as typeof
