"""The outputs of a whole network of uniform B-splines, as one native call.

One primitive, over arrays that lead with a model axis:

    network  (x, r_1, c_1, b_1, bias_1, r_2, …) ↦ F(x)

Its derivatives, and its value beside them, are those of `_composed`: the layers one by one. What it
saves is the dispatch of every layer but one, which a few rows take longer with than in the kernels.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.interpreters import ad
from jaxtyping import Array, Float

from kandle.bases import Basis, BSpline
from kandle.kernels import _library
from kandle.kernels._families import is_local
from kandle.kernels._layers import Layers, Weights, flat_weights
from kandle.kernels._models import define, lower, n_models, no_tangent
from kandle.kernels._residual import Residual
from kandle.kernels._trilinear import _call

# Threads share the outputs of wider layers, which are called one by one.
_MOST_OUTPUTS = 255


def accepts(
    widths: Sequence[int], bases: Sequence[Basis], residuals: Sequence[Residual | None], dtype
) -> bool:
    """Whether there is one native call for networks of these layers."""
    return (
        np.dtype(dtype).name in ("float32", "float64")
        and max(widths[1:]) <= _MOST_OUTPUTS
        and all(residual in (None, jax.nn.silu) for residual in residuals)
        and all(_accepts_basis(basis) for basis in bases)
    )


def _accepts_basis(basis: Basis) -> bool:
    if not isinstance(basis, BSpline) or not is_local(basis):
        return False
    return _library.has_fused_jet(basis.degree, 0, 0)


def values(
    x: Float[Array, "N n_in"],
    weights: Sequence[Weights],
    *,
    bases: Sequence[Basis],
    residuals: Sequence[Residual | None],
) -> Float[Array, "N n_out"]:
    """F(x) of a network that `accepts` confirmed, with (r, c, b, bias) of every layer."""
    operands = (operand[None] for operand in (x, *flat_weights(weights)))
    return network_p.bind(*operands, layers=Layers.of(bases, residuals))[0]


def _shape(x, *weights, layers):
    return ShapedArray((n_models((x, *weights)), x.shape[1], weights[-1].shape[1]), x.dtype)


def _composed(x, *weights, layers: Layers):
    y = layers.through(x, weights)
    return jnp.broadcast_to(y, (n_models((x, *weights)), *y.shape[1:]))


def _jvp(primals, tangents, *, layers):
    """The derivative along those operands alone that move: others need no gradient either."""
    moved = [i for i, tangent in enumerate(tangents) if not isinstance(tangent, ad.Zero)]
    if not moved:
        y = network_p.bind(*primals, layers=layers)
        return y, no_tangent(y)

    def along(*moving):
        operands = list(primals)
        for i, operand in zip(moved, moving, strict=True):
            operands[i] = operand
        return _composed(*operands, layers=layers)

    return jax.jvp(along, [primals[i] for i in moved], [tangents[i] for i in moved])


def _native(ctx, *operands, layers):
    domains = [basis.domain for basis in layers.bases]
    attributes = {
        "grid": np.array([basis.grid for basis in layers.bases], np.int64),
        "degree": np.array([basis.degree for basis in layers.bases], np.int64),
        "lo": np.array([lo for lo, _ in domains], np.float64),
        "hi": np.array([hi for _, hi in domains], np.float64),
        "residual": np.array(layers.residual, np.int64),
    }
    return _call("network", ctx.avals_in[0].dtype, ctx, operands, **attributes)


network_p = define("kandle_network", abstract=_shape)
ad.primitive_jvps[network_p] = _jvp
lower(network_p, anywhere=_composed, cpu=_native)
