"""Problems small enough to train in a blink."""

import numpy as np
import pytest

from kandle import problems
from kandle.train import Architecture

SQUARE = [(-1.0, 1.0), (-1.0, 1.0)]


@pytest.fixture(scope="session")
def tiny():
    """A function on 48 points."""

    def f(x, y):
        return x * y + 0.5 * np.sin(3 * x)

    return problems.Function(f, SQUARE, name="tiny", n_train=48, n_test=10, n_grid=9)


@pytest.fixture(scope="session")
def poisson():
    """u_xx + u_yy + u = f with the solution u = sin(πx) sin(πy), on 36 points and 2 sides."""

    def residual(x, d):
        u = d.value[..., 0]
        return d.second[0][..., 0] + d.second[1][..., 0] + u - (1 - 2 * np.pi**2) * exact(x)

    def exact(x):
        import jax.numpy as jnp

        return jnp.sin(np.pi * x[..., 0]) * jnp.sin(np.pi * x[..., 1])

    return problems.PDE(
        "poisson",
        residual,
        SQUARE,
        [
            problems.side("left", SQUARE, axis=0, at=-1.0, value=0.0, n=5),
            problems.side("top", SQUARE, axis=1, at=0.5, value=lambda x, y: np.sin(np.pi * x), n=7),
        ],
        first=(0, 1),
        second=(0, 1),
        reference=lambda x, y: np.sin(np.pi * x) * np.sin(np.pi * y),
        collocation=(6, 6),
        n_evaluation=(8, 8),
    )


@pytest.fixture(scope="session")
def diffusion():
    """u_t = k u_xx with an unknown k: least squares computes the Jacobian row by row."""
    strip = [(0.0, 1.0), (-1.0, 1.0)]
    return problems.PDE(
        "diffusion",
        lambda x, d: d["t"] - d.coefficients["k"] * d["x", "x"],
        strip,
        [
            problems.side(
                *("start", strip), axis=0, at=0.0, value=lambda t, x: np.sin(np.pi * x), n=9
            ),
            problems.side("left", strip, axis=1, at=-1.0, n=9),
            problems.side("right", strip, axis=1, at=1.0, n=9),
        ],
        inputs=("t", "x"),
        coefficients={"k": 0.3},
        collocation=(7, 7),
        n_evaluation=(5, 5),
    )


@pytest.fixture(scope="session")
def small():
    return Architecture(width=3, depth=1, grid=4)
