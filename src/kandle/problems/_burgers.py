"""The viscous Burgers equation on (t, x) in [0, 1] × [-1, 1]."""

from typing import TYPE_CHECKING

import numpy as np

from kandle.problems._cache import kept
from kandle.problems._cole_hopf import cole_hopf
from kandle.problems._condition import side
from kandle.problems._pde import PDE

if TYPE_CHECKING:
    from kandle.nn import Derivatives

NU = 0.01 / np.pi
T, X = 0, 1  # the inputs
DOMAIN = ((0.0, 1.0), (-1.0, 1.0))


def residual(x, d: "Derivatives"):
    """u_t + u u_x - ν u_xx."""
    (u,) = d.outputs
    return u[T] + u.value * u[X] - NU * u[X, X]


def initial(t, x):
    return -np.sin(np.pi * x)


def solution(t, x):
    """u at broadcastable t and x, to about 15 digits."""
    return kept("burgers-1", lambda t, x: cole_hopf(t, x, NU), t, x)


BURGERS = PDE(
    "burgers",
    residual,
    DOMAIN,
    conditions=(
        side("initial", DOMAIN, axis=T, at=0.0, value=initial),
        side("left", DOMAIN, axis=X, at=-1.0, value=0.0),
        side("right", DOMAIN, axis=X, at=1.0, value=0.0),
    ),
    first=(T, X),
    second=(X,),
    reference=solution,
    latex=r"u_t + u\, u_x - \nu\, u_{xx} = 0",
    inputs=("t", "x"),
    n_evaluation=(201, 512),
)
