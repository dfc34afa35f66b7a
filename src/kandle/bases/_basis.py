"""What every basis is: functions on an edge, with their derivatives and moments."""

import abc
import dataclasses
import functools
import math
import numbers
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from kandle._errors import UserError, must
from kandle.bases._inputs import Inputs

# Derivatives beyond it overflow, and some are computed one by one.
_MAX_ORDER = 100


@dataclasses.dataclass(frozen=True)
class Basis(abc.ABC):
    """The functions B_1, …, B_n that every edge of a layer combines.

    A basis is a frozen, hashable dataclass of its parameters. A subclass defines `name`, `n_basis`,
    `domain` and `table`; where its functions are not smooth, also `breakpoints`; where derivatives
    stop being available, also `max_order`.

    Attributes:
        name: the registered name of the family, such as "bspline".
        n_basis: number of functions.
        domain: (lo, hi), the interval of inputs that the functions are meant for.
        max_order: the highest derivative order that is available; None if every order is.
        breakpoints: points between which every function is smooth, in increasing order.

    Example:
        >>> from dataclasses import dataclass
        >>> import numpy as np
        >>> @dataclass(frozen=True)
        ... class Monomials(Basis):
        ...     name = "monomials"
        ...     n_basis = 3
        ...     domain = (-1.0, 1.0)
        ...     max_order = 1
        ...
        ...     def table(self, x, order, xp):
        ...         return xp.stack([x, x**2, x**3] if order == 0 else [0 * x + 1, 2 * x, 3 * x**2])
        >>> Monomials().values(np.array([2.0]))
        array([[2., 4., 8.]])
        >>> Monomials().values(2.0, order=1)
        array([ 1.,  4., 12.])
    """

    name: ClassVar[str]

    # Properties, which a subclass may override with a field, a property or a class attribute.

    @property
    def n_basis(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} must define 'n_basis'.")

    @property
    def domain(self) -> tuple[float, float]:
        raise NotImplementedError(f"{type(self).__name__} must define 'domain'.")

    @property
    def max_order(self) -> int | None:
        return None

    @property
    def breakpoints(self) -> Float[np.ndarray, " n_breakpoints"]:
        return np.empty(0)

    @abc.abstractmethod
    def table(self, x: Float[Any, "..."], order: int, xp: ModuleType) -> Float[Any, "n_basis ..."]:
        """B_m^{(ν)}(x) with the functions along the first axis, in the fastest form known.

        Written with the operations of `xp` alone, so that it serves NumPy and JAX. It must be NaN
        where x is not finite; it is only called with orders up to `max_order`.

        Args:
            x: points, an array of floating-point numbers.
            order: ν.
            xp: the array namespace, `numpy` or `jax.numpy`.
        """

    def values(self, x: Any, order: int = 0, xp: ModuleType = np) -> Float[Any, "... n_basis"]:
        """B_m^{(ν)}(x) for every m, by the definition of the functions.

        Args:
            x: points, (...).
            order: ν, the order of the derivative.
            xp: the array namespace, `numpy` (float64) or `jax.numpy`.
        """
        x = real_points(x, xp)
        return xp.moveaxis(self.table(x, self.check_order(order), xp), 0, -1)

    def moments(self, inputs: Inputs, order: int = 0) -> Float[np.ndarray, " n_basis"]:
        """μ⁽ᵛ⁾_m = E[B_m^{(ν)}(x)²] for every m, exact to rounding."""
        return _expectation(self, inputs, self.check_order(order), 2)

    def means(self, inputs: Inputs, order: int = 0) -> Float[np.ndarray, " n_basis"]:
        """E[B_m^{(ν)}(x)] for every m, exact to rounding."""
        return _expectation(self, inputs, self.check_order(order), 1)

    def check_order(self, order: int) -> int:
        """The derivative order as a plain integer, or an error if it is not available."""
        order = check_order(order)
        if self.max_order is not None and order > self.max_order:
            raise UserError(
                f"'order' must be at most {self.max_order}, the highest derivative that "
                f"{type(self).__name__} defines. Got {order} instead."
            )
        return order

    def to_dict(self) -> dict[str, Any]:
        """The basis' name and all its parameters, suitable for JSON."""
        from kandle.bases._registry import registered_name

        description: dict[str, Any] = {"name": registered_name(type(self))}
        for parameter, value in dataclasses.asdict(self).items():
            description[parameter] = _as_lists(value)
        return description

    @classmethod
    def from_dict(cls, description: dict[str, Any]) -> "Basis":
        """The basis that `to_dict` described, of any registered family or `module:Class`."""
        from kandle.bases._registry import from_dict

        basis = from_dict(description)
        if not isinstance(basis, cls):
            raise must(f"'description' of {cls.__name__}", f"of a {cls.__name__}", description)
        return basis


# --- what points and parameters may be -----------------------------------------------------------


def real_points(x: Any, xp: ModuleType) -> Any:
    """Points as they are, or as float64 with NumPy; an error if they are complex."""
    if xp is np:
        x = np.asarray(x)
    # A conversion of complex numbers to float64 would only warn, and drop the imaginary part.
    dtype = str(getattr(x, "dtype", ""))
    if "complex" in dtype:
        raise must("'x' of a basis", "real", f"an array of {dtype}")
    if xp is np:
        x = np.asarray(x, np.float64)
    return x


def check_domain(domain: Any, intervals: int = 1) -> tuple[float, float]:
    """A domain as two floats, wide enough for `intervals` distinct equal parts, or an error."""
    requirement = "a pair of finite numbers (lo, hi) with lo < hi"
    try:
        lo, hi = (float(end) for end in domain)
        if isinstance(domain, str) or any(isinstance(end, str) for end in domain):
            raise TypeError
    except (TypeError, ValueError):
        raise must("'domain'", requirement, domain) from None
    if not (math.isfinite(lo) and math.isfinite(hi) and lo < hi and math.isfinite(hi - lo)):
        raise must("'domain'", requirement, domain)
    if (hi - lo) / intervals <= 2.0 * math.ulp(max(abs(lo), abs(hi))):
        raise must("'domain'", f"wide enough for {intervals} distinct intervals", domain)
    return lo, hi


def check_order(order: int) -> int:
    """A derivative order as a plain integer, or an error that says what it must be."""
    whole = isinstance(order, numbers.Integral) and not isinstance(order, bool)
    if not whole or not 0 <= order <= _MAX_ORDER:
        raise must("'order'", f"an integer from 0 to {_MAX_ORDER}", order)
    return int(order)


def check_count(what: str, count: Any, least: int = 1) -> int:
    """A whole number as a plain integer, or an error that names `what`."""
    if isinstance(count, bool) or not isinstance(count, numbers.Integral) or count < least:
        raise must(what, f"an integer of at least {least}", count)
    return int(count)


def check_positive(what: str, number: Any, requirement: str) -> float:
    """A positive finite number as a float, or an error that names `what`."""
    real = isinstance(number, numbers.Real) and not isinstance(number, bool)
    if not real or not 0 < float(number) < math.inf:
        raise must(what, requirement, number)
    return float(number)


@functools.lru_cache(maxsize=1024)
def _expectation(basis: Basis, inputs: Inputs, order: int, power: int) -> np.ndarray:
    def integrand(x: np.ndarray) -> np.ndarray:
        # A fixed memory layout: the order of summation, hence the last bits, depends on it.
        return np.ascontiguousarray(basis.values(x, order)) ** power

    expected = np.asarray(inputs.expect(integrand, breakpoints=basis.breakpoints))
    expected.flags.writeable = False
    return expected


def _as_lists(value: Any) -> Any:
    """The value with lists in place of tuples, as JSON returns it."""
    if isinstance(value, tuple):
        return [_as_lists(item) for item in value]
    return value
