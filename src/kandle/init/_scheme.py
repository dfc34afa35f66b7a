"""What every initialization scheme is: from a layer's description to σ_r, σ_b and the weights."""

import abc
import dataclasses
import math
import numbers
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from kandle._errors import UserError, must
from kandle.init._draw import Law, draw_scaled
from kandle.splines import Inputs, Moments, SplineBasis, Uniform, moments

Scales = tuple[float | None, float]  # σ_r (None without a residual) and σ_b


@dataclasses.dataclass(frozen=True)
class Scheme(abc.ABC):
    """How a layer's weights start: r with standard deviation σ_r, b with σ_b, c at one.

    A scheme is a frozen dataclass of its parameters. It says what σ_r and σ_b are
    (`scales_from_moments`) and, where r is not normal, which law r follows.
    """

    residual_law: ClassVar[Law] = "normal"

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The scheme's name in files, tables and options."""

    @property
    def normalized(self) -> bool:
        """Whether the layer standardises its basis functions over the batch (Eq. 4)."""
        return False

    @property
    def spread(self) -> float | None:
        """To what spread training adapts a network to its data first (`KAN.adapt`), if at all."""
        return None

    @abc.abstractmethod
    def scales_from_moments(self, n_in: int, n_out: int, moments: Moments) -> Scales:
        """(σ_r, σ_b) of a layer whose functions and inputs have these moments.

        For a basis that is not described by a grid and a degree, such as non-uniform knots.
        """

    def scales(
        self,
        n_in: int,
        n_out: int,
        grid: int,
        degree: int = 3,
        *,
        domain: tuple[float, float] = (-1.0, 1.0),
        residual: Callable | None = jax.nn.silu,
        inputs: Inputs | None = None,
    ) -> Scales:
        """(σ_r, σ_b) of a layer.

        Args:
            n_in, n_out: the layer's widths.
            grid, degree, domain: its basis, see `kandle.splines.SplineBasis`.
            residual: R, or None; σ_r is None then, and the basis functions share the variance.
            inputs: the distribution of each input component; None is uniform over the domain.
        """
        return self._scales(n_in, n_out, SplineBasis(grid, degree, domain), residual, inputs)

    def draw(
        self,
        key: Array,
        n_in: int,
        n_out: int,
        basis: SplineBasis,
        *,
        residual: Callable | None = jax.nn.silu,
        inputs: Inputs | None = None,
        dtype: Any = jnp.float32,
        draws: str = "independent",
    ) -> tuple[
        Float[Array, "n_out n_in"] | None,
        Float[Array, "n_out n_in"],
        Float[Array, "n_out n_in n_basis"],
    ]:
        """A layer's weights (r, c, b); r is None without a residual.

        Args:
            key: the layer's own key; r and b are drawn from two halves of it.
            n_in, n_out, basis, residual, inputs: as for `scales`.
            dtype, draws: as for `draw_scaled`.
        """
        sigma_r, sigma_b = self._scales(n_in, n_out, basis, residual, inputs)
        return draw_scaled(
            key,
            sigma_r,
            sigma_b,
            n_in=n_in,
            n_out=n_out,
            n_basis=basis.n_basis,
            law=self.residual_law,
            dtype=dtype,
            draws=draws,
        )

    def _scales(
        self,
        n_in: int,
        n_out: int,
        basis: SplineBasis,
        residual: Callable | None,
        inputs: Inputs | None,
    ) -> Scales:
        for name, n in (("n_in", n_in), ("n_out", n_out)):
            if isinstance(n, bool) or not isinstance(n, numbers.Integral) or n < 1:
                raise must(f"'{name}'", "an integer of at least 1", n)
        if residual is not None and not callable(residual):
            raise must("'residual'", "a function of one number, or None", residual)
        if inputs is None:
            inputs = Uniform(*basis.domain)
        if not isinstance(inputs, Inputs):
            raise must("'inputs'", "a distribution such as Uniform(-1, 1), or None", inputs)
        return self.scales_from_moments(int(n_in), int(n_out), moments(basis, residual, inputs))


def check_number(scheme: Scheme, name: str, *, positive: bool = False) -> None:
    """Refuse a parameter of the scheme that is not a finite (positive) number."""
    given = getattr(scheme, name)
    real = isinstance(given, numbers.Real) and not isinstance(given, bool)
    value = float(given) if real else math.nan
    if not math.isfinite(value) or (positive and value <= 0):
        kind = "a positive finite number" if positive else "a finite number"
        raise must(f"The {name!r} parameter of {type(scheme).__name__}", kind, given)
    # A plain float: NumPy's scalars are equal to it, but do not fit into JSON.
    object.__setattr__(scheme, name, value)


def check_reached(mu: float, what: str) -> float:
    """A moment to divide by, or an error: a function that no input reaches has no scale."""
    if not mu > 0:
        raise UserError(f"{what} is zero under 'inputs': they must reach where it is not.")
    return mu
