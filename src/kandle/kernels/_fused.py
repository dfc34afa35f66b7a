"""The fused layer: one primitive for the whole forward value, one for all of its gradients.

Three primitives, over arrays that lead with a model axis:

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

from kandle.kernels import _dense, _library
from kandle.kernels._families import global_attributes, is_local, spline_attributes
from kandle.kernels._models import define, lower, n_models, no_tangent, sum_to
from kandle.kernels._residual import residual_derivatives
from kandle.kernels._trilinear import _call, spline_sum


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
        y = spline_sum(value, a, w, basis=basis, order=order)
        return y + jnp.matmul(R[order] * a, jnp.swapaxes(r, 1, 2)) if residual else y

    along = [x[:, 1 + d] for d in range(first)]
    bent = [x[:, 1 + first + d] for d in range(second)]
    parts = [term(0, jnp.ones_like(value)) + bias[:, None, :]]
    parts += [term(1, d) for d in along]
    parts += [term(2, along[d] ** 2) + term(1, bent[d]) for d in range(second)]
    models = n_models((x, r, c, b, bias))
    return jnp.stack([jnp.broadcast_to(y, (models, *y.shape[1:])) for y in parts], axis=1)


def _composed_dense(operands, *, basis, first, second, residual):
    def jet(x, r, c, b, bias):
        weights = (r, c, b, bias) if residual else (None, c, b, bias)
        counts = {"first": first, "second": second, "basis": basis}
        return _dense.jet(x, *weights, residual=jax.nn.silu if residual else None, **counts)

    models = n_models(operands)
    own = [operand.shape[0] == models for operand in operands]
    if models == 1:  # no batch axis: with one, XLA's products on a CPU miss its fast routines
        return jet(*(operand[0] for operand in operands))[None]
    axes = tuple(0 if batched else None for batched in own)
    flat = [x if batched else x[0] for x, batched in zip(operands, own, strict=True)]
    return jax.vmap(jet, in_axes=axes)(*flat)


def _attributes(basis, first, second, residual) -> dict:
    described = spline_attributes(basis) if is_local(basis) else global_attributes(basis)
    return {
        **described,
        "first": np.int64(first),
        "second": np.int64(second),
        "residual": bool(residual),
    }


# ---- jet ---------------------------------------------------------------------------------------


def _jet_shape(x, r, c, b, bias, *, basis, first, second, residual):
    _, components, n, _ = x.shape
    return ShapedArray((n_models((x, r, c, b, bias)), components, n, c.shape[1]), x.dtype)


def _jet_jvp(primals, tangents, **params):
    y = jet_p.bind(*primals, **params)
    want_x = not isinstance(tangents[0], ad.Zero)
    want_w = not all(isinstance(t, ad.Zero) for t in tangents[1:])
    if not want_x and not want_w:
        return y, no_tangent(y)
    linear = [tangents[0]] * want_x + [ad.instantiate_zeros(t) for t in tangents[1:]] * want_w
    # bias enters no derivative, but its model axis counts: it goes along as a primal.
    dy = tangent_p.bind(*primals, *linear, want_x=want_x, want_w=want_w, **params)
    return y, dy


jet_p = define("kandle_jet", abstract=_jet_shape)
ad.primitive_jvps[jet_p] = _jet_jvp


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
    results: list[jax.Array | None] = [None] * (5 + len(linear))
    if isinstance(cotangent, ad.Zero):
        return results
    unknown = [ad.is_undefined_primal(t) for t in linear]
    need_x = want_x and unknown[0]
    need_w = want_w and any(unknown[want_x:])
    gradients = list(backward_p.bind(x, r, c, b, cotangent, want_x=need_x, want_w=need_w, **params))
    if want_x and not need_x:
        gradients.insert(0, None)
    if want_w and not need_w:
        gradients += [None] * 4
    for position, (gradient, operand) in enumerate(zip(gradients, linear, strict=True)):
        if ad.is_undefined_primal(operand) and gradient is not None:
            results[5 + position] = sum_to(gradient, operand.aval)
    return results


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
    primals = [x, r, c, b, jnp.zeros((1, c.shape[1]), x.dtype)]
    primals = [jnp.broadcast_to(p, (models, *p.shape[1:])) for p in primals]
    _, pullback = jax.vjp(functools.partial(_composed, **params), *primals)
    dx, *dw = pullback(jnp.broadcast_to(g, (models, *g.shape[1:])))
    return [dx] * want_x + dw * want_w


backward_p = define("kandle_jet_backward", abstract=_backward_shape, multiple_results=True)
ad.primitive_jvps[backward_p] = functools.partial(_fallback_jvp(_backward_composed), backward_p)


# ---- lowering ----------------------------------------------------------------------------------


def _has_fused(basis, first, second) -> bool:
    # Bases without local support have the kernels that cubics have.
    return _library.has_fused_jet(basis.degree if is_local(basis) else 3, first, second)


def _handler(basis, name: str) -> str:
    return f"jet_{name}" if is_local(basis) else f"global_{name}"


def _jet_native(ctx, *operands, basis, first, second, residual):
    if not _has_fused(basis, first, second):
        lowered = mlir.lower_fun(_composed, multiple_results=False)
        return lowered(ctx, *operands, basis=basis, first=first, second=second, residual=residual)
    attributes = _attributes(basis, first, second, residual)
    return _call(_handler(basis, "forward"), ctx.avals_in[0].dtype, ctx, operands, **attributes)


def _backward_native(ctx, *operands, want_x, want_w, basis, first, second, residual):
    params = {"basis": basis, "first": first, "second": second, "residual": residual}
    if not _has_fused(basis, first, second):
        lowered = mlir.lower_fun(_backward_composed, multiple_results=True)
        return lowered(ctx, *operands, want_x=want_x, want_w=want_w, **params)
    handler = _handler(basis, "backward_" + "x" * want_x + "w" * want_w)
    return _call(handler, ctx.avals_in[0].dtype, ctx, operands, **_attributes(**params))


lower(jet_p, anywhere=_composed, cpu=_jet_native)
lower(backward_p, anywhere=_backward_composed, cpu=_backward_native)
