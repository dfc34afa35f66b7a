"""Polynomials by a three-term recurrence, with the derivatives of every order."""

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from kandle.bases._squash import Series, combine, multiply, squashed

# n -> (a, b) of P_{n+1}(u) = a u P_n(u) - b P_{n-1}(u), from P_0 = 1 and P_1 = u
Recurrence = Callable[[int], tuple[float, float]]


def polynomial_table(
    x: Any,
    recurrence: Recurrence,
    degree: int,
    constant: bool,
    domain: tuple[float, float],
    squash: str,
    order: int,
    xp: ModuleType,
) -> Any:
    """d^ν/dx^ν of P_m(s(x)) for m = 1, …, degree (from 0 with `constant`), along the first axis."""
    u = squashed(x, domain, squash, order, xp)
    one = xp.ones_like(x) + 0.0 * x
    previous: Series = [one, *[None] * order]
    current: Series = u
    columns = [previous] * constant + [current]
    for n in range(1, degree):
        a, b = recurrence(n)
        previous, current = current, combine(a, multiply(u, current), -b, previous)
        columns.append(current)
    # 0 · x keeps NaN where x is not finite.
    return xp.stack(
        [0.0 * x if f[order] is None else f[order] * math.factorial(order) for f in columns]
    )


def polynomial_breakpoints(domain: tuple[float, float], squash: str) -> np.ndarray:
    """Clipping bends the functions at the ends of the domain; tanh leaves them smooth."""
    return np.array(domain) if squash == "clip" else np.empty(0)
