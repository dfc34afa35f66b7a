"""The empirical tangent kernel of a network's outputs."""

import numbers
from typing import Literal, get_args

import numpy as np
from jaxtyping import ArrayLike, Float

from kandle._errors import must, unknown
from kandle.nn import KAN
from kandle.ntk._double import double, doubled, points
from kandle.ntk._jacobian import coupled, gram, jacobian
from kandle.ntk._layerwise import Rows, symmetric

Route = Literal["layerwise", "jacobian"]
ROUTES: tuple[Route, ...] = get_args(Route)


def kernel(
    model: KAN,
    x: Float[ArrayLike, "N n_in"] | list,
    *,
    route: Route | None = None,
    chunk: int | None = None,
) -> Float[np.ndarray, "N N"]:
    """The tangent kernel of a network on points.

        K_nn' = Σ_o (∂u_o(x_n)/∂θ) · (∂u_o(x_n')/∂θ)

    over all trained weights θ, r, c, b and biases. Of several outputs o this is the trace kernel.
    Computed in float64, whatever the model's precision.

    A LeCun-normalized network that is not frozen takes its statistics from the batch: here the
    batch is x, u_o(x_n) depends on all its points, and the statistics are differentiated with
    respect to the weights, as in training. Only `jacobian` can do that. Of `model.freeze(batch)`
    the statistics are constants, and every route works.

    Args:
        model: a network, of any precision.
        x: points, (N, n_in).
        route: "layerwise" never holds the Jacobian and is the faster by far; "jacobian" does, by
            automatic differentiation. None is the first that the model allows.
        chunk: points taken at a time by `layerwise`, which bounds its memory beside K itself;
            results do not depend on it but for rounding.

    Example:
        >>> import jax
        >>> from kandle import KAN
        >>> kernel(KAN([1, 3, 1], key=jax.random.key(0)), [[-0.5], [0.5]]).shape
        (2, 2)
    """
    with double():
        network = doubled(model)
        x = points(x, network)
        if choose(route, network, chunk) == "layerwise":
            return Rows(network, x, chunk=chunk).trace_kernel()
        J = jacobian(network, x)
        return symmetric(np.asarray(gram(J, J)))


def choose(route: Route | None, model: KAN, chunk: int | None) -> Route:
    """The route to take, or an error if there is none such for the model."""
    if chunk is not None and (not isinstance(chunk, numbers.Integral) or chunk < 1):
        raise must("'chunk'", "an integer of at least 1, or None", chunk)
    if route is None:
        return "jacobian" if coupled(model) else "layerwise"
    if route not in ROUTES:
        raise unknown("route", route, ROUTES)
    if route == "layerwise" and coupled(model):
        wanted = "'jacobian', or the model frozen, where statistics come from the batch"
        raise must("'route'", wanted, route)
    return route
