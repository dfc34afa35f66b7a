"""The viscous Burgers equation on (t, x) in [0, 1] × [-1, 1]."""

from typing import TYPE_CHECKING

import numpy as np

from kandle.problems._cache import kept
from kandle.problems._condition import side
from kandle.problems._pde import PDE

if TYPE_CHECKING:
    from kandle.nn import Derivatives

_CHUNK = 2048  # points at a time: their integrands take a few MB

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


def cole_hopf(
    t: np.ndarray, x: np.ndarray, nu: float, *, step: float = 0.2, reach: float = 16.0
) -> np.ndarray:
    """u(t, x) at broadcastable times and places, by the Cole–Hopf transform.

    With φ(y) = exp(-cos(πy) / (2πν)) and y = x - √(4νt) z,

        u(t, x) = - ∫ sin(πy) φ(y) exp(-z²) dz / ∫ φ(y) exp(-z²) dz.

    Both integrands are entire and decay like a Gaussian, so the trapezoidal rule converges faster
    than any power of its step. Gauss–Hermite nodes, the usual choice, crowd around z = 0, while the
    integrand's peak lies at |z| up to √t / (2√ν) ≈ 9: `reach` covers it with its tails, and `step`
    is about half its width. The largest exponent, up to 50, is subtracted before exp.
    """
    t, x = np.broadcast_arrays(np.asarray(t, np.float64), np.asarray(x, np.float64))
    z = np.arange(-reach, reach + step / 2, step)
    u = np.empty(t.size)
    for start in range(0, t.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        y = x.ravel()[part, None] - np.sqrt(4 * nu * t.ravel()[part, None]) * z  # (points, nodes)
        exponent = -np.cos(np.pi * y) / (2 * np.pi * nu) - z**2
        weight = np.exp(exponent - exponent.max(axis=1, keepdims=True))
        u[part] = -(weight * np.sin(np.pi * y)).sum(axis=1) / weight.sum(axis=1)
    return u.reshape(t.shape)


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
