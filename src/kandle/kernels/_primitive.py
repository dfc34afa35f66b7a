"""Primitives over a leading model axis, and the native calls that compute them on a CPU.

The model axis of an operand is 1, where all models share it, or P. Batching such a primitive folds
the new axis into the model axis: one call serves a whole population, and what is shared is not
copied.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from kandle._compat import typeof
from kandle._errors import UserError
from kandle._route import GLOBAL_FAMILIES, is_local
from kandle.bases import RBF, Basis, BSpline, Chebyshev, Fourier, Legendre
from kandle.kernels import _library


def _common(sizes: Iterable[int]) -> int:
    return next((size for size in sizes if size != 1), 1)


def n_models(operands: Sequence) -> int:
    """P, from operands (or avals) whose leading axes are 1 or P; P may be 0."""
    return _common(operand.shape[0] for operand in operands)


def define(name: str, *, abstract: Callable, multiple_results: bool = False) -> Primitive:
    """A primitive whose operands and results lead with the model axis, with its batching rule."""
    primitive = Primitive(name)
    primitive.multiple_results = multiple_results
    primitive.def_abstract_eval(abstract)

    @functools.cache
    def compiled(params):
        return jax.jit(functools.partial(primitive.bind, **dict(params)))

    # Eager calls compile once per set of parameters, as `jit` would.
    primitive.def_impl(lambda *operands, **params: compiled(tuple(params.items()))(*operands))

    def fold(operands, dims, **params):
        # An operand (size, P, ...) becomes (size · P, ...). One that belongs to all models and all
        # of the new axis keeps its model axis of length 1; others are repeated where they must be.
        size = next(x.shape[d] for x, d in zip(operands, dims, strict=True) if d is not None)
        moved = [
            x if d is None else jnp.moveaxis(x, d, 0) for x, d in zip(operands, dims, strict=True)
        ]
        models = _common(x.shape[0 if d is None else 1] for x, d in zip(moved, dims, strict=True))
        folded = []
        for x, d in zip(moved, dims, strict=True):
            if d is None and x.shape[0] == 1:
                folded.append(x)
                continue
            rest = x.shape[1 if d is None else 2 :]
            x = x[None] if d is None else x
            folded.append(jnp.broadcast_to(x, (size, models, *rest)).reshape(size * models, *rest))
        results = primitive.bind(*folded, **params)
        if not multiple_results:
            return results.reshape(size, models, *results.shape[1:]), 0
        return [y.reshape(size, models, *y.shape[1:]) for y in results], [0] * len(results)

    batching.primitive_batchers[primitive] = fold
    return primitive


def lower(primitive: Primitive, *, anywhere: Callable, cpu: Callable | None = None) -> None:
    """Lower to a JAX function on every platform and, if given, to an own rule on the CPU."""
    multiple = primitive.multiple_results
    mlir.register_lowering(primitive, mlir.lower_fun(anywhere, multiple_results=multiple))
    if cpu is not None:
        mlir.register_lowering(primitive, _in_this_process(cpu), platform="cpu")


def _in_this_process(rule: Callable) -> Callable:
    """A lowering rule that calls the loaded library, and refuses to be part of an export."""

    def lowered(ctx: mlir.LoweringRuleContext, *operands, **params):
        if ctx.module_context.lowering_parameters.for_export:
            raise UserError(
                "jax.export cannot export the 'native' backend for the CPU: its kernels are a "
                "library in this process, which the exported program would not find elsewhere. "
                "Export model.with_backend('dense') instead."
            )
        return rule(ctx, *operands, **params)

    return lowered


def no_tangent(value):
    """The symbolic zero tangent of a constant result."""
    return ad.Zero(typeof(value).to_tangent_aval())


def sum_to(x, like):
    """The cotangent of an operand: summed over models if the operand was shared."""
    return x if x.shape[0] == like.shape[0] else jnp.sum(x, axis=0, keepdims=True)


# ---- native calls --------------------------------------------------------------------------------


def native_call(handler: str, ctx: mlir.LoweringRuleContext, operands, **attributes):
    """The lowering of a primitive to a handler of the compiled kernels."""
    first: Any = ctx.avals_in[0]
    target = _library.target(handler, first.dtype)
    return jax.ffi.ffi_lowering(target)(ctx, *operands, **attributes)


def basis_attributes(basis: Basis) -> dict:
    """A basis as its kernels know it: the attributes of a call."""
    lo, hi = basis.domain
    ends = {"lo": np.float64(lo), "hi": np.float64(hi)}
    if is_local(basis):
        assert isinstance(basis, BSpline)
        return {"grid": np.int64(basis.grid), "degree": np.int64(basis.degree), **ends}
    count, constant, tanh, scale = basis.n_basis, False, True, 1.0
    if isinstance(basis, Chebyshev | Legendre):
        count, constant, tanh = basis.degree, basis.constant, basis.squash == "tanh"
    elif isinstance(basis, Fourier):
        count, scale = basis.order, basis.frequency
    elif isinstance(basis, RBF):
        scale = basis.width
    return {
        "family": np.int64(GLOBAL_FAMILIES.index(type(basis))),
        "count": np.int64(count),
        "constant": bool(constant),
        "tanh": bool(tanh),
        **ends,
        "scale": np.float64(scale),
    }
