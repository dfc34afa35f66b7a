"""Exact moments of a layer's functions under a distribution of its inputs.

    μ_B⁽ᵛ⁾ = E[B_m⁽ᵛ⁾(x)²],    μ_R⁽ᵛ⁾ = E[R⁽ᵛ⁾(x)²],    ν = 0, 1    (Eqs. 3 and 6)

Everything is computed in float64, whatever precision JAX is set to.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kandle._errors import UserError, must, unknown
from kandle.bases._basis import Basis, check_order
from kandle.bases._inputs import Inputs
from kandle.bases._residual import CLOSED_FORMS, residual_name

# A function of one number, or the name of one.
Residual = Callable[[Any], Any] | str

_CHUNK = 1024  # points per call, so that one compiled program serves every number of points


@dataclass(frozen=True)
class Moments:
    """Everything a scheme needs to know about a layer's functions and inputs.

    Args:
        n_basis: number of basis functions.
        mu_B0, mu_B1: E[B_m²] and E[B_m'²], averaged over m.
        mu_R0, mu_R1: E[R²] and E[R'²]; None without a residual.
        std: √Var(x).
        mu_B0_each, mu_B1_each: E[B_m²] and E[B_m'²] for every m; empty if only averages are known.
    """

    n_basis: int
    mu_B0: float
    mu_B1: float
    mu_R0: float | None
    mu_R1: float | None
    std: float
    mu_B0_each: tuple[float, ...] = ()
    mu_B1_each: tuple[float, ...] = ()

    @property
    def terms(self) -> int:
        """T, the number of terms that share the variance: the basis functions and the residual."""
        return self.n_basis + (self.mu_R0 is not None)

    @property
    def variance(self) -> float:
        """Var(x)."""
        return self.std**2


def moments(basis: Basis, residual: Residual | None, inputs: Inputs) -> Moments:
    """The moments of a layer, computed once for each basis, residual and distribution.

    Example:
        >>> from kandle.bases import BSpline, Uniform
        >>> m = moments(BSpline(grid=1, degree=1), None, Uniform(-1, 1))
        >>> round(m.mu_B0, 12), round(m.mu_B1, 12), m.terms
        (0.333333333333, 0.25, 2)
    """
    each = [basis.moments(inputs, order) for order in (0, 1)]
    mu_B0, mu_B1 = (float(mu.mean()) for mu in each)
    mu_R0, mu_R1 = (
        None if residual is None else residual_moment(residual, inputs, order) for order in (0, 1)
    )
    return Moments(
        basis.n_basis,
        mu_B0,
        mu_B1,
        mu_R0,
        mu_R1,
        inputs.std,
        *(tuple(mu.tolist()) for mu in each),
    )


def residual_moment(residual: Residual, inputs: Inputs, order: int = 0) -> float:
    """E[R⁽ᵛ⁾(x)²]: in closed form for a known function, otherwise R is differentiated by JAX."""
    if isinstance(residual, str):
        if residual not in CLOSED_FORMS:
            raise unknown("residual function", residual, CLOSED_FORMS)
    elif not callable(residual):
        raise must("'residual'", "a function of one number, the name of one, or None", residual)
    named = residual if isinstance(residual, str) else residual_name(residual) or residual
    try:
        hash(named)
    except TypeError:  # a function with arrays in it
        return _residual_moment.__wrapped__(named, inputs, check_order(order))
    return _residual_moment(named, inputs, check_order(order))


@functools.lru_cache(maxsize=1024)
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
    if isinstance(residual, str):
        if order < 2:
            return CLOSED_FORMS[residual][order]
        import importlib

        from kandle.bases._residual import IN_JAX

        module, attribute = IN_JAX[residual]
        residual = getattr(importlib.import_module(module), attribute)
    import jax

    from kandle._compat import enable_x64

    R = residual
    for _ in range(order):
        R = jax.grad(R)  # pyright: ignore[reportArgumentType]
    compiled = jax.jit(jax.vmap(R))  # pyright: ignore[reportArgumentType]

    def function(x: np.ndarray) -> np.ndarray:
        chunks = np.resize(x, (-(-x.size // _CHUNK), _CHUNK))  # the last is filled by repeating
        # Compile-time evaluation: a model may be built inside `jit`, where x is still a constant.
        with jax.ensure_compile_time_eval(), enable_x64(True):
            values = [np.asarray(compiled(chunk), dtype=np.float64) for chunk in chunks]
        if values[0].shape != (_CHUNK,):
            raise must("'residual'", "a function of one number that returns one", residual)
        return np.concatenate(values)[: x.size]

    return function
