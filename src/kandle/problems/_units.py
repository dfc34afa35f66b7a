"""A PDE in other units: the same equation with every input mapped to [-1, 1]."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Units:
    """x_i = offset_i + scale_i z_i, from the network's inputs z to those of the equation."""

    offset: tuple[float, ...]
    scale: tuple[float, ...]

    @classmethod
    def of(cls, domain) -> "Units":
        """The units in which a box is [-1, 1] along every input."""
        return cls(
            tuple((lo + hi) / 2 for lo, hi in domain), tuple((hi - lo) / 2 for lo, hi in domain)
        )

    def to_network(self, x: Any) -> np.ndarray:
        return (np.asarray(x, np.float64) - self.offset) / self.scale

    def to_equation(self, z: Any) -> Any:
        return np.asarray(self.offset, z.dtype) + np.asarray(self.scale, z.dtype) * z


@dataclass(frozen=True)
class InUnits:
    """An operator of x and ∂/∂x as one of z and ∂/∂z: ∂u/∂x_i = ∂u/∂z_i / scale_i."""

    operator: Callable[[Any, Any], Any]
    units: Units

    def __call__(self, z, d):
        factors = tuple(1 / scale for scale in self.units.scale)
        return self.operator(self.units.to_equation(z), d.rescaled(factors))


@dataclass(frozen=True)
class TransformInUnits:
    """An output transform of x as one of z."""

    transform: Callable[[Any, Any], Any]
    units: Units

    def __call__(self, z, u):
        return self.transform(self.units.to_equation(z), u)
