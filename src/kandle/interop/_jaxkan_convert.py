"""jaxKAN's models as Kandle's, and back: the network, and its spline layers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxkan.layers import BaseLayer
from jaxkan.layers import SplineLayer as EfficientLayer
from jaxkan.models.KAN import KAN as JaxKAN

from kandle._errors import UserError, must, unknown
from kandle.bases import Basis, BSpline, Knots
from kandle.interop._jaxkan_functions import (
    FUNCTION_LAYERS,
    layer_from_kandle,
    layer_to_kandle,
)
from kandle.interop._jaxkan_layers import LAYERS, computes_as, knots_of
from kandle.nn import KAN, KANLayer

KNOTS = ("uniform", "kept")

# jaxKAN keeps its knots in float32.
_EPSILON = float(np.finfo(np.float32).eps)


def to_kandle(model: Any, *, knots: str = "uniform") -> KAN:
    """The Kandle network that computes the same function as a jaxKAN `KAN`.

    Spline, Chebyshev, Legendre, Fourier and radial layers are converted; a sine layer, whose
    frequencies are trained, has no equivalent. What follows is about spline layers; the others
    agree to rounding. Sums of powers, as in jaxKAN's flavor "exact", round coarsely: in float32
    its Chebyshev polynomial of degree 20 is off by up to 0.8, Kandle's by 3e-6.

    A layer has one grid for all its inputs: a model whose grids were adapted to data is refused,
    and so is one with a `__call__` or a `basis` of its own. Weights are copied; in double
    precision (`jax_enable_x64`), where jaxKAN computes in float64 whatever its weights are, the
    network is of float64.

    Both compute the same function and round it in different places. jaxKAN keeps its knots in
    float32, also in double precision, which moves a basis function by up to 1e-7 / h, h being the
    distance of knots; in float32 both round where x is between its knots, by about as much, and
    what follows multiplies that by its slopes. Outputs agree to 1e-6 of their scale on small
    networks (two layers, G = 5) and to 2e-6 at [2, 32, 32, 32, 1], G = 20 with Glorot weights.
    With jaxKAN's default weights it is 4e-5 there, and with its LeCun weights 5e-4: about twice
    (root mean square) jaxKAN's own distance from the exact function, which is 1e-5 and 1e-4.

    Args:
        model: a jaxKAN `KAN` of any type but "sine".
        knots: of spline layers; "uniform", which the native kernels accelerate, or "kept", the
            exact knots of jaxKAN, rounding included (`bases.Knots`), on which the network is
            slower. In double precision, for x of float64, its outputs are those of jaxKAN to
            1e-10; in float32 they agree to 3e-6 and 2e-5 in the two cases above, less than
            jaxKAN's own rounding.
    """
    if knots not in KNOTS:
        raise unknown("knots of to_kandle", knots, KNOTS)
    _check_plain(model)
    return KAN.from_layers(_to_kandle(layer, l, knots) for l, layer in enumerate(model.layers))


def from_kandle(model: KAN, layer_type: str = "spline") -> JaxKAN:
    """The jaxKAN model that computes what a Kandle network does.

    Weights and knots are in the network's precision: in double precision, outputs of a float64
    network are the same to 1e-10. In float32 they differ as for `to_kandle`.

    Args:
        model: any but a normalized network, which jaxKAN has no layer for.
        layer_type: "spline" or "base", jaxKAN's two layers for B-splines. Other bases have one
            layer each; what that layer cannot compute is an error.
    """
    kinds = {"spline": EfficientLayer, "base": BaseLayer}
    if not isinstance(model, KAN):
        raise must("'model' of from_kandle", "a Kandle KAN", type(model).__name__)
    if layer_type not in kinds:
        raise must("'layer_type' of from_kandle", "'spline' or 'base'", layer_type)
    if any(layer.normalized for layer in model.layers):
        raise must(
            "'model' of from_kandle",
            "without standardised basis functions, which jaxKAN has no layer for",
            "a normalized network",
        )
    shape = {"k": 1, "G": 1}
    converted = JaxKAN([1, 1], layer_type, shape)  # its one layer gives way to those below
    converted.layers = nnx.List([_from_kandle(layer, kinds[layer_type]) for layer in model.layers])
    return converted


def _check_plain(model: Any) -> None:
    """An error for what may compute anything else than the sums that a Kandle network is."""
    got = type(model).__name__
    if computes_as(model, (JaxKAN,), "__call__"):
        kinds = [
            type(layer).__name__
            for layer in model.layers
            if not computes_as(layer, (*LAYERS, *FUNCTION_LAYERS), "__call__", "basis")
        ]
        if not kinds and len(model.layers):
            return
        got = f"{got} of {', '.join(dict.fromkeys(kinds)) or 'no layers'}"
    requirement = (
        "a jaxKAN KAN of spline layers (BaseLayer or SplineLayer), Chebyshev, Legendre, Fourier or "
        "RBF layers whose __call__ and basis are those of jaxKAN"
    )
    raise must("'model' of to_kandle", requirement, got)


def _from_kandle(layer: KANLayer, kind: Any) -> Any:
    basis = layer.basis
    # A subclass may compute anything: the other function refuses it.
    if not isinstance(basis, BSpline | Knots) or type(basis) not in (BSpline, Knots):
        return layer_from_kandle(layer)
    knots = basis.full if isinstance(basis, Knots) else basis.knots
    part = kind(
        n_in=layer.n_in,
        n_out=layer.n_out,
        k=basis.degree,
        G=basis.n_basis - basis.degree,
        grid_range=basis.domain,
        residual=layer.residual,
        external_weights=True,
        add_bias=layer.bias is not None,
    )
    # As exact as the weights: jaxKAN adds steps in float32, which is off by several roundings.
    rows = len(part.grid.item)
    part.grid.item = jnp.tile(jnp.asarray(knots, layer.b.dtype), (rows, 1))
    weights = {"c_res": layer.r, "c_spl": layer.c, "c_basis": layer.b, "bias": layer.bias}
    for name, values in weights.items():
        if values is not None:
            setattr(part, name, nnx.Param(jnp.array(values).reshape(getattr(part, name).shape)))
    return part


def _to_kandle(part: Any, l: int, knots: str) -> KANLayer:
    if isinstance(part, FUNCTION_LAYERS):
        return layer_to_kandle(part, l)
    basis: Basis = _exact_knots(part, l) if knots == "kept" else _uniform_basis(part, l)
    # jaxKAN's basis functions are of JAX's default precision, and all else follows them.
    dtype = jnp.promote_types(part.c_basis[...].dtype, jnp.result_type(float))
    edges = (part.n_out, part.n_in)

    def weights(parameter: Any) -> jax.Array:
        return jnp.array(parameter[...], dtype)

    return KANLayer(
        None if part.residual is None else weights(part.c_res),
        jnp.ones(edges, dtype) if part.c_spl is None else weights(part.c_spl),
        weights(part.c_basis).reshape(*edges, basis.n_basis),
        None if part.bias is None else weights(part.bias),
        basis=basis,
        residual=part.residual,
    )


def _exact_knots(part: Any, l: int) -> Knots:
    """The splines on the layer's own knots, rounding included."""
    knots = knots_of(part)
    if not (knots == knots[0]).all():
        raise UserError(
            f"Layer {l} has knots that are rounded differently for its inputs, and Kandle has one "
            "grid per layer: the model can be converted with knots='uniform'."
        )
    return Knots.from_full(knots[0], part.k)


def _uniform_basis(part: Any, l: int) -> BSpline:
    """The uniform basis that a layer's knots are, up to the float32 they are kept in."""
    knots, degree = knots_of(part), part.k
    grid = knots.shape[1] - 2 * degree - 1
    ends = _few_digits(knots[0, degree]), _few_digits(knots[0, -degree - 1])
    # What the layer was built with is exact, and holds unless its grid was adapted since.
    low, high = map(float, part.grid.grid_range)
    for domain in ((low, high), ends):
        if domain[0] < domain[1]:
            basis = BSpline(grid, degree, domain)
            rounding = 8 * _EPSILON * np.abs(knots).max()
            if np.allclose(knots, basis.knots, rtol=0, atol=rounding):
                return basis
    raise UserError(
        f"Layer {l} has a grid that is not uniform, or not the same for all inputs, and "
        "Kandle's are: the model cannot be converted. It can be initialized in place."
    )


def _few_digits(end: float) -> float:
    """The number of few digits that float32 cannot tell from this one, if there is one."""
    rounded = float(np.round(end, 6))
    return rounded if np.float32(rounded) == np.float32(end) else float(end)
