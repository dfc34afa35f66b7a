"""Exact moments of a layer's functions under a distribution of its inputs.

    μ_B⁽ᵛ⁾ = E[B_m⁽ᵛ⁾(x)²],    μ_R⁽ᵛ⁾ = E[R⁽ᵛ⁾(x)²],    ν = 0, 1    (Eqs. 3 and 6)

Everything is computed in float64, whatever precision JAX is set to.
"""

import functools
import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # its parts are imported when first used

from kandle._errors import UserError, must, unknown
from kandle.bases._basis import Basis, check_order
from kandle.bases._inputs import Inputs

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
    each_0 = basis.moments(inputs, 0)
    each_1 = basis.moments(inputs, 1)
    mu_R0 = mu_R1 = None
    if residual is not None:
        mu_R0 = residual_moment(residual, inputs, 0)
        mu_R1 = residual_moment(residual, inputs, 1)
    return Moments(
        n_basis=basis.n_basis,
        mu_B0=float(each_0.mean()),
        mu_B1=float(each_1.mean()),
        mu_R0=mu_R0,
        mu_R1=mu_R1,
        std=inputs.std,
        mu_B0_each=tuple(each_0.tolist()),
        mu_B1_each=tuple(each_1.tolist()),
    )


def residual_moment(residual: Residual, inputs: Inputs, order: int = 0) -> float:
    """E[R⁽ᵛ⁾(x)²]: in closed form for a known function, otherwise R is differentiated by JAX."""
    if isinstance(residual, str):
        if residual not in CLOSED_FORMS:
            raise unknown("residual function", residual, CLOSED_FORMS)
    elif not callable(residual):
        raise must("'residual'", "a function of one number, the name of one, or None", residual)
    else:
        residual = residual_name(residual) or residual
    order = check_order(order)
    try:
        hash(residual)
    except TypeError:  # a function with arrays in it cannot be a key of the cache
        return _residual_moment.__wrapped__(residual, inputs, order)
    return _residual_moment(residual, inputs, order)


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
        # Beyond the closed forms, JAX differentiates its function of the same name.
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


# --- residual functions R by name: value and first derivative in closed form, with NumPy alone ----

# The functions of the same names in JAX are listed beside them, so that a layer that holds one of
# those needs no JAX for its moments either.

_Function = Callable[[np.ndarray], np.ndarray]


def _expit(x: np.ndarray) -> np.ndarray:
    """1 / (1 + e⁻ˣ)."""
    return scipy.special.expit(x)


def _silu_slope(x: np.ndarray) -> np.ndarray:
    s = _expit(x)
    return s + x * (s * (1 - s))


# jax.nn.gelu is the approximation by tanh: x (1 + tanh(a (x + b x³))) / 2.
_A, _B = np.sqrt(2 / np.pi), 0.044715


def _gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(_A * (x + _B * x**3)))


def _gelu_slope(x: np.ndarray) -> np.ndarray:
    t = np.tanh(_A * (x + _B * x**3))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t**2) * _A * (1 + 3 * _B * x**2)


# name -> (R, R')
CLOSED_FORMS: dict[str, tuple[_Function, _Function]] = {
    "silu": (lambda x: x * _expit(x), _silu_slope),
    "relu": (lambda x: np.maximum(x, 0.0), lambda x: np.where(x > 0, 1.0, 0.0)),
    "gelu": (_gelu, _gelu_slope),
    "elu": (
        lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0.0))),
        lambda x: np.where(x > 0, 1.0, np.exp(np.minimum(x, 0.0))),
    ),
    "softplus": (lambda x: np.logaddexp(x, 0.0), _expit),
    "sigmoid": (_expit, lambda x: _expit(x) * (1 - _expit(x))),
    "tanh": (np.tanh, lambda x: 1 - np.tanh(x) ** 2),
    "sin": (np.sin, np.cos),
    "identity": (lambda x: x, np.ones_like),
}

# name -> module and attribute of the function in JAX
IN_JAX: dict[str, tuple[str, str]] = {
    "silu": ("jax.nn", "silu"),
    "relu": ("jax.nn", "relu"),
    "gelu": ("jax.nn", "gelu"),
    "elu": ("jax.nn", "elu"),
    "softplus": ("jax.nn", "softplus"),
    "sigmoid": ("jax.nn", "sigmoid"),
    "tanh": ("jax.numpy", "tanh"),
    "sin": ("jax.numpy", "sin"),
    "identity": ("kandle.nn._residuals", "identity"),
}


def residual_name(residual: Any) -> str | None:
    """The name of a residual function that has one here, None for any other function."""
    for name, (module, attribute) in IN_JAX.items():
        # A caller who holds the function has imported its module.
        if module in sys.modules and getattr(sys.modules[module], attribute, None) is residual:
            return name
    return None
