"""What every initialization scheme is: from a layer's description to σ_r, σ_b and the weights."""

import abc
import dataclasses
import math
import numbers
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from kandle._errors import UserError, must
from kandle.bases import Basis, BSpline, Inputs, Moments, Uniform, moments
from kandle.init._weights import Law

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    from kandle.init._draw import Sampler

# σ_r (None without a residual) and σ_b: one for all basis functions, or one for each.
Scales = tuple[float | None, float | tuple[float, ...]]


@dataclasses.dataclass(frozen=True)
class Scheme(abc.ABC):
    """How a layer's weights are initialized: r with standard deviation σ_r, b with σ_b, c = 1.

    A scheme is a frozen dataclass of its settings. A scheme of your own implements
    `scales_from_moments`; everything else has a default:

    Attributes:
        name: how tables and figures refer to it; the class's name unless overridden. Files store
            a scheme that is not built in as `module:Class`.
        label, color: its name in the text of tables and figures, and its colour there.
        residual_law: the distribution of r, "normal" or "uniform".
        normalized: whether layers standardise their basis functions over the batch (Eq. 4).
        needs_data: whether `adapt` has to be called with a sample of the inputs before training.
        sample_required: whether a network cannot be built without such a sample.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Small(Scheme):
        ...     size: float = 0.01
        ...
        ...     def scales_from_moments(self, n_in, n_out, moments):
        ...         return (None if moments.mu_R0 is None else self.size), self.size
        >>> Small().scales(n_in=2, n_out=8, grid=5)
        (0.01, 0.01)
        >>> Small().name
        'Small'
    """

    residual_law: ClassVar[Law] = "normal"
    sample_required: ClassVar[bool] = False

    # Properties, which a subclass may override with a field, a property or a class attribute.

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def label(self) -> str:
        return self.name

    @property
    def color(self) -> str:
        return "#882255"

    @property
    def normalized(self) -> bool:
        return False

    @property
    def needs_data(self) -> bool:
        return False

    @abc.abstractmethod
    def scales_from_moments(self, n_in: int, n_out: int, moments: Moments) -> Scales:
        """(σ_r, σ_b) of a layer whose functions and inputs have these moments.

        Args:
            n_in, n_out: the layer's widths.
            moments: of its basis and residual under the distribution of its inputs. Without a
                residual `moments.mu_R0` is None, and σ_r must be None.
        """

    def adapt(self, model: Any, x: Any) -> Any:
        """The network that training begins with, given the drawn one and a sample of its inputs.

        Called once, if `needs_data` is true: by `train`, studies and `fit` with the training
        inputs, and by `KAN(…, sample=x)`.

        Args:
            model: a `KAN` whose weights were drawn by this scheme.
            x: the sample, (N, n_in).
        """
        del x
        return model

    def scales(
        self,
        n_in: int,
        n_out: int,
        grid: int | None = None,
        degree: int = 3,
        *,
        basis: Basis | None = None,
        domain: tuple[float, float] = (-1.0, 1.0),
        residual: Callable | str | None = "silu",
        inputs: Inputs | None = None,
    ) -> Scales:
        """(σ_r, σ_b) of a layer.

        Args:
            n_in, n_out: the layer's widths.
            grid, degree, domain: of a uniform B-spline, see `kandle.bases.BSpline`.
            basis: any other basis; `grid`, `degree` and `domain` are not used then.
            residual: R, a function or the name of one; None without a residual: σ_r is None then,
                and the basis functions share the variance.
            inputs: the distribution of each input component; None is uniform over the domain.
        """
        if (grid is None) == (basis is None):
            raise UserError("Either 'grid' or 'basis' of scales must be given, and not both.")
        if basis is None:
            basis = BSpline(grid, degree, domain)  # pyright: ignore[reportArgumentType]
        return self._scales(n_in, n_out, basis, residual, inputs)

    def draw(
        self,
        key: "Array",
        n_in: int,
        n_out: int,
        basis: Basis,
        *,
        residual: Callable | str | None = "silu",
        inputs: Inputs | None = None,
        dtype: Any = "float32",
        sampler: "Sampler | None" = None,
    ) -> """tuple[
        Float[Array, 'n_out n_in'] | None,
        Float[Array, 'n_out n_in'],
        Float[Array, 'n_out n_in n_basis'],
    ]""":
        """A layer's weights (r, c, b); r is None without a residual.

        Args:
            key: the layer's own key; r and b are drawn from two halves of it.
            n_in, n_out, basis, residual, inputs: as for `scales`.
            dtype, sampler: as for `draw_scaled`.
        """
        from kandle.init._draw import draw_scaled

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
            sampler=sampler,
        )

    def _scales(
        self,
        n_in: int,
        n_out: int,
        basis: Basis,
        residual: Callable | str | None,
        inputs: Inputs | None,
    ) -> Scales:
        for name, n in (("n_in", n_in), ("n_out", n_out)):
            if isinstance(n, bool) or not isinstance(n, numbers.Integral) or n < 1:
                raise must(f"'{name}'", "an integer of at least 1", n)
        if not isinstance(basis, Basis):
            raise must("'basis'", "a Basis, such as bases.BSpline(5)", basis)
        if inputs is None:
            inputs = Uniform(*basis.domain)
        if not isinstance(inputs, Inputs):
            raise must("'inputs'", "a distribution such as Uniform(-1, 1), or None", inputs)
        return self.scales_from_moments(int(n_in), int(n_out), moments(basis, residual, inputs))


def check_number(scheme: Scheme, name: str, *, positive: bool = False) -> None:
    """Refuse a setting of the scheme that is not a finite (positive) number."""
    setting = getattr(scheme, name)
    value = math.nan
    if isinstance(setting, numbers.Real) and not isinstance(setting, bool):
        value = float(setting)
    if not math.isfinite(value) or (positive and value <= 0):
        requirement = "a positive finite number" if positive else "a finite number"
        raise must(f"The {name!r} parameter of {type(scheme).__name__}", requirement, setting)
    # A plain float: NumPy's scalars are equal to it, but do not fit into JSON.
    object.__setattr__(scheme, name, value)


def check_reached(mu: float, what: str) -> float:
    """A moment to divide by, or an error: functions that are zero on all inputs have no scale."""
    if not mu > 0:
        raise UserError(
            f"{what} is zero under 'inputs', which never falls where the function is nonzero."
        )
    return mu
