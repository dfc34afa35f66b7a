"""A number in an equation that is found together with its solution."""

import math
import numbers
from dataclasses import dataclass

from kandle._errors import must


@dataclass(frozen=True)
class Coefficient:
    """An unknown number c of a PDE, trained together with the network.

    Training changes an unconstrained number θ, from which c follows:

        c = θ,    c = lo + e^θ,    c = hi - e^θ,    c = lo + (hi - lo) / (1 + e^{-θ})

    without bounds, with a lower, an upper, or both. The bounds themselves are never reached.

    Args:
        initial: c before the first update, strictly between the bounds.
        bounds: (lo, hi), either of which may be infinite.

    Example:
        >>> conductivity = Coefficient(1.0, bounds=(0.0, float("inf")))
        >>> conductivity.theta
        0.0
    """

    initial: float
    bounds: tuple[float, float] = (-math.inf, math.inf)

    def __post_init__(self):
        if not isinstance(self.initial, numbers.Real) or not math.isfinite(self.initial):
            raise must("'initial' of Coefficient", "a finite number", self.initial)
        try:
            lo, hi = (float(end) for end in self.bounds)
        except (TypeError, ValueError):
            raise must("'bounds' of Coefficient", "a pair of numbers", self.bounds) from None
        if not lo < self.initial < hi:
            raise must(
                "'initial' of Coefficient", f"between the bounds {lo:g} and {hi:g}", self.initial
            )
        object.__setattr__(self, "initial", float(self.initial))
        object.__setattr__(self, "bounds", (lo, hi))

    @property
    def theta(self) -> float:
        """θ before the first update."""
        (lo, hi), c = self.bounds, self.initial
        below, above = math.isfinite(lo), math.isfinite(hi)
        if below and above:
            return math.log((c - lo) / (hi - c))
        if below or above:
            return math.log(c - lo if below else hi - c)
        return c

    def value(self, theta):
        """c from θ, a JAX or NumPy number or array."""
        import jax.numpy as jnp

        lo, hi = self.bounds
        if math.isfinite(lo) and math.isfinite(hi):
            return lo + (hi - lo) / (1 + jnp.exp(-theta))
        if math.isfinite(lo):
            return lo + jnp.exp(theta)
        return hi - jnp.exp(theta) if math.isfinite(hi) else theta
