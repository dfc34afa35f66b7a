"""What all autograd functions need: who takes part in a call, what a forward pass saves, which
gradients a backward pass is asked for, and derivatives of a composition of operators."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from kandle.torch import _native

Gradients = tuple[Tensor | None, ...]
_PLAIN_TYPES = (Tensor, torch.nn.Parameter)
_functorch: Any = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]
# Tensors of a transform of `torch.func`, also after its end.
_is_wrapped: Callable[[Tensor], bool] = _functorch.is_functorch_wrapped_tensor
# Cotangents of `autograd.grad(..., is_grads_batched=True)`, which is no transform of `torch.func`.
_is_batched: Callable[[Tensor], bool] = getattr(
    _functorch, "is_legacy_batchedtensor", lambda tensor: False
)


def is_eager(*tensors: Tensor | None) -> bool:
    """Whether nothing but autograd takes part in a call: no compiler, transform, mode or tracer."""
    if (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack()
        or torch.jit.is_tracing()  # pyright: ignore[reportPrivateImportUsage]
    ):
        return False
    return all(map(has_memory, tensors))


def has_memory(tensor: Tensor | None) -> bool:
    """Whether a tensor, if given, is nothing but its numbers: no subclass, not of a transform."""
    if tensor is None:
        return True
    return type(tensor) in _PLAIN_TYPES and not _is_wrapped(tensor) and not _is_batched(tensor)


def wants_plain(x: Tensor) -> bool:
    """Whether PyTorch's own operations are to be used: they are what can be exported to ONNX and
    differentiated in forward mode, and all that other devices have."""
    if not x.is_cpu or torch.jit.is_tracing():  # pyright: ignore[reportPrivateImportUsage]
        return True
    if forward_ad._current_level >= 0 or not _native.AVAILABLE:
        return True
    return torch.onnx.is_in_onnx_export()


def remember(
    ctx: Any,
    saved: Sequence[Tensor | None],
    *others: Tensor | None,
    extra: Sequence[Tensor | None] = (),
) -> None:
    """Save tensors for the backward pass, and which of an operator's tensors are given at all.

    `saved` and `others` are the operator's tensors, `extra` are what it computed on the way.
    """
    ctx.save_for_backward(*saved, *extra)
    ctx.given = tuple(tensor is not None for tensor in (*saved, *others))


def needed_gradients(ctx: Any, single: int | None = None) -> tuple[bool, ...]:
    """Which tensors this backward pass wants the gradients of.

    `needs_input_grad` is true for every tensor that requires a gradient at all. But
    `torch.autograd.grad(y, x)` leaves out those of the weights, and only the engine knows that.
    The tensors after the first `single` ones are wanted together: if one of them is, then all.
    """
    needed = ctx.needs_input_grad[: len(ctx.given)]
    executes = getattr(torch._C, "_will_engine_execute_node", None)
    if executes is None or torch.compiler.is_compiling():
        return needed
    try:
        nodes = iter(ctx.next_functions)  # of the tensors that are given
        edges = [next(nodes)[0] if given else None for given in ctx.given]
        if single is None:
            wanted = [_executes(executes, node) for node in edges[1:]]
        else:
            together = any(_executes(executes, node) for node in edges[single:])
            wanted = [_executes(executes, node) for node in edges[1:single]]
            wanted += [together] * (len(edges) - single)
        # The pass runs for some reason; and PyTorch raises an error, which takes long, when asked
        # about a leaf whose gradient `autograd.grad` returns: mostly the first tensor.
        first = edges[0] is not None and (not any(wanted) or _executes(executes, edges[0]))
    except (AttributeError, RuntimeError):  # under a transform, or outside of the engine
        return needed
    return tuple(a and b for a, b in zip(needed, (first, *wanted), strict=True))


def _executes(executes: Callable, node: Any) -> bool:
    if node is None:
        return False
    try:
        return executes(node)
    except RuntimeError as error:
        # A leaf whose gradient `autograd.grad` returns; PyTorch has no answer for those.
        if "leaf node" in str(error):
            return True
        raise


def differentiate(
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
