"""Layers in C++ through the FFI: the backend's functions, and the primitives that they bind.

Of uniform B-splines only the k + 1 functions that are not zero are computed; of Chebyshev, Legendre
and Fourier bases and Gaussians all are, block by block, so that no table leaves the caches.

Three primitives make up a layer, over arrays that lead with a model axis:

    jet       (x, r, c, b, bias) ↦ y                       the layer, with its derivative components
    tangent   (x, r, c, b; dx, dr, dc, db, dbias) ↦ dy     linear in the second group
    backward  (x, r, c, b, g) ↦ (dx, dr, dc, db, dbias)    the transpose of `tangent`

`jet` and `backward` are single native calls. Everything else (forward mode, derivatives of
derivatives, platforms other than the CPU) falls back on `_composed`, the same layer written with
the general operations or, of a basis without local support, that of the `dense` backend.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.interpreters import ad, mlir
from jaxtyping import Array, Float

from kandle._route import is_local, jet_obstacle
from kandle.bases import Basis, BSpline
from kandle.kernels import _dense
from kandle.kernels._primitive import (
    basis_attributes,
    define,
    lower,
    n_models,
    native_call,
    no_tangent,
    sum_to,
)
from kandle.kernels._residual import Residual, residual_derivatives
from kandle.kernels._trilinear import basis_sums, row_sums, spline_sum

_DTYPES = ("float32", "float64")


def layer(x, r, c, b, bias, *, basis: Basis, residual: Residual | None) -> Array:
    """y_j = Σ_i [ r_ji R(x_i) + c_ji Σ_m b_jim B_m(x_i) ] + bias_j."""
    return jet(x[None], r, c, b, bias, first=0, second=0, basis=basis, residual=residual)[0]


def jet(
    x: Float[Array, "C N n_in"],
    r: Float[Array, "n_out n_in"] | None,
    c: Float[Array, "n_out n_in"],
    b: Float[Array, "n_out n_in n_basis"],
    bias: Float[Array, " n_out"] | None,
    *,
    first: int,
    second: int,
    basis: Basis,
    residual: Residual | None,
) -> Float[Array, "C N n_out"]:
    """(x, x_d, x_dd) -> (y, y_d, y_dd) in one call.

    SiLU is part of that call; any other residual function is added by JAX, which sums it to the
    same value but in an order of its own.
    """
    counts = {"first": first, "second": second, "basis": basis}
    if x.dtype.name not in _DTYPES:
        return _dense.jet(x, r, c, b, bias, residual=residual, **counts)
    fused = residual is jax.nn.silu
    weights = r if fused and r is not None else jnp.zeros_like(c)
    shift = jnp.zeros(c.shape[0], c.dtype) if bias is None else bias
    operands = (operand[None] for operand in (x, weights, c, b, shift))
    y = jet_p.bind(*operands, residual=fused, **counts)[0]
    if residual is None or fused:
        return y
    none = jnp.zeros((*c.shape, basis.n_basis), c.dtype)
    return y + _dense.jet(x, r, c, none, None, residual=residual, **counts)


def statistics(
    x: Float[Array, "N n_in"], *, basis: Basis
) -> tuple[Float[Array, "n_in n_basis"], Float[Array, "n_in n_basis"]]:
    """Mean and population variance over the batch of every B_m(x_i)."""
    if x.dtype.name not in _DTYPES or not isinstance(basis, BSpline):
        return _dense.statistics(x, basis=basis)
    first, second = (sums[0] / len(x) for sums in basis_sums(x[None], basis=basis))
    # Rounding can leave a function that is constant over the batch just below zero.
    return first, jnp.maximum(second - first**2, 0.0)


def total(x: Float[Array, "... N"]) -> Float[Array, "..."]:
    """Σ_n x_n over the last axis, in an order that depends on N alone."""
    if x.dtype.name not in _DTYPES:
        return _dense.total(x)
    return row_sums(x.reshape(-1, x.shape[-1])).reshape(x.shape[:-1])


# ---- the layer from differentiable operations ----------------------------------------------------


def _composed(x, r, c, b, bias, *, basis, first, second, residual):
    """(P, C, N, n_in) -> (P, C, N, n_out), from differentiable pieces."""
    if not is_local(basis):
        counts = {"first": first, "second": second, "residual": residual}
        return _composed_dense((x, r, c, b, bias), basis=basis, **counts)
    value = x[:, 0]
    w = jnp.transpose(c[..., None] * b, (0, 2, 3, 1))  # (P, n_in, M, n_out)
    count = 1 + (first > 0) + (second > 0)
    R = residual_derivatives(jax.nn.silu, value, count) if residual else ()

    def term(order, a):
        """Σ_i φ_ji⁽ᵛ⁾(x_i) a_i, without the bias."""
        y = spline_sum(value, a, w, basis=basis, order=order)
        return y + jnp.matmul(R[order] * a, jnp.swapaxes(r, 1, 2)) if residual else y

    # The components of x: its value, first derivatives ("along"), then second ones ("bent").
    along = [x[:, 1 + d] for d in range(first)]
    bent = [x[:, 1 + first + d] for d in range(second)]
    parts = [term(0, jnp.ones_like(value)) + bias[:, None, :]]
    parts += [term(1, d) for d in along]
    parts += [term(2, along[d] ** 2) + term(1, bent[d]) for d in range(second)]
    models = n_models((x, r, c, b, bias))
    return jnp.stack([jnp.broadcast_to(y, (models, *y.shape[1:])) for y in parts], axis=1)


def _composed_dense(operands, *, basis, first, second, residual):
    """`_composed` for a basis without local support: the `dense` backend, model by model."""

    def jet(x, r, c, b, bias):
        weights = (r, c, b, bias) if residual else (None, c, b, bias)
        counts = {"first": first, "second": second, "basis": basis}
        return _dense.jet(x, *weights, residual=jax.nn.silu if residual else None, **counts)

    models = n_models(operands)
    if models == 1:  # no batch axis: with one, XLA's products on a CPU miss its fast routines
        return jet(*(operand[0] for operand in operands))[None]
    differs = [operand.shape[0] == models for operand in operands]
    axes = tuple(0 if batched else None for batched in differs)
    flat = [x if batched else x[0] for x, batched in zip(operands, differs, strict=True)]
    return jax.vmap(jet, in_axes=axes)(*flat)


# ---- jet ---------------------------------------------------------------------------------------


def _jet_shape(x, r, c, b, bias, *, basis, first, second, residual):
    _, components, n, _ = x.shape
    return ShapedArray((n_models((x, r, c, b, bias)), components, n, c.shape[1]), x.dtype)


def _jet_jvp(primals, tangents, **params):
    y = jet_p.bind(*primals, **params)
    want_x = not isinstance(tangents[0], ad.Zero)
    # The gradients of all weights come from one call: if one of them is wanted, so are the others.
    want_w = not all(isinstance(t, ad.Zero) for t in tangents[1:])
    if not want_x and not want_w:
        return y, no_tangent(y)
    linear = [tangents[0]] * want_x + [ad.instantiate_zeros(t) for t in tangents[1:]] * want_w
    # bias enters no derivative, but its model axis counts: it goes along as a primal.
    dy = tangent_p.bind(*primals, *linear, want_x=want_x, want_w=want_w, **params)
    return y, dy


def _jet_native(ctx, *operands, basis, first, second, residual):
    params = {"basis": basis, "first": first, "second": second, "residual": residual}
    if jet_obstacle(basis, first, second) is not None:
        return mlir.lower_fun(_composed, multiple_results=False)(ctx, *operands, **params)
    return native_call(f"{_kind(basis)}_forward", ctx, operands, **_attributes(**params))


def _kind(basis: Basis) -> str:
    """What the names of a basis' handlers begin with."""
    return "jet" if is_local(basis) else "global"


def _attributes(basis, first, second, residual) -> dict:
    return {
        **basis_attributes(basis),
        "first": np.int64(first),
        "second": np.int64(second),
        "residual": bool(residual),
    }


jet_p = define("kandle_jet", abstract=_jet_shape)
ad.primitive_jvps[jet_p] = _jet_jvp
lower(jet_p, anywhere=_composed, cpu=_jet_native)


# ---- tangent -----------------------------------------------------------------------------------


def _tangent_shape(x, r, c, b, bias, *linear, want_x, want_w, **params):
    y = _jet_shape(x, r, c, b, bias, **params)
    return y.update(shape=(n_models((y, *linear)), *y.shape[1:]))


def _tangent_composed(x, r, c, b, bias, *linear, want_x, want_w, **params):
    primals = (x, r, c, b, bias)
    dx = linear[0] if want_x else jnp.zeros_like(x)
    weights = linear[want_x:] if want_w else [jnp.zeros_like(p) for p in primals[1:]]
    # A Jacobian has many directions at one point: either of a pair may be the shared one.
    pairs = [jnp.broadcast_arrays(*pair) for pair in zip(primals, (dx, *weights), strict=True)]
    spread, directions = zip(*pairs, strict=True)
    return jax.jvp(functools.partial(_composed, **params), spread, directions)[1]


def _fallback_jvp(composed):
    """The rule for a primitive that is differentiated through its composed form."""

    def rule(primitive, primals, tangents, **params):
        value = primitive.bind(*primals, **params)
        tangents = [ad.instantiate_zeros(t) for t in tangents]
        function = functools.partial(composed, **params)
        return value, jax.jvp(function, tuple(primals), tuple(tangents))[1]

    return rule


def _tangent_transpose(cotangent, x, r, c, b, bias, *linear, want_x, want_w, **params):
    # The operands are five primals, in which the map is not linear and which have no cotangent,
    # then dx if `want_x`, then dr, dc, db and dbias if `want_w`. JAX asks for the cotangents of
    # those that it does not know: of dx, of the other four, or of all.
    none_of_primals = [None] * 5
    if isinstance(cotangent, ad.Zero):
        return none_of_primals + [None] * len(linear)
    unknown = [ad.is_undefined_primal(operand) for operand in linear]
    need_x = want_x and unknown[0]
    need_w = want_w and any(unknown[want_x:])
    computed = backward_p.bind(x, r, c, b, cotangent, want_x=need_x, want_w=need_w, **params)
    gradients: list[jax.Array | None] = list(computed)
    if want_x and not need_x:
        gradients = [None, *gradients]
    if want_w and not need_w:
        gradients += [None] * 4
    results: list[jax.Array | None] = []
    for gradient, operand, asked in zip(gradients, linear, unknown, strict=True):
        results.append(sum_to(gradient, operand.aval) if asked else None)
    return none_of_primals + results


tangent_p = define("kandle_jet_tangent", abstract=_tangent_shape)
lower(tangent_p, anywhere=_tangent_composed)
ad.primitive_jvps[tangent_p] = functools.partial(_fallback_jvp(_tangent_composed), tangent_p)
ad.primitive_transposes[tangent_p] = _tangent_transpose


# ---- backward ----------------------------------------------------------------------------------


def _backward_shape(x, r, c, b, g, *, want_x, want_w, basis, first, second, residual):
    models = n_models((x, r, c, b, g))
    shapes = [x.shape] * want_x + [r.shape, c.shape, b.shape, (1, c.shape[1])] * want_w
    return [ShapedArray((models, *shape[1:]), x.dtype) for shape in shapes]


def _backward_composed(x, r, c, b, g, *, want_x, want_w, **params):
    models = n_models((x, r, c, b, g))
    # Every model has gradients of its own, also in operands that it shares: callers add them up.
    primals = [x, r, c, b, jnp.zeros((1, c.shape[1]), x.dtype)]  # no bias enters its gradient
    primals = [jnp.broadcast_to(p, (models, *p.shape[1:])) for p in primals]
    _, pullback = jax.vjp(functools.partial(_composed, **params), *primals)
    dx, *dw = pullback(jnp.broadcast_to(g, (models, *g.shape[1:])))
    return [dx] * want_x + dw * want_w


def _backward_native(ctx, *operands, want_x, want_w, **params):
    if jet_obstacle(params["basis"], params["first"], params["second"]) is not None:
        lowered = mlir.lower_fun(_backward_composed, multiple_results=True)
        return lowered(ctx, *operands, want_x=want_x, want_w=want_w, **params)
    wanted = "x" * want_x + "w" * want_w
    handler = f"{_kind(params['basis'])}_backward_{wanted}"
    return native_call(handler, ctx, operands, **_attributes(**params))


backward_p = define("kandle_jet_backward", abstract=_backward_shape, multiple_results=True)
ad.primitive_jvps[backward_p] = functools.partial(_fallback_jvp(_backward_composed), backward_p)
lower(backward_p, anywhere=_backward_composed, cpu=_backward_native)
