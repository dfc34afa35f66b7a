"""What an operator's forward pass saves, and which gradients its backward pass is asked for."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


def remember(ctx: Any, saved: Sequence[Tensor | None], *others: Tensor | None) -> None:
    """Save tensors for the backward pass, and which of an operator's tensors are given at all."""
    ctx.save_for_backward(*saved)
    ctx.given = tuple(tensor is not None for tensor in (*saved, *others))


def needed_gradients(ctx: Any) -> tuple[bool, ...]:
    """Which tensors this backward pass wants the gradients of.

    `needs_input_grad` is true for every tensor that requires a gradient at all. But
    `torch.autograd.grad(y, x)` leaves out those of the weights, and only the engine knows that.
    """
    needed = ctx.needs_input_grad[: len(ctx.given)]
    executes = getattr(torch._C, "_will_engine_execute_node", None)
    if executes is None or torch.compiler.is_compiling():
        return needed
    try:
        nodes = iter(ctx.next_functions)  # of the tensors that are given
        wanted = [_executes(executes, next(nodes)[0]) if given else False for given in ctx.given]
    except (AttributeError, RuntimeError):  # under a transform, or outside of the engine
        return needed
    return tuple(a and b for a, b in zip(needed, wanted, strict=True))


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
