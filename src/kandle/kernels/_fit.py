"""The squared error of a whole network and its gradient in the weights, as one native call.

One primitive, over arrays that lead with a model axis:

    fit  (x, y, weight, r_1, c_1, b_1, bias_1, r_2, …) ↦ loss, and if wanted its gradients

with loss = Σ_n weight_n |F(x_n) - y_n|². Derivatives in anything but the weights, second
derivatives and other platforms fall back on `_composed`, the same loss layer by layer.
"""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.custom_derivatives import SymbolicZero
from jax.interpreters import ad
from jaxtyping import Array, Float

from kandle.bases import Basis, BSpline
from kandle.kernels import _library
from kandle.kernels._families import global_attributes, is_global, is_local, spline_attributes
from kandle.kernels._layers import Layers, Weights, flat_weights
from kandle.kernels._models import define, lower, n_models
from kandle.kernels._residual import Residual
from kandle.kernels._trilinear import _call


def accepts(
    widths: Sequence[int], bases: Sequence[Basis], residuals: Sequence[Residual | None], dtype
) -> bool:
    """Whether there is one native call for networks of these layers."""
    if len({is_local(basis) for basis in bases}) > 1:
        return False
    shapes = zip(bases, residuals, widths[:-1], widths[1:], strict=True)
    return all(_accepts_layer(*shape, dtype) for shape in shapes)


def _accepts_layer(basis: Basis, residual: Residual | None, n_in: int, n_out: int, dtype) -> bool:
    if residual not in (None, jax.nn.silu):
        return False
    if isinstance(basis, BSpline) and is_local(basis):
        return _library.fits_layer(np.dtype(dtype), basis.grid, basis.degree, n_in, n_out)
    return is_global(basis) and _library.fits_global(np.dtype(dtype), basis.n_basis, n_in, n_out)


def squared_error(
    x: Float[Array, "N n_in"],
    y: Float[Array, "N n_out"],
    weight: Float[Array, " N"],
    weights: Sequence[Weights],
    *,
    bases: Sequence[Basis],
    residuals: Sequence[Residual | None],
) -> Float[Array, ""]:
    """Σ_n weight_n |F(x_n) - y_n|² of a network that `accepts` confirmed."""
    operands = (x, y, weight, *flat_weights(weights))
    return _loss(Layers.of(bases, residuals), *(operand[None] for operand in operands))[0]


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _loss(layers: Layers, *operands: Array) -> Float[Array, " P"]:
    return fit_p.bind(*operands, layers=layers, want_w=False)[0]


def _loss_jvp(layers, primals, tangents):
    moved = [not isinstance(tangent, SymbolicZero) for tangent in tangents]
    if any(moved[:3]):  # x, y or weight
        directions = tuple(
            tangent if moves else jnp.zeros_like(primal)
            for primal, tangent, moves in zip(primals, tangents, moved, strict=True)
        )
        return jax.jvp(functools.partial(_composed_loss, layers), primals, directions)
    loss, *gradients = fit_p.bind(*primals, layers=layers, want_w=True)
    change = jnp.zeros_like(loss)
    for gradient, tangent, moves in zip(gradients, tangents[3:], moved[3:], strict=True):
        if moves:
            change += jnp.sum(gradient * tangent, axis=tuple(range(1, gradient.ndim)))
    return loss, change


_loss.defjvp(_loss_jvp, symbolic_zeros=True)


# ---- the primitive -----------------------------------------------------------------------------


def _shape(x, y, weight, *weights, layers, want_w):
    models = n_models((x, y, weight, *weights))
    shapes = [(), *(w.shape[1:] for w in weights)] if want_w else [()]
    return [ShapedArray((models, *shape), x.dtype) for shape in shapes]


def _composed_loss(layers: Layers, x, y, weight, *weights):
    return jnp.sum(weight[..., None] * (layers.through(x, weights) - y) ** 2, axis=(1, 2))


def _composed(*operands, layers, want_w):
    models = n_models(operands)
    spread = [jnp.broadcast_to(o, (models, *o.shape[1:])) for o in operands]
    loss = functools.partial(_composed_loss, layers, *spread[:3])
    if not want_w:
        return [loss(*spread[3:])]
    value, pullback = jax.vjp(loss, *spread[3:])
    return [value, *pullback(jnp.ones_like(value))]


def _jvp(primals, tangents, **params):
    tangents = tuple(ad.instantiate_zeros(t) for t in tangents)
    _, change = jax.jvp(functools.partial(_composed, **params), tuple(primals), tangents)
    return fit_p.bind(*primals, **params), change


def _native(ctx, *operands, layers, want_w):
    local = is_local(layers.bases[0])
    described = [
        _describe_spline(basis) if local else global_attributes(basis) for basis in layers.bases
    ]
    described = [{**of, "residual": r} for of, r in zip(described, layers.residual, strict=True)]
    attributes = {name: _per_layer([of[name] for of in described]) for name in described[0]}
    handler = "fit" if local else "fit_global"
    return _call(handler, ctx.avals_in[0].dtype, ctx, operands, **attributes)


def _describe_spline(basis: Basis) -> dict:
    """The attributes of a spline basis without its degree, which is three."""
    assert isinstance(basis, BSpline)
    return {name: value for name, value in spline_attributes(basis).items() if name != "degree"}


def _per_layer(values: list) -> np.ndarray:
    return np.array(values, np.float64 if isinstance(values[0], float) else np.int64)


fit_p = define("kandle_fit", abstract=_shape, multiple_results=True)
ad.primitive_jvps[fit_p] = _jvp
lower(fit_p, anywhere=_composed, cpu=_native)
