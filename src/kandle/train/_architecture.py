"""The shape of a network, apart from the problem it is for."""

import numbers
from collections.abc import Callable
from dataclasses import dataclass

import jax

from kandle._errors import must
from kandle._seed import check_seed
from kandle.init import Scheme
from kandle.nn import KAN, get_residual
from kandle.splines import SplineBasis


@dataclass(frozen=True)
class Architecture:
    """`depth` hidden layers of `width` units, with splines of one kind on every edge.

    Args:
        width: units a hidden layer.
        depth: number of hidden layers; 0 joins inputs and outputs directly.
        grid: G, the number of spline intervals.
        degree: k of the splines.
        domain: the interval that the splines divide.
        residual: R, an elementwise function, the name of one, or None.
        bias: whether a layer has a bias.

    Example:
        >>> Architecture(width=8, depth=2, grid=5).widths(n_in=2, n_out=1)
        (2, 8, 8, 1)
    """

    width: int
    depth: int
    grid: int
    degree: int = 3
    domain: tuple[float, float] = (-1.0, 1.0)
    residual: str | Callable | None = jax.nn.silu
    bias: bool = True

    def __post_init__(self):
        for name, least in (("width", 1), ("depth", 0)):
            given = getattr(self, name)
            whole = isinstance(given, numbers.Integral) and not isinstance(given, bool)
            if not whole or given < least:
                raise must(f"'{name}' of Architecture", f"an integer of at least {least}", given)
        if not isinstance(self.bias, bool):
            raise must("'bias' of Architecture", "True or False", self.bias)
        basis = SplineBasis(self.grid, self.degree, self.domain)
        object.__setattr__(self, "domain", basis.domain)
        object.__setattr__(self, "residual", get_residual(self.residual))

    def widths(self, n_in: int, n_out: int) -> tuple[int, ...]:
        return (n_in, *(self.width,) * self.depth, n_out)

    def network(
        self,
        n_in: int,
        n_out: int,
        scheme: Scheme,
        seed: int,
        *,
        draws: str = "independent",
        dtype: str = "float32",
        backend: str | None = None,
    ) -> KAN:
        """The network that a scheme starts from a seed, the same whatever is drawn beside it."""
        return KAN(
            self.widths(n_in, n_out),
            grid=self.grid,
            degree=self.degree,
            domain=self.domain,
            residual=self.residual,
            bias=self.bias,
            init=scheme,
            key=jax.random.key(check_seed("'seed' of a network", seed)),
            draws=draws,
            dtype=dtype,
            backend=backend,
        )
