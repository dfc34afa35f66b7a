"""The residual function R of Eq. 1 and its derivatives."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Residual = Callable[[Array], Array]


def residual_derivatives(
    residual: Residual, x: Float[Array, "..."], count: int
) -> tuple[Float[Array, "..."], ...]:
    """R(x), R'(x), … of an elementwise function, `count` of them."""

    def derivative(f: Residual) -> Residual:
        return lambda x: jax.jvp(f, (x,), (jnp.ones_like(x),))[1]

    functions = [residual]
    for _ in range(count - 1):
        functions.append(derivative(functions[-1]))
    return tuple(f(x) for f in functions)
