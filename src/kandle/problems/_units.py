"""A PDE in other units: the same equation with every input mapped to [-1, 1]."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kandle.problems._condition import Condition
from kandle.problems._points import Points

if TYPE_CHECKING:
    from kandle.problems._pde import PDE


@dataclass(frozen=True)
class Units:
    """x_i = offset_i + scale_i z_i, from the network's inputs z to those of the equation."""

    offset: tuple[float, ...]
    scale: tuple[float, ...]

    @classmethod
    def of(cls, domain) -> "Units":
        """The units in which a box is [-1, 1] along every input."""
        middles = tuple((lo + hi) / 2 for lo, hi in domain)
        halves = tuple((hi - lo) / 2 for lo, hi in domain)
        return cls(middles, halves)

    def to_network(self, x: Any) -> np.ndarray:
        """z at points x, (N, n_in)."""
        return (np.asarray(x, np.float64) - self.offset) / self.scale

    def to_equation(self, z: Any) -> Any:
        """x at points z, (N, n_in), in the precision of z."""
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


def scaled(pde: "PDE") -> "PDE":
    """The same problem with every input mapped to [-1, 1], see `PDE.scaled`."""
    units = Units.of(pde.domain)

    def in_z(f: Callable[..., Any] | None) -> Callable[..., Any] | None:
        """A function of one array per input of the equation as one of the network's inputs."""
        if f is None:
            return None

        def f_in_z(*z: Any) -> Any:
            columns = zip(units.offset, units.scale, z, strict=True)
            return f(*(offset + scale * z_i for offset, scale, z_i in columns))

        return f_in_z

    # A grid and a strategy apply to any box; only points that are given have to be mapped.
    collocation = pde.collocation
    if not (pde._is_grid or isinstance(collocation, Points)):
        collocation = units.to_network(pde._collocation_points)
    # The reference in use stays one of the alternatives, by which it is named.
    alternatives = {name: in_z(f) for name, f in pde.alternatives.items()}
    reference = in_z(pde.reference)
    if pde.reference_name:
        reference = alternatives[pde.reference_name]
    return dataclasses.replace(
        pde,
        name=f"{pde.name}-scaled",
        residual=InUnits(pde.residual, units),
        domain=((-1.0, 1.0),) * pde.n_in,
        conditions=[_condition_in(c, units) for c in pde.conditions],
        first=None,
        second=None,
        derivatives=pde.reads,
        collocation=collocation,
        inside=in_z(pde.inside),
        transform=pde.transform and TransformInUnits(pde.transform, units),
        reference=reference,
        alternatives=alternatives,
        units=units,
    )


def _condition_in(c: Condition, units: Units) -> Condition:
    return dataclasses.replace(
        c,
        points=units.to_network(c.points),
        partner=None if c.partner is None else units.to_network(c.partner),
        operator=c.operator and InUnits(c.operator, units),
    )
