"""Second and third derivatives of a layer with few outputs, each in one native call.

A PINN differentiates a network twice in its inputs and once more in its weights. For each layer the
composition of trilinear operators in `_ops` then runs some ten of them, and between them PyTorch
spends more time than they do. Two functions take their place in eager calls:

    second  (x, weights, g, u) ↦ the gradients of Q₂ = Σ g·u·φ'(x) in x, the weights and g
    third   (…, v_x, v_g) ↦ the gradients of Q₃ = Σ v_x·∂Q₂/∂x + v_g·∂Q₂/∂g in all of them

Further derivatives, and those through the gradients in the weights, are those of the composition.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from kandle.torch import _native
from kandle.torch._context import Gradients, differentiate, is_eager, needed_gradients, remember


def applies(x: Tensor, c: Tensor, b: Tensor, g: Tensor, u: Tensor, spline: Sequence[Any]) -> bool:
    """Whether the two functions can take the place of the composition."""
    if not is_eager(g, u):
        return False
    single = x.dim() == c.dim() == g.dim() == u.dim() == 2 and b.dim() == 3
    return single and _native.usable(x) and _native.takes_second(x.dtype, c.shape[0], spline[1])


def gradients(
    x, r, c, b, g, u, spline: Sequence[Any], needed: Sequence[bool], compose: Callable
) -> Gradients:
    """The gradients of Q₂ in x, r, c, b and g, None where they are not needed.

    `compose(x, r, c, b, g, u, None, None, None, None, spline, needed)` computes them too, and can
    be differentiated to any order.
    """
    return _Second.apply(x, r, c, b, g, u, spline, tuple(needed), compose)


def _wanted(needed: Sequence[bool], along: bool) -> dict[str, bool]:
    """What of `_native.second` is needed, from what is needed of x, r, c, b and g."""
    weights = needed[1] or needed[2] or needed[3]
    return {"outputs": needed[4], "inputs": needed[0], "along": along, "weights": weights}


class _Second(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Gradients:
        x, r, c, b, g, u, (grid, _, lo, hi), needed, _ = arguments
        d_g, _, d_x, _, d_r, d_c, d_b = _native.second(
            *(x, r, c, b, u, None, g, None, grid, lo, hi),
            **_wanted(needed, along=False),
        )
        remember(ctx, arguments[:6])
        ctx.options = arguments[6:]
        ctx.set_materialize_grads(False)
        return d_x, d_r, d_c, d_b, d_g

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> Gradients:
        spline, computed, compose = ctx.options
        tensors, needed = ctx.saved_tensors, needed_gradients(ctx)
        v_x, *v_weights, v_g = cotangents
        if all(v is None for v in v_weights) and is_eager(v_x, v_g):
            results = _Third.apply(*tensors, v_x, v_g, spline, needed, compose)
        else:
            results = differentiate(_second(ctx, computed), tensors, cotangents, needed)
        return *results, None, None, None


class _Third(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Gradients:
        x, r, c, b, g, u, v_x, v_g, (grid, _, lo, hi), needed, _ = arguments
        _, d_g, d_x, d_u, d_r, d_c, d_b = _native.second(
            *(x, r, c, b, u, v_x, v_g, g, grid, lo, hi),
            **_wanted(needed, along=needed[5]),
        )
        remember(ctx, arguments[:8])
        ctx.options = arguments[8:]
        ctx.set_materialize_grads(False)
        return d_x, d_r, d_c, d_b, d_g, d_u

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> Gradients:
        def third(*tensors: Tensor | None) -> Gradients:
            *operands, v_x, v_g = tensors
            computed = (v_x is not None, False, False, False, v_g is not None)
            given = [t is not None for t in operands]
            directions = (v_x, None, None, None, v_g)
            return differentiate(_second(ctx, computed), operands, directions, given, True)

        needed = needed_gradients(ctx)
        return *differentiate(third, ctx.saved_tensors, cotangents, needed), None, None, None


def _second(ctx: Any, computed: Sequence[bool]) -> Callable[..., Gradients]:
    spline, _, compose = ctx.options
    return lambda *operands: compose(*operands, None, None, None, None, spline, computed)
