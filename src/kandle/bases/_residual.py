"""Residual functions R by name: value and first derivative in closed form, with NumPy alone.

The functions of the same names in JAX are listed beside them, so that a layer that holds one of
those needs no JAX for its moments either.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy  # its parts are imported when first used

Function = Callable[[np.ndarray], np.ndarray]


def expit(x: np.ndarray) -> np.ndarray:
    """1 / (1 + e⁻ˣ)."""
    return scipy.special.expit(x)


def _silu_slope(x: np.ndarray) -> np.ndarray:
    s = expit(x)
    return s + x * (s * (1 - s))


# jax.nn.gelu is the approximation by tanh: x (1 + tanh(a (x + b x³))) / 2.
_A, _B = np.sqrt(2 / np.pi), 0.044715


def _gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(_A * (x + _B * x**3)))


def _gelu_slope(x: np.ndarray) -> np.ndarray:
    t = np.tanh(_A * (x + _B * x**3))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t**2) * _A * (1 + 3 * _B * x**2)


# name -> (R, R')
CLOSED_FORMS: dict[str, tuple[Function, Function]] = {
    "silu": (lambda x: x * expit(x), _silu_slope),
    "relu": (lambda x: np.maximum(x, 0.0), lambda x: np.where(x > 0, 1.0, 0.0)),
    "gelu": (_gelu, _gelu_slope),
    "elu": (
        lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0.0))),
        lambda x: np.where(x > 0, 1.0, np.exp(np.minimum(x, 0.0))),
    ),
    "softplus": (lambda x: np.logaddexp(x, 0.0), expit),
    "sigmoid": (expit, lambda x: expit(x) * (1 - expit(x))),
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
