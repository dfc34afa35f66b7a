"""Primitives over a leading model axis that is 1, for an operand shared by all models, or P.

Batching such a primitive folds the new axis into the model axis: one call serves a whole
population, and what is shared is not copied.
"""

import functools
from collections.abc import Callable, Iterable, Sequence

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from kandle._compat import typeof
from kandle._errors import UserError


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

    primitive.def_impl(lambda *operands, **params: compiled(tuple(params.items()))(*operands))

    def fold(operands, dims, **params):
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
    """The symbolic zero tangent of a result that nothing moves."""
    return ad.Zero(typeof(value).to_tangent_aval())


def sum_to(x, like):
    """The cotangent of an operand: summed over models if the operand was shared."""
    return x if x.shape[0] == like.shape[0] else jnp.sum(x, axis=0, keepdims=True)
