"""The Helmholtz equation with unit wavenumber and a separable source, on [-1, 1]²."""

from typing import TYPE_CHECKING

import numpy as np

from kandle.problems._condition import side
from kandle.problems._pde import PDE

if TYPE_CHECKING:
    from kandle.nn import Derivatives

A1, A2 = 1, 4
X, Y = 0, 1  # the inputs
DOMAIN = ((-1.0, 1.0), (-1.0, 1.0))


def residual(x, d: "Derivatives"):
    """u_xx + u_yy + u - f, with f = (1 - π²(a₁² + a₂²)) sin(π a₁ x) sin(π a₂ y)."""
    import jax.numpy as jnp  # only training needs JAX; tables and figures also import this file

    (u,) = d.outputs
    f = (
        (1 - np.pi**2 * (A1**2 + A2**2))
        * jnp.sin(np.pi * A1 * x[..., X])
        * jnp.sin(np.pi * A2 * x[..., Y])
    )
    return u[X, X] + u[Y, Y] + u.value - f


def solution(x, y):
    """u = sin(π a₁ x) sin(π a₂ y), exactly."""
    return np.sin(np.pi * A1 * x) * np.sin(np.pi * A2 * y)


HELMHOLTZ = PDE(
    "helmholtz",
    residual,
    DOMAIN,
    conditions=(
        side("left", DOMAIN, axis=X, at=-1.0, value=0.0),
        side("right", DOMAIN, axis=X, at=1.0, value=0.0),
        side("bottom", DOMAIN, axis=Y, at=-1.0, value=0.0),
        side("top", DOMAIN, axis=Y, at=1.0, value=0.0),
    ),
    first=(X, Y),
    second=(X, Y),
    reference=solution,
    latex=r"u_{xx} + u_{yy} + u = f(x, y)",
    inputs=("x", "y"),
    n_evaluation=(512, 512),
)
