"""The parts of a loss that is a sum of weighted squares."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Array, Float

from kandle.ntk._tangents import Directions

Data = dict[str, Array]
Weights = dict[str, Array]


class Term(NamedTuple):
    """One part Σ_nq w_nq (q(x_n) - y_n)² of a loss that is a sum of weighted squares.

    The quantities q are the network's outputs, or a residual of its derivatives.

    Attributes:
        x: points, (N, n_in).
        y: target values, (N, Q).
        weight: weights of the squares, (N, Q).
        residual: (points, derivatives) -> (N,) or (N, Q), or None for the outputs themselves.
        directions: the derivatives that the residual reads.
    """

    x: Float[Array, "N n_in"]
    y: Float[Array, "N Q"]
    weight: Float[Array, "N Q"]
    residual: Callable[[Any, Any], Any] | None = None
    directions: Directions = Directions()
