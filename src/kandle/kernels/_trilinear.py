"""The general operations that all derivatives of a layer are made of.

The trilinear form

    F = Σ_n Σ_i Σ_m Σ_o a[n,i] · w[i,m,o] · g[n,o] · B_m^{(ν)}(x[n,i])

has three partial derivatives, named here by the operand they differentiate in: `g` (a, w ↦ y), `a`
(w, g ↦ a) and `w` (a, g ↦ w). They are closed under differentiation: the derivative in x is the
same operation at ν + 1 with a·dx for a, and each transpose is another of the three. The pair form

    S = Σ_n Σ_i Σ_m a[n,i] · w[i,m] · B_m^{(ν)}(x[n,i]) · B_m^{(μ)}(x[n,i])

(μ = -1: the second factor is 1) does the same for the basis' batch statistics. All arrays lead with
a model axis.
"""

import functools

import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.interpreters import ad, batching

from kandle.bases import BSpline
from kandle.bases._jax import evaluate
from kandle.kernels._primitive import (
    basis_attributes,
    define,
    lower,
    n_models,
    native_call,
    no_tangent,
    sum_to,
)

_ROLES = ("a", "w", "g")


# ---- the trilinear form ------------------------------------------------------------------------


def _others(mode: str) -> tuple[str, str]:
    first, second = (role for role in _ROLES if role != mode)
    return first, second


def _trilinear_shape(mode, x, p, q, *, basis, order):
    models, (_, n, n_in) = n_models((x, p, q)), x.shape
    operands = dict(zip(_others(mode), (p, q), strict=True))
    n_out = operands["w" if mode == "g" else "g"].shape[-1]
    shapes = {"g": (n, n_out), "a": (n, n_in), "w": (n_in, basis.n_basis, n_out)}
    return ShapedArray((models, *shapes[mode]), x.dtype)


def _trilinear_dense(mode, x, p, q, *, basis, order):
    values = evaluate(x, basis, order)  # (P, N, n_in, n_basis)
    operands = dict(zip(_others(mode), (p, q), strict=True))
    models = n_models((x, p, q))
    spread = {k: jnp.broadcast_to(v, (models, *v.shape[1:])) for k, v in operands.items()}
    values = jnp.broadcast_to(values, (models, *values.shape[1:]))
    labels = {"a": "pni", "w": "pimo", "g": "pno"}
    inputs = ",".join(labels[role] for role in _others(mode))
    return jnp.einsum(
        f"pnim,{inputs}->{labels[mode]}", values, *(spread[role] for role in _others(mode))
    )


def _trilinear_native(mode, ctx, *operands, basis, order):
    handler = {"g": "trilinear_y", "a": "trilinear_a", "w": "trilinear_w"}[mode]
    return native_call(handler, ctx, operands, **basis_attributes(basis), order=np.int64(order))


def _trilinear_jvp(mode, primals, tangents, *, basis, order):
    x, p, q = primals
    x_dot, p_dot, q_dot = tangents
    bind = functools.partial(_TRILINEAR[mode].bind, basis=basis)
    terms = []
    if not isinstance(p_dot, ad.Zero):
        terms.append(bind(x, p_dot, q, order=order))
    if not isinstance(q_dot, ad.Zero):
        terms.append(bind(x, p, q_dot, order=order))
    if not isinstance(x_dot, ad.Zero) and order < basis.degree:
        if mode == "a":
            terms.append(x_dot * bind(x, p, q, order=order + 1))
        else:  # a is the first operand of both other modes
            terms.append(bind(x, p * x_dot, q, order=order + 1))
    value = bind(x, p, q, order=order)
    if not terms:
        return value, no_tangent(value)
    return value, functools.reduce(jnp.add, terms)


def _trilinear_transpose(mode, cotangent, x, p, q, *, basis, order):
    if isinstance(cotangent, ad.Zero):
        return None, None, None
    roles = _others(mode)
    unknown = 0 if ad.is_undefined_primal(p) else 1
    target = roles[unknown]
    known = {roles[1 - unknown]: (p, q)[1 - unknown], mode: cotangent}
    operands = [known[role] for role in _others(target)]
    result = _TRILINEAR[target].bind(x, *operands, basis=basis, order=order)
    result = sum_to(result, (p, q)[unknown].aval)
    return (None, result, None) if unknown == 0 else (None, None, result)


_TRILINEAR = {
    mode: define(f"kandle_trilinear_{mode}", abstract=functools.partial(_trilinear_shape, mode))
    for mode in _ROLES
}
for _mode, _primitive in _TRILINEAR.items():
    lower(
        _primitive,
        anywhere=functools.partial(_trilinear_dense, _mode),
        cpu=functools.partial(_trilinear_native, _mode),
    )
    ad.primitive_jvps[_primitive] = functools.partial(_trilinear_jvp, _mode)
    ad.primitive_transposes[_primitive] = functools.partial(_trilinear_transpose, _mode)


def spline_sum(x, a, w, *, basis: BSpline, order: int):
    """y[n,o] = Σ_i Σ_m a[n,i] B_m^{(ν)}(x[n,i]) w[i,m,o].

    x and a are (P, N, n_in), w is (P, n_in, M, n_out), y is (P, N, n_out).
    """
    if order > basis.degree:  # zero, or NaN where x is not finite
        nothing = jnp.sum(0.0 * x * a, axis=-1, keepdims=True)
        return jnp.broadcast_to(nothing, (n_models((x, a, w)), x.shape[1], w.shape[-1]))
    return _TRILINEAR["g"].bind(x, a, w, basis=basis, order=order)


# ---- the pair form -----------------------------------------------------------------------------


def _pair_shape(mode, x, p, *, basis, order, other):
    _, n, n_in = x.shape
    shape = (n, n_in) if mode == "a" else (n_in, basis.n_basis)
    return ShapedArray((n_models((x, p)), *shape), x.dtype)


def _pair_dense(mode, x, p, *, basis, order, other):
    values = evaluate(x, basis, order)
    if other >= 0:
        values = values * evaluate(x, basis, other)
    models = n_models((x, p))
    values = jnp.broadcast_to(values, (models, *values.shape[1:]))
    p = jnp.broadcast_to(p, (models, *p.shape[1:]))
    return jnp.einsum("pnim,pim->pni" if mode == "a" else "pnim,pni->pim", values, p)


def _pair_native(mode, ctx, *operands, basis, order, other):
    orders = {"order": np.int64(order), "other": np.int64(other)}
    return native_call(f"pair_{mode}", ctx, operands, **basis_attributes(basis), **orders)


def _pair_jvp(mode, primals, tangents, *, basis, order, other):
    (x, p), (x_dot, p_dot) = primals, tangents
    bind = functools.partial(_PAIR[mode].bind, basis=basis)
    terms = []
    if not isinstance(p_dot, ad.Zero):
        terms.append(bind(x, p_dot, order=order, other=other))
    if not isinstance(x_dot, ad.Zero):
        raised = [(order + 1, other)] + ([(order, other + 1)] if other >= 0 else [])
        if order == other:  # the derivative of a square: both terms are one
            raised, x_dot = raised[:1], 2 * x_dot
        for first, second in raised:
            if max(first, second) > basis.degree:
                continue
            if mode == "a":
                terms.append(x_dot * bind(x, p, order=first, other=second))
            else:
                terms.append(bind(x, p * x_dot, order=first, other=second))
    value = bind(x, p, order=order, other=other)
    if not terms:
        return value, no_tangent(value)
    return value, functools.reduce(jnp.add, terms)


def _pair_transpose(mode, cotangent, x, p, *, basis, order, other):
    if isinstance(cotangent, ad.Zero):
        return None, None
    transposed = _PAIR["w" if mode == "a" else "a"]
    result = transposed.bind(x, cotangent, basis=basis, order=order, other=other)
    return None, sum_to(result, p.aval)


_PAIR = {
    mode: define(f"kandle_pair_{mode}", abstract=functools.partial(_pair_shape, mode))
    for mode in ("a", "w")
}
for _mode, _primitive in _PAIR.items():
    lower(
        _primitive,
        anywhere=functools.partial(_pair_dense, _mode),
        cpu=functools.partial(_pair_native, _mode),
    )
    ad.primitive_jvps[_primitive] = functools.partial(_pair_jvp, _mode)
    ad.primitive_transposes[_primitive] = functools.partial(_pair_transpose, _mode)


def basis_sums(x, *, basis: BSpline):
    """Σ_n B_m(x[n,i]) and Σ_n B_m(x[n,i])², each (P, n_in, n_basis), of x (P, N, n_in)."""
    ones = jnp.ones_like(x)
    return tuple(_PAIR["w"].bind(x, ones, basis=basis, order=0, other=other) for other in (-1, 0))


# ---- sums --------------------------------------------------------------------------------------


def _total_batch(operands, dims):
    (x,), (dim,) = operands, dims
    x = jnp.moveaxis(x, dim, 0)
    size, rows, n = x.shape
    return _total_p.bind(x.reshape(size * rows, n)).reshape(size, rows), 0


# Rows are summed one by one, so the leading axis is the model axis of the others in all but name.
_total_p = define("kandle_total", abstract=lambda x: ShapedArray(x.shape[:1], x.dtype))
lower(
    _total_p,
    anywhere=lambda x: jnp.sum(x, axis=-1),
    cpu=lambda ctx, x: native_call("total", ctx, (x,)),
)
batching.primitive_batchers[_total_p] = _total_batch
ad.deflinear2(_total_p, lambda ct, x: [jnp.broadcast_to(jnp.asarray(ct)[:, None], x.aval.shape)])


def row_sums(x):
    """Σ_n x[p,n], (P, N) -> (P,), each row in an order that depends on N alone."""
    return _total_p.bind(x)
