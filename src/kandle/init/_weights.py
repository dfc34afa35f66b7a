"""Weights from standard deviations and a source of random numbers: the only place that draws.

Whatever array library holds the weights, they are drawn by `draw_weights`; the library is that of
the source. `_draw.py`, which imports JAX where this file does not, makes sources of JAX keys for
networks and studies. `NumPySource` here serves the estimators, and `kandle.torch` has a source for
PyTorch's generators.
"""

from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from kandle._errors import unknown

# The distributions that a scheme may choose for r. Another one is a name here and a branch in
# `_unit`.
Law = Literal["normal", "uniform"]


@runtime_checkable
class Source(Protocol):
    """Random numbers for one array of weights, as arrays of the library that holds them."""

    def normal(self, shape: tuple[int, ...]) -> Any:
        """Normal numbers with mean 0 and standard deviation 1."""
        ...

    def uniform(self, shape: tuple[int, ...]) -> Any:
        """Uniform numbers on [-√3, √3): mean 0 and standard deviation 1."""
        ...

    def ones(self, shape: tuple[int, ...]) -> Any:
        """Ones, which are not random but belong to the same library."""
        ...


@dataclass(frozen=True)
class NumPySource:
    """NumPy's generator as a source, in float64.

    Unlike draws from JAX keys, these need no compilation, which takes a second per layer shape.
    """

    generator: np.random.Generator

    def normal(self, shape: tuple[int, ...]) -> np.ndarray:
        return self.generator.standard_normal(shape)

    def uniform(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.sqrt(3.0) * self.generator.uniform(-1, 1, shape)

    def ones(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.ones(shape)


def draw_weights(
    shape: tuple[int, int, int],
    sigma_r: Any,
    sigma_b: Any,
    *,
    law: Law,
    sources: tuple[Source, Source],
) -> tuple[Any, Any, Any]:
    """Weights (r, c, b) of a layer, where u_r and u_b have mean 0 and standard deviation 1:

        r = σ_r u_r,    c = 1,    b = σ_b u_b

    Args:
        shape: (n_out, n_in, n_basis).
        sigma_r: σ_r, one number or (n_in,); None draws no r.
        sigma_b: σ_b, one number, (n_basis,), (n_in, 1) or (n_in, n_basis).
        law: the distribution of u_r. That of u_b is normal.
        sources: of u_r and of u_b. In JAX each array has a key, and so a source, of its own; a
            generator that advances with every number is one source for both, and r comes first.
    """
    source_r, source_b = sources
    edges = shape[:2]
    r = None
    if sigma_r is not None:
        r = sigma_r * _unit(source_r, law, edges)
    c = source_b.ones(edges)
    b = sigma_b * _unit(source_b, "normal", shape)
    return r, c, b


def _unit(source: Source, law: Law, shape: tuple[int, ...]) -> Any:
    """Numbers of mean 0 and standard deviation 1 from a distribution."""
    if law == "normal":
        return source.normal(shape)
    if law == "uniform":
        return source.uniform(shape)
    raise unknown("distribution of residual weights", law, ("normal", "uniform"))
