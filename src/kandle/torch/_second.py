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
from kandle.torch._context import needed_gradients, remember

Gradients = tuple[Tensor | None, ...]


def applies(x: Tensor, c: Tensor, b: Tensor, g: Tensor, u: Tensor, spline: Sequence[Any]) -> bool:
    """Whether the two functions can take the place of the composition."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    if torch._C._len_torch_dispatch_stack() or type(g) is not Tensor or type(u) is not Tensor:
        return False
    single = x.dim() == c.dim() == g.dim() == u.dim() == 2 and b.dim() == 3
    return single and _native.takes_second(x, c.shape[0], spline[1])


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
        if all(v is None for v in v_weights):
            results = _Third.apply(*tensors, v_x, v_g, spline, needed, compose)
        else:
            results = _differentiate(_second(ctx, computed), tensors, cotangents, needed)
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
            return _differentiate(_second(ctx, computed), operands, directions, given, True)

        needed = needed_gradients(ctx)
        return *_differentiate(third, ctx.saved_tensors, cotangents, needed), None, None, None


def _second(ctx: Any, computed: Sequence[bool]) -> Callable[..., Gradients]:
    spline, _, compose = ctx.options
    return lambda *operands: compose(*operands, None, None, None, None, spline, computed)


def _differentiate(
    function: Callable[..., Gradients],
    operands: Sequence[Tensor | None],
    cotangents: Sequence[Tensor | None],
    needed: Sequence[bool],
    keep_graph: bool = False,
) -> Gradients:
    """The gradients of Σ cotangents·function(operands) in the operands that need one."""
    create_graph = keep_graph or torch.is_grad_enabled()
    with torch.enable_grad():
        # Aliases: a tensor that is two operands has a gradient as each of them.
        own = [None if t is None else t.view_as(t) for t in operands]
        own = [t if t is None or t.requires_grad else t.requires_grad_() for t in own]
        pairs = [
            (y, w)
            for y, w in zip(function(*own), cotangents, strict=True)
            if y is not None and w is not None and y.requires_grad
        ]
        sought = [t for t, need in zip(own, needed, strict=True) if t is not None and need]
        found: Any = (None,) * len(sought)
        if pairs and sought:
            outputs, weights = zip(*pairs, strict=True)
            found = torch.autograd.grad(
                outputs, sought, weights, create_graph=create_graph, allow_unused=True
            )
    results = iter(found)
    return tuple(
        next(results) if t is not None and need else None
        for t, need in zip(own, needed, strict=True)
    )
