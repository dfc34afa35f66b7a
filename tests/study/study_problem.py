"""A user's own problem, as `study_problem:wave`, and own schemes, as `study_problem:Shrunk`."""

from dataclasses import dataclass

import numpy as np

from kandle.init import Glorot, LeCun, Scheme
from kandle.problems import Function

wave = Function(
    lambda x, y: x * np.sin(3 * y), [(-1, 1), (-1, 1)], name="wave", n_train=100, n_test=10
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
