"""The outputs of a whole network of uniform B-splines, as one native call.

One primitive, over arrays that lead with a model axis:

    network  (x, r_1, c_1, b_1, bias_1, r_2, …) ↦ F(x)

Its derivatives, and its value beside them, are those of `_composed`: the layers one by one. What it
saves is the dispatch of every layer but one, which a few rows take longer with than in the kernels.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.interpreters import ad
from jaxtyping import Array, Float

from kandle.bases import Basis, BSpline
from kandle.kernels import _library
from kandle.kernels._families import is_local
from kandle.kernels._fused import jet_p
from kandle.kernels._models import define, lower, n_models, no_tangent
from kandle.kernels._residual import Residual
from kandle.kernels._trilinear import _call

# Threads share the outputs of wider layers, which are called one by one.
_MOST_OUTPUTS = 255


class Layers(NamedTuple):
    """The static part of a network: its bases, and which layers have SiLU as residual function."""

    bases: tuple[BSpline, ...]
    residual: tuple[bool, ...]


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
    weights: Sequence[tuple[Array | None, Array, Array, Array | None]],
    *,
    bases: Sequence[Basis],
    residuals: Sequence[Residual | None],
) -> Float[Array, "N n_out"]:
    """F(x) of a network that `accepts` confirmed, with (r, c, b, bias) of every layer."""
    splines = tuple(basis for basis in bases if isinstance(basis, BSpline))
    layers = Layers(splines, tuple(residual is not None for residual in residuals))
    flat = []
    for r, c, b, bias in weights:
        shift = jnp.zeros(c.shape[0], c.dtype) if bias is None else bias
        flat += [jnp.zeros_like(c) if r is None else r, c, b, shift]
    return network_p.bind(*(operand[None] for operand in (x, *flat)), layers=layers)[0]


def _shape(x, *weights, layers):
    return ShapedArray((n_models((x, *weights)), x.shape[1], weights[-1].shape[1]), x.dtype)


def _composed(x, *weights, layers: Layers):
    h = x[:, None]
    for i, (basis, residual) in enumerate(zip(*layers, strict=True)):
        static = {"basis": basis, "first": 0, "second": 0, "residual": residual}
        h = jet_p.bind(h, *weights[4 * i : 4 * i + 4], **static)
    return jnp.broadcast_to(h[:, 0], (n_models((x, *weights)), *h.shape[2:]))


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
