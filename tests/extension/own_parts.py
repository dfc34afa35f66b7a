"""What a user might add from outside: a basis, a scheme, a function and a differential equation."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kandle import bases, init, problems


@dataclass(frozen=True)
class Monomials(bases.Basis):
    """x, x², …, xⁿ on [-1, 1]."""

    name: ClassVar[str] = "monomials"
    n: int = 4

    @property
    def n_basis(self):
        return self.n

    @property
    def domain(self):
        return (-1.0, 1.0)

    def table(self, x, order, xp):
        powers = []
        for p in range(1, self.n + 1):
            factor = float(np.prod([p - i for i in range(order)])) if order else 1.0
            powers.append(factor * x ** max(p - order, 0) + 0.0 * x)
        return xp.stack(powers)


@dataclass(frozen=True)
class Constant(init.Scheme):
    """σ_r and σ_b are the same number everywhere."""

    sigma: float = 0.1

    @property
    def name(self):
        return "Constant σ"

    def scales_from_moments(self, n_in, n_out, moments):
        return (None if moments.mu_R0 is None else self.sigma), self.sigma


ripples = problems.Function(
    lambda x, y: np.sin(4 * np.hypot(x, y)), [(-1, 1), (-1, 1)], name="ripples", n_train=200
)

_BOX = [(0.0, 1.0), (-1.0, 1.0)]
heat = problems.PDE(
    "heat",
    lambda x, d: (d.first[0] - 0.1 * d.second[1])[..., 0],
    _BOX,
    [
        problems.side("initial", _BOX, axis=0, at=0, value=lambda t, x: np.sin(np.pi * x), n=16),
        problems.side("left", _BOX, axis=1, at=-1, value=0.0, n=16),
        problems.side("right", _BOX, axis=1, at=1, value=0.0, n=16),
    ],
    first=(0, 1),
    second=(1,),
    reference=lambda t, x: np.exp(-0.1 * np.pi**2 * t) * np.sin(np.pi * x),
    collocation=(12, 12),
    n_evaluation=(20, 20),
)
