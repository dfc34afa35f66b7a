"""Poisson's equation on a disc: a domain that is not a box, with points drawn inside it.

Relative L² error 2.0e-5.
"""

import jax.numpy as jnp
import numpy as np

from kandle import problems
from kandle.train import Architecture, train

SQUARE = [(-1.0, 1.0), (-1.0, 1.0)]
ANGLE = np.linspace(0, 2 * np.pi, 128, endpoint=False)
CIRCLE = np.stack([np.cos(ANGLE), np.sin(ANGLE)], axis=-1)


def solution(x, y):
    """u = (1 - r²) cos(3x + 2y), exactly."""
    return (1 - x**2 - y**2) * np.cos(3 * x + 2 * y)


def residual(points, d):
    """u_xx + u_yy - f, with f the Laplacian of the solution."""
    x, y = points.T
    phase = 3 * x + 2 * y
    f = 4 * phase * jnp.sin(phase) - (4 + 13 * (1 - x**2 - y**2)) * jnp.cos(phase)
    (u,) = d.outputs
    return u["x", "x"] + u["y", "y"] - f


disc = problems.PDE(
    "poisson-disc",
    residual,
    SQUARE,
    [problems.Condition("circle", CIRCLE, 0.0)],
    inputs=("x", "y"),
    inside=lambda x, y: x**2 + y**2 <= 1,
    collocation=problems.Points("sobol", 1024),
    reference=solution,
    latex=r"u_{xx} + u_{yy} = f(x, y)",
)


# Quintic splines: the solution is smooth, and second derivatives of cubic ones are rough.
def main(width: int = 8, grid: int = 8, degree: int = 5, steps: int = 60) -> float:
    [result] = train(
        disc,
        Architecture(width=width, depth=1, grid=grid, degree=degree),
        [("power-law", 0)],
        optimizer="levenberg-marquardt",
        dtype="float64",
        steps=steps,
    )
    print(f"loss {result.loss:.1e} in {result.wall_s:.0f} s")
    print(f"relative L² error {result.l2:.1e}")
    return result.l2


if __name__ == "__main__":
    main()
