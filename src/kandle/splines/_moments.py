"""Exact moments of the basis and of the residual under a distribution of inputs.

    μ_B⁽ᵛ⁾ = E[B_m⁽ᵛ⁾(x)²],    μ_R⁽ᵛ⁾ = E[R⁽ᵛ⁾(x)²],    ν = 0, 1    (Eqs. 3 and 6)

Everything is computed in float64, whatever precision JAX is set to.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from kandle._errors import UserError, must
from kandle.splines._basis import SplineBasis, check_order
from kandle.splines._inputs import Inputs
from kandle.splines._recursion import check_knots, recursion

Residual = Callable[[Any], Any]

_CHUNK = 1024  # points a call, so that one compiled program serves every number of points


@dataclass(frozen=True)
class Moments:
    """All that a scheme needs to know of a layer's functions and inputs.

    Args:
        n_basis: G + k, the number of basis functions.
        mu_B0, mu_B1: E[B_m²] and E[B_m'²], averaged over m.
        mu_R0, mu_R1: E[R²] and E[R'²]; None without a residual.
        std: √Var(x).
    """

    n_basis: int
    mu_B0: float
    mu_B1: float
    mu_R0: float | None
    mu_R1: float | None
    std: float

    @property
    def terms(self) -> int:
        """G + k + 1, the terms that share the variance; G + k without a residual."""
        return self.n_basis + (self.mu_R0 is not None)

    @property
    def variance(self) -> float:
        """Var(x)."""
        return self.std**2


def _remembered(function: Callable) -> Callable:
    """Keep the results for hashable arguments; a residual with arrays in it is not hashable."""
    kept = functools.lru_cache(maxsize=1024)(function)

    @functools.wraps(function)
    def remembering(*args: Any) -> Any:
        try:
            hash(args)
        except TypeError:
            return function(*args)
        return kept(*args)

    return remembering


def moments(basis: SplineBasis, residual: Residual | None, inputs: Inputs) -> Moments:
    """The moments of a layer, computed once for each basis, residual and distribution.

    Example:
        >>> from kandle.splines import Uniform
        >>> m = moments(SplineBasis(grid=1, degree=1), None, Uniform(-1, 1))
        >>> round(m.mu_B0, 12), round(m.mu_B1, 12), m.terms
        (0.333333333333, 0.25, 2)
    """
    mu_B0, mu_B1 = (_pooled_moment(basis, inputs, order) for order in (0, 1))
    mu_R0, mu_R1 = (
        None if residual is None else residual_moment(residual, inputs, order) for order in (0, 1)
    )
    return Moments(basis.n_basis, mu_B0, mu_B1, mu_R0, mu_R1, inputs.std)


@_remembered
def _pooled_moment(basis: SplineBasis, inputs: Inputs, order: int) -> float:
    return float(basis_moments(basis.knots, basis.degree, inputs, order).mean())


def basis_moments(knots: Any, degree: int, inputs: Inputs, order: int = 0) -> np.ndarray:
    """E[B_m⁽ᵛ⁾(x)²] for every m, on any non-decreasing knots: (n_knots - k - 1,)."""
    return _expect_basis(knots, degree, inputs, order, power=2)


def basis_means(knots: Any, degree: int, inputs: Inputs, order: int = 0) -> np.ndarray:
    """E[B_m⁽ᵛ⁾(x)] for every m, on any non-decreasing knots: (n_knots - k - 1,)."""
    return _expect_basis(knots, degree, inputs, order, power=1)


def _expect_basis(knots: Any, degree: int, inputs: Inputs, order: int, power: int) -> np.ndarray:
    t, order = check_knots(knots, degree), check_order(order)
    return inputs.expect(lambda x: recursion(x, t, degree, order, np) ** power, breakpoints=t)


def residual_moment(residual: Residual, inputs: Inputs, order: int = 0) -> float:
    """E[R⁽ᵛ⁾(x)²] for a function R of one number, differentiated by JAX."""
    if not callable(residual):
        raise must("'residual'", "a function of one number, or None", residual)
    return _residual_moment(residual, inputs, check_order(order))


@_remembered
def _residual_moment(residual: Residual, inputs: Inputs, order: int) -> float:
    R = _in_float64(residual, order)
    value = float(inputs.expect(lambda x: R(x) ** 2))
    if not np.isfinite(value):
        raise UserError(
            f"'residual' must be finite, and its derivative too, wherever the inputs are. "
            f"The mean square of derivative {order} of {residual!r} is {value}."
        )
    return value


def _in_float64(residual: Residual, order: int) -> Callable[[np.ndarray], np.ndarray]:
    """R⁽ᵛ⁾ over numpy float64 vectors."""
    R = residual
    for _ in range(order):
        R = jax.grad(R)
    compiled = jax.jit(jax.vmap(R))

    def function(x: np.ndarray) -> np.ndarray:
        chunks = np.resize(x, (-(-x.size // _CHUNK), _CHUNK))  # the last is filled up by repeating
        # Compile-time evaluation: a model may be built inside `jit`, where x is still a constant.
        with jax.ensure_compile_time_eval(), jax.enable_x64(True):
            values = [np.asarray(compiled(chunk), dtype=np.float64) for chunk in chunks]
        if values[0].shape != (_CHUNK,):
            raise must("'residual'", "a function of one number that returns one", residual)
        return np.concatenate(values)[: x.size]

    return function
