"""The shape of a network, independent of the problem it is trained on."""

import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from kandle._errors import UserError, must
from kandle._seed import check_seed
from kandle.bases import Basis, BSpline
from kandle.init import Sampler, Scheme
from kandle.nn import KAN, get_residual


@dataclass(frozen=True)
class Architecture:
    """`depth` hidden layers of `width` units, with splines of one kind on every edge.

    Args:
        width: units per hidden layer.
        depth: number of hidden layers; 0 connects inputs and outputs directly.
        grid: G, the number of spline intervals; None where `basis` is given.
        degree: k of the splines.
        domain: the interval divided into G spline intervals.
        residual: R, an elementwise function, the name of one, or None.
        bias: whether each layer has a bias.
        basis: any other basis in place of the uniform B-spline of `grid`, `degree` and `domain`.

    Example:
        >>> Architecture(width=8, depth=2, grid=5).widths(n_in=2, n_out=1)
        (2, 8, 8, 1)
    """

    width: int
    depth: int
    grid: int | None = None
    degree: int = 3
    domain: tuple[float, float] = (-1.0, 1.0)
    residual: str | Callable | None = jax.nn.silu
    bias: bool = True
    basis: Basis | None = None

    def __post_init__(self):
        for name, least in (("width", 1), ("depth", 0)):
            given = getattr(self, name)
            whole = isinstance(given, numbers.Integral) and not isinstance(given, bool)
            if not whole or given < least:
                raise must(f"'{name}' of Architecture", f"an integer of at least {least}", given)
        if not isinstance(self.bias, bool):
            raise must("'bias' of Architecture", "True or False", self.bias)
        if (self.grid is None) == (self.basis is None):
            raise UserError("Either 'grid' or 'basis' of Architecture must be given, and not both.")
        if self.basis is not None and not isinstance(self.basis, Basis):
            raise must("'basis' of Architecture", "a Basis, or None", self.basis)
        object.__setattr__(self, "domain", self.edge_basis.domain)
        object.__setattr__(self, "residual", get_residual(self.residual))

    @property
    def edge_basis(self) -> Basis:
        """The basis on every edge."""
        if self.basis is not None:
            return self.basis
        return BSpline(self.grid, self.degree, self.domain)  # pyright: ignore[reportArgumentType]

    def widths(self, n_in: int, n_out: int) -> tuple[int, ...]:
        """(n_in, width, …, width, n_out)."""
        return (n_in, *(self.width,) * self.depth, n_out)

    def network(
        self,
        n_in: int,
        n_out: int,
        scheme: Scheme,
        seed: int,
        *,
        sampler: Sampler | None = None,
        dtype: str = "float32",
        backend: str | None = None,
        sample: Any = None,
    ) -> KAN:
        """The network that a scheme initializes from a seed."""
        return KAN(
            self.widths(n_in, n_out),
            self.edge_basis,
            residual=self.residual,
            bias=self.bias,
            init=scheme,
            sample=sample,
            key=jax.random.key(check_seed("'seed' of a network", seed)),
            sampler=sampler,
            dtype=dtype,
            backend=backend,
        )
