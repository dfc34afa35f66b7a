"""A user's own problem, as `study_problem:wave`, and own schemes, as `study_problem:Shrunk`."""

from dataclasses import dataclass

import numpy as np

from kandle.init import Glorot, LeCun, Scheme
from kandle.problems import PDE, Function, side

wave = Function(
    lambda x, y: x * np.sin(3 * y), [(-1, 1), (-1, 1)], name="wave", n_train=100, n_test=10
)

SQUARE = [(0.0, 1.0), (-1.0, 1.0)]


def _sides(exact):
    return [side(f"side{axis}", SQUARE, axis=axis, at=0.0, value=exact, n=6) for axis in (0, 1)]


def _moving(t, x):
    return np.sin(x + t)


# Both are solved by sin(x + t). The first reads derivatives that the kernels compute; the mixed one
# of the second makes it a PDE that least squares differentiates row by row; the third has an order
# above two.
transport = PDE("transport", lambda x, d: d[0] - d[1], SQUARE, _sides(_moving), collocation=(5, 5))
mixed = PDE("mixed", lambda x, d: d[0, 1] + d.value, SQUARE, _sides(_moving), collocation=(5, 5))
dispersive = PDE(
    "dispersive", lambda x, d: d[0] + d[1, 1, 1], SQUARE, _sides(_moving), collocation=(5, 5)
)


@dataclass(frozen=True)
class Shrunk(Scheme):
    """Glorot's scales times a factor."""

    factor: float = 1.0
    name = "shrunk"
    color = "#123456"

    @property
    def label(self):
        return f"Shrunk by {self.factor:g}"

    def scales_from_moments(self, n_in, n_out, moments):
        sigma_r, sigma_b = Glorot().scales_from_moments(n_in, n_out, moments)
        return sigma_r if sigma_r is None else self.factor * sigma_r, self.factor * sigma_b


@dataclass(frozen=True)
class Standardized(Scheme):
    """LeCun's scales in layers that standardize their basis."""

    name = "standardized"
    normalized = True

    def scales_from_moments(self, n_in, n_out, moments):
        return LeCun(normalized=True).scales_from_moments(n_in, n_out, moments)


@dataclass(frozen=True)
class Tilted(Shrunk):
    """With an exponent."""

    alpha: float = 0.25
    name = "tilted"
