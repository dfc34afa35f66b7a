"""A whole network in one native call: its values, and its squared error with the gradient.

Two primitives, over arrays that lead with a model axis:

    network  (x, r_1, c_1, b_1, bias_1, r_2, …) ↦ F(x)
    fit      (x, y, weight, r_1, c_1, b_1, bias_1, r_2, …) ↦ loss, and if wanted its gradients

with loss = Σ_n weight_n |F(x_n) - y_n|². `kandle._route` says which networks have them; calling
their layers one by one, as `_one_by_one` does, gives the same numbers. That is what other platforms
run, and what all derivatives are taken of but those of the loss in the weights, which `fit` gives.

Where a call has few rows, dispatching each layer takes longer than the kernels do: one call for all
of them saves that.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.custom_derivatives import SymbolicZero
from jax.interpreters import ad
from jaxtyping import Array, Float

from kandle._route import LayerSpec, is_local
from kandle.kernels._native import jet_p
from kandle.kernels._primitive import (
    basis_attributes,
    define,
    lower,
    n_models,
    native_call,
    no_tangent,
)

Specs = tuple[LayerSpec, ...]


class Weights(NamedTuple):
    """The weights of a layer; one without a residual function or a bias has None for them."""

    r: Float[Array, "n_out n_in"] | None
    c: Float[Array, "n_out n_in"]
    b: Float[Array, "n_out n_in n_basis"]
    bias: Float[Array, " n_out"] | None


def values(
    x: Float[Array, "N n_in"], layers: Sequence[LayerSpec], weights: Sequence[Weights]
) -> Float[Array, "N n_out"]:
    """F(x) of a network without an `evaluation_obstacle`."""
    operands = (operand[None] for operand in (x, *_flat(weights)))
    return network_p.bind(*operands, layers=tuple(layers))[0]


def squared_error(
    x: Float[Array, "N n_in"],
    y: Float[Array, "N n_out"],
    weight: Float[Array, " N"],
    layers: Sequence[LayerSpec],
    weights: Sequence[Weights],
) -> Float[Array, ""]:
    """Σ_n weight_n |F(x_n) - y_n|² of a network without a `squared_error_obstacle`."""
    operands = (operand[None] for operand in (x, y, weight, *_flat(weights)))
    return _loss(tuple(layers), *operands)[0]


def _flat(weights: Sequence[Weights]) -> list[Array]:
    """r, c, b, bias of every layer, one after the other, with zeros for what is missing."""
    flat = []
    for r, c, b, bias in weights:
        shift = jnp.zeros(c.shape[0], c.dtype) if bias is None else bias
        flat += [jnp.zeros_like(c) if r is None else r, c, b, shift]
    return flat


def _one_by_one(x, weights, layers: Specs):
    """F(x), (P, N, n_in) -> (P, N, n_out), from one call per layer."""
    h = x[:, None]
    for i, spec in enumerate(layers):
        r, c, b, bias = weights[4 * i : 4 * i + 4]
        residual = spec.residual is not None
        h = jet_p.bind(h, r, c, b, bias, basis=spec.basis, first=0, second=0, residual=residual)
    return h[:, 0]


# ---- values --------------------------------------------------------------------------------------


def _network_shape(x, *weights, layers):
    return ShapedArray((n_models((x, *weights)), x.shape[1], weights[-1].shape[1]), x.dtype)


def _network_composed(x, *weights, layers: Specs):
    y = _one_by_one(x, weights, layers)
    return jnp.broadcast_to(y, (n_models((x, *weights)), *y.shape[1:]))


def _network_jvp(primals, tangents, *, layers):
    # Only operands that move are differentiated: the others would get a gradient for nothing.
    moved = [i for i, tangent in enumerate(tangents) if not isinstance(tangent, ad.Zero)]
    if not moved:
        y = network_p.bind(*primals, layers=layers)
        return y, no_tangent(y)

    def along(*moving):
        operands = list(primals)
        for i, operand in zip(moved, moving, strict=True):
            operands[i] = operand
        return _network_composed(*operands, layers=layers)

    return jax.jvp(along, [primals[i] for i in moved], [tangents[i] for i in moved])


def _network_native(ctx, *operands, layers: Specs):
    return native_call("network", ctx, operands, **_attributes(layers))


def _attributes(layers: Specs) -> dict[str, np.ndarray]:
    """What describes the bases and residual functions of all layers, each as one array."""
    described = []
    for spec in layers:
        residual = np.int64(spec.residual is not None)
        described.append({**basis_attributes(spec.basis), "residual": residual})
    attributes = {}
    for name, first in described[0].items():
        dtype = np.float64 if isinstance(first, float) else np.int64  # flags are integers here
        attributes[name] = np.array([of[name] for of in described], dtype)
    return attributes


network_p = define("kandle_network", abstract=_network_shape)
ad.primitive_jvps[network_p] = _network_jvp
lower(network_p, anywhere=_network_composed, cpu=_network_native)


# ---- squared error -------------------------------------------------------------------------------


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _loss(layers: Specs, *operands: Array) -> Float[Array, " P"]:
    return fit_p.bind(*operands, layers=layers, want_w=False)[0]


def _loss_jvp(layers, primals, tangents):
    moved = [not isinstance(tangent, SymbolicZero) for tangent in tangents]
    if any(moved[:3]):  # x, y or weight, in which the call has no gradient
        directions = tuple(
            tangent if moves else jnp.zeros_like(primal)
            for primal, tangent, moves in zip(primals, tangents, moved, strict=True)
        )
        return jax.jvp(functools.partial(_composed_loss, layers), primals, directions)
    # The call has the gradients already, in forward mode too; JAX transposes these products when it
    # wants the gradient, and they become multiplications with its cotangent.
    loss, *gradients = fit_p.bind(*primals, layers=layers, want_w=True)
    change = jnp.zeros_like(loss)
    for gradient, tangent, moves in zip(gradients, tangents[3:], moved[3:], strict=True):
        if moves:
            change += jnp.sum(gradient * tangent, axis=tuple(range(1, gradient.ndim)))
    return loss, change


_loss.defjvp(_loss_jvp, symbolic_zeros=True)


def _composed_loss(layers: Specs, x, y, weight, *weights):
    error = _one_by_one(x, weights, layers) - y
    return jnp.sum(weight[..., None] * error**2, axis=(1, 2))


def _fit_shape(x, y, weight, *weights, layers, want_w):
    models = n_models((x, y, weight, *weights))
    shapes = [(), *(w.shape[1:] for w in weights)] if want_w else [()]
    return [ShapedArray((models, *shape), x.dtype) for shape in shapes]


def _fit_composed(*operands, layers, want_w):
    models = n_models(operands)
    # Every model has gradients of its own, also in operands that it shares.
    spread = [jnp.broadcast_to(o, (models, *o.shape[1:])) for o in operands]
    loss = functools.partial(_composed_loss, layers, *spread[:3])
    if not want_w:
        return [loss(*spread[3:])]
    value, pullback = jax.vjp(loss, *spread[3:])
    return [value, *pullback(jnp.ones_like(value))]


def _fit_jvp(primals, tangents, **params):
    tangents = tuple(ad.instantiate_zeros(t) for t in tangents)
    _, change = jax.jvp(functools.partial(_fit_composed, **params), tuple(primals), tangents)
    return fit_p.bind(*primals, **params), change


def _fit_native(ctx, *operands, layers: Specs, want_w):
    attributes = _attributes(layers)
    if is_local(layers[0].basis):
        del attributes["degree"]  # three, always
        return native_call("fit", ctx, operands, **attributes)
    return native_call("fit_global", ctx, operands, **attributes)


fit_p = define("kandle_fit", abstract=_fit_shape, multiple_results=True)
ad.primitive_jvps[fit_p] = _fit_jvp
lower(fit_p, anywhere=_fit_composed, cpu=_fit_native)
