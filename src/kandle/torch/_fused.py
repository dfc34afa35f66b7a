"""A whole network in one native call, and its first three derivatives in one call each.

PyTorch spends more time around the kernels of a small layer than they run. In eager calls on a CPU
`KAN.forward` therefore hands all its layers to one `autograd.Function`. With the network F(x, θ),
θ the weights of all layers:

    _Value   (x, θ) ↦ F
    _First   (x, g, θ) ↦ the gradients of Q₁ = Σ g·F in x and θ
    _Second  (x, g, u, θ) ↦ those of Q₂ = Σ u·∂Q₁/∂x in x, g and θ
    _Third   (x, g, u, v, s, θ) ↦ those of Q₃ = Σ v·∂Q₂/∂x + s·∂Q₂/∂g in x, g, u and θ

Each is the backward pass of the one before, which hands it the values at its layers' inputs. A PINN
with second derivatives in x needs all four. Everything else, such as a derivative of the gradients
in θ, is differentiated as the composition of the layers' operators, to any order.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.modules.module import _has_any_global_hook

from kandle.torch import _native, _network_calls, _ops
from kandle.torch._context import (
    Gradients,
    differentiate,
    is_eager,
    needed_gradients,
    remember,
)
from kandle.torch._network_calls import Network
from kandle.torch._plan import Plan, plan_of


def evaluate(model: nn.Module, x: Tensor) -> Tensor | None:
    """A KAN's layers one after the other; None where only calling each of them will do."""
    if not is_eager(x) or not _native.usable(x) or forward_ad._current_level >= 0:
        return None
    plan = _current_plan(model.__dict__, x.dtype)
    if plan is None:
        return None
    network, weights = plan.network, plan.weights
    if x.shape[-1] != network.widths[0] or _has_any_global_hook():
        return None
    # Layers that `_Second` does not cover are differentiated twice more cheaply one by one.
    if x.requires_grad and not network.takes_second[x.dtype]:
        return None
    flat = x.dim() == 2
    rows = (x if flat else x.reshape(-1, network.widths[0])).contiguous()
    if torch.is_grad_enabled():
        y = _apply_value(rows, *weights, network)
    else:
        y, _ = _network_calls.forward(network, rows, weights, keep=False)
    return y if flat else y.reshape(*x.shape[:-1], network.widths[-1])


def _current_plan(own: dict[str, Any], dtype: torch.dtype) -> Plan | None:
    """The plan of the KAN with these attributes, made again where it no longer holds."""
    layers = own["_modules"].get("layers")
    if type(layers) is not nn.ModuleList:
        return None
    layers = layers._modules.values()
    plan = own.get("_plan")
    if plan is None or not plan.holds(layers, dtype):
        plan = plan_of(layers, dtype)
        if plan is not None and plan.is_lasting:
            own["_plan"] = plan
    return plan


# ---- the composition of operators ----------------------------------------------------------------


def _composed(network: Network, order: int) -> Callable[..., Gradients]:
    """What `_Value`, `_First`, `_Second` or `_Third` compute, with derivatives of any order."""

    def value(x, *weights):
        for layer, shape in enumerate(network.shapes):
            own = weights[4 * layer : 4 * layer + 4]
            x = _ops.layer(x, *own, shape.grid, shape.degree, shape.lo, shape.hi)
        return (x,)

    def derivative(*operands):
        # Operands: those of the order below, with its cotangents between x, … and the weights.
        below, cotangents = _split(network, order, operands)
        given = [t is not None for t in below]
        return differentiate(_composed(network, order - 1), below, cotangents, given, True)

    return derivative if order else value


def _split(network: Network, order: int, operands: Sequence[Any]) -> tuple[tuple, tuple]:
    """The operands of the order below, and the cotangents of its results."""
    none = (None,) * (4 * len(network.shapes))
    if order == 1:
        x, g, *weights = operands
        return (x, *weights), (g,)
    if order == 2:
        x, g, u, *weights = operands
        return (x, g, *weights), (u, *none)
    x, g, u, v, s, *weights = operands
    return (x, g, u, *weights), (v, s, *none)


def _fused_next(network: Network, cotangents: Sequence[Tensor | None], extra: int) -> bool:
    """Whether these cotangents, `extra` of them not of gradients in weights, have a fused pass."""
    given = [t for t in cotangents[:extra] if t is not None]
    return (
        cotangents[0] is not None
        and all(t is None for t in cotangents[extra:])
        and is_eager(*given)
        and network.takes_second[given[0].dtype]
    )


# ---- the functions -------------------------------------------------------------------------------


class _Value(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        x, *weights, network = arguments
        y, hidden = _network_calls.forward(network, x, weights, True)
        ctx.save_for_backward(*arguments[:-1], hidden)
        ctx.network = network
        return y

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> Gradients:
        (g,) = cotangents
        network, needed = ctx.network, ctx.needs_input_grad[:-1]
        *operands, hidden = ctx.saved_tensors
        x, *weights = operands
        if needed[0]:  # else all that requires a gradient is mostly what the pass is for
            ctx.given = [t is not None for t in operands]
            needed = needed_gradients(ctx, 1)
        if not is_eager(g):
            results = differentiate(_composed(network, 0), operands, (g,), needed)
        elif torch.is_grad_enabled():
            results = _First.apply(x, g.contiguous(), *weights, hidden, needed, network)
        else:
            h = x, hidden, None
            results, _ = _network_calls.backward(network, h, weights, g.contiguous(), needed, False)
        return *results, None


# `Function.apply` but for what it does about transforms: `is_eager` has seen that there are none.
_apply_value: Callable[..., Tensor] = super(torch.autograd.Function, _Value).apply  # pyright: ignore


class _First(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Gradients:
        x, g, *weights, hidden, needed, network = arguments
        h = x, hidden, None
        results, cots = _network_calls.backward(network, h, weights, g, needed, True)
        return _remember(ctx, arguments, results, hidden, cots)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> Gradients:
        network, needed = ctx.network, needed_gradients(ctx, 2)
        *operands, hidden, cots = ctx.saved_tensors
        x, g, *weights = operands
        if not _fused_next(network, cotangents, 1):
            results = differentiate(_composed(network, 1), operands, cotangents, needed)
            return *results, None, None, None
        u = _contiguous(cotangents[0])
        if torch.is_grad_enabled():
            results = _Second.apply(x, g, u, *weights, (hidden, cots), needed, network)
        else:
            levels = (x, hidden, None), weights, (None, cots, g)
            results, *_ = _network_calls.second(network, *levels, u, needed, False)
        return *results, None, None, None


class _Second(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Gradients:
        x, g, u, *weights, (hidden, cots), needed, network = arguments
        levels = (x, hidden, None), weights, (None, cots, g)
        results, *more = _network_calls.second(network, *levels, u, needed, True)
        return _remember(ctx, arguments, results, hidden, cots, *more)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> Gradients:
        network, needed = ctx.network, needed_gradients(ctx, 3)
        *operands, hidden, cots, along, slopes = ctx.saved_tensors
        x, g, u, *weights = operands
        if not _fused_next(network, cotangents, 2):
            results = differentiate(_composed(network, 2), operands, cotangents, needed)
            return *results, None, None, None
        v, s = _contiguous(cotangents[0]), _contiguous(cotangents[1])
        needed = (*needed[:3], False, False, *needed[3:])  # as `_Third` has its operands
        kept = hidden, cots, along, slopes
        if torch.is_grad_enabled():
            results = _Third.apply(x, g, u, v, s, *weights, kept, needed, network)
        else:
            results = _third(network, x, g, u, v, s, weights, kept, needed)
        return *results, None, None, None


class _Third(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Gradients:
        x, g, u, v, s, *weights, kept, needed, network = arguments
        return _remember(ctx, arguments, _third(network, x, g, u, v, s, weights, kept, needed))

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> Gradients:
        composed, needed = _composed(ctx.network, 3), needed_gradients(ctx)
        results = differentiate(composed, ctx.saved_tensors, cotangents, needed)
        return *results, None, None, None


def _third(network, x, g, u, v, s, weights, kept, needed) -> Gradients:
    hidden, cots, along, slopes = kept
    levels = (None, cots, g), (u, along, None), (None, slopes, None)
    return _network_calls.third(network, (x, hidden, None), weights, *levels, v, s, needed)


def _remember(ctx: Any, arguments: Sequence[Any], results: Gradients, *kept: Any) -> Gradients:
    """Save what the backward pass needs; the last three arguments are no tensors."""
    remember(ctx, arguments[:-3], extra=kept)
    ctx.network = arguments[-1]
    ctx.set_materialize_grads(False)
    return results


def _contiguous(t: Tensor | None) -> Any:
    return t if t is None else t.contiguous()
