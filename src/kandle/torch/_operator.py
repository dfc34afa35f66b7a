"""Operators of PyTorch with derivatives, batching and a fast way for eager calls.

An `Operator` is registered with PyTorch's dispatcher (kernels, shapes, autograd, batching), which
`torch.compile` and `torch.export` go through. Eager calls and those under `torch.func` do not: the
same kernel and the same backward pass run in an `autograd.Function`, which nested transforms need,
and which has a fraction of the overhead.

Below it are the parts that backward passes share: what a forward pass saves, which gradients are
needed, and the derivatives of a composition of operators.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from kandle.torch import _route
from kandle.torch._native import Gradients

_LIBRARY = torch.library.Library("kandle", "DEF")


class Operator:
    """An operator `torch.ops.kandle.…`; calling it takes the shortest way to its kernel.

    Args:
        name, schema: as the dispatcher knows it.
        native: the kernel for the CPU.
        plain: the same in PyTorch's operations, for other devices and without a compiler.
        shape: the fake implementation.
        setup, backward: what is saved for the backward pass, and that pass.
        ranks, rows, result_has_rows: see `_batching_rule`.
    """

    def __init__(
        self,
        name: str,
        schema: str,
        *,
        native: Callable,
        plain: Callable,
        shape: Callable,
        setup: Callable,
        backward: Callable,
        ranks: Sequence[int],
        rows: Sequence[bool],
        result_has_rows: Callable[[Sequence[Any]], bool],
    ):
        def on_cpu(*arguments):
            if _route.tensor_obstacle(arguments[0]) is None:
                return native(*arguments)
            return plain(*arguments)

        full = f"kandle::{name}"
        _LIBRARY.define(name + schema)
        _LIBRARY.impl(name, on_cpu, "CPU")
        _LIBRARY.impl(name, plain, "CompositeExplicitAutograd")
        torch.library.register_fake(full, shape, lib=_LIBRARY)
        torch.library.register_autograd(full, backward, setup_context=setup, lib=_LIBRARY)
        rule = _batching_rule(self, ranks, rows, result_has_rows)
        torch.library.register_vmap(full, rule, lib=_LIBRARY)
        self._registered = getattr(torch.ops.kandle, name).default
        self._on_cpu = on_cpu
        self._tensors = len(ranks)

        def forward(ctx, *arguments):
            result = on_cpu(*arguments)
            setup(ctx, arguments, result)
            return result

        methods = {"forward": forward, "backward": backward}
        self._eager = _function(f"Kandle_{name}", methods)
        # Nested transforms need the two halves of `forward` apart, and a batching rule.
        methods = {"forward": self._value, "setup_context": setup, "backward": backward}
        self._transformed = _function(f"Kandle_{name}_transformed", methods | {"vmap": rule})

    def __call__(self, *arguments):
        if torch.is_grad_enabled() and self._is_eager(arguments):
            return self._eager(*arguments)
        if _route.is_transformed():
            return self._transformed(*arguments)
        return self._value(*arguments)

    def _value(self, *arguments):
        if not torch.is_grad_enabled() and self._is_eager(arguments):
            return self._on_cpu(*arguments)
        return self._registered(*arguments)

    def _is_eager(self, arguments) -> bool:
        tensors = arguments[: self._tensors]
        return arguments[0].is_cpu and _route.eager_obstacle(*tensors) is None


def _function(name: str, methods: dict[str, Callable]) -> Callable:
    static = {key: staticmethod(method) for key, method in methods.items()}
    return type(name, (torch.autograd.Function,), static).apply


# ---- batching: the new axis of `torch.vmap` joins the samples, or the models ---------------------


def _batching_rule(
    call: Callable,
    ranks: Sequence[int],
    rows: Sequence[bool],
    result_has_rows: Callable[[Sequence[Any]], bool],
) -> Callable:
    """The rule for an operator whose first `len(ranks)` arguments are tensors.

    Args:
        call: the operator.
        ranks: the number of axes of each tensor without a model axis.
        rows: whether the first of these axes are the samples.
        result_has_rows: whether the same is true of the results, from the arguments that are not
            tensors.
    """

    def rule(info: Any, in_dims: Sequence[int | None], *arguments: Any):
        size = info.batch_size
        rest = arguments[len(ranks) :]
        operands = []
        for tensor, dim, rank, has_rows in zip(arguments, in_dims, ranks, rows, strict=False):
            if tensor is not None and dim is not None:
                tensor = tensor.movedim(dim, 0)
            operands.append(_Operand(tensor, dim is not None, rank, has_rows))
        present = [operand for operand in operands if operand.tensor is not None]
        if result_has_rows(rest) and all(operand.fits_rows for operand in present):
            folded = [operand.fold_rows(size) for operand in operands]
            results = call(*folded, *rest)
            return _unfold(results, lambda y: (size, y.shape[0] // size))
        models = max(operand.models for operand in present)
        folded = [operand.fold_models(size, models) for operand in operands]
        results = call(*folded, *rest)
        lead = (size, models) if any(operand.has_models for operand in present) else (size,)
        return _unfold(results, lambda _: lead)

    return rule


class _Operand:
    """A tensor argument whose batch axis, if it has one, comes first."""

    def __init__(self, tensor: Any, batched: bool, rank: int, has_rows: bool):
        self.tensor, self.batched, self.rank, self.has_rows = tensor, batched, rank, has_rows

    @property
    def has_models(self) -> bool:
        return self.tensor.dim() - self.batched > self.rank

    @property
    def models(self) -> int:
        return self.tensor.shape[int(self.batched)] if self.has_models else 1

    @property
    def fits_rows(self) -> bool:
        """Samples of any batch, or weights that all batches share."""
        return not self.has_models and (self.has_rows or not self.batched)

    def fold_rows(self, size: int) -> Any:
        if self.tensor is None or not self.has_rows:
            return self.tensor
        return self._spread(size).flatten(0, 1)

    def fold_models(self, size: int, models: int) -> Any:
        if self.tensor is None or (not self.batched and self.models == 1):
            return self.tensor
        spread = self._spread(size)
        if not self.has_models:
            spread = spread.unsqueeze(1)
        return spread.expand(size, models, *spread.shape[2:]).flatten(0, 1)

    def _spread(self, size: int) -> Tensor:
        return self.tensor if self.batched else self.tensor.expand(size, *self.tensor.shape)


def _unfold(results: Any, lead: Callable[[Tensor], tuple[int, ...]]) -> tuple[Any, Any]:
    """The first axis of every result as the batch axis and what it was folded with."""
    if isinstance(results, Tensor):
        return results.reshape(*lead(results), *results.shape[1:]), 0
    unfolded, dims = [], []
    for y in results:
        wanted = y.shape != (0,)
        unfolded.append(y.reshape(*lead(y), *y.shape[1:]) if wanted else y)
        dims.append(0 if wanted else None)
    return tuple(unfolded), tuple(dims)


# ---- backward passes -----------------------------------------------------------------------------


def remember(
    ctx: Any,
    saved: Sequence[Tensor | None],
    *others: Tensor | None,
    extra: Sequence[Tensor | None] = (),
) -> None:
    """Save tensors for the backward pass, and which of an operator's tensors are not None.

    `saved` and `others` are the operator's tensors, `extra` are what it computed on the way.
    """
    ctx.save_for_backward(*saved, *extra)
    ctx.present = tuple(tensor is not None for tensor in (*saved, *others))


def needed_gradients(ctx: Any, single: int | None = None) -> tuple[bool, ...]:
    """Which tensors this backward pass needs the gradients of.

    `needs_input_grad` is true for every tensor that requires a gradient at all. But
    `torch.autograd.grad(y, x)` leaves out those of the weights, and only the engine knows that.
    The tensors after the first `single` ones are needed together: if one of them is, then all.
    """
    requires = ctx.needs_input_grad[: len(ctx.present)]
    will_execute = getattr(torch._C, "_will_engine_execute_node", None)
    if will_execute is None or torch.compiler.is_compiling():
        return requires
    try:
        # The nodes that take the gradients; `next_functions` has those of tensors alone.
        nodes = iter(ctx.next_functions)
        edges = [next(nodes)[0] if present else None for present in ctx.present]
        first, *rest = edges
        if single is None:
            needed = [_executes(will_execute, node) for node in rest]
        else:
            needed = [_executes(will_execute, node) for node in edges[1:single]]
            together = any(_executes(will_execute, node) for node in edges[single:])
            needed += [together] * (len(edges) - single)
        # Where no other gradient is needed, the engine is here for the first tensor's. It is asked
        # last because that is mostly an input, a leaf whose gradient `autograd.grad` returns, and
        # the answer for those is an exception, which takes long.
        first_needed = first is not None and (not any(needed) or _executes(will_execute, first))
    except (AttributeError, RuntimeError):  # under a transform, or outside of the engine
        return requires
    pairs = zip(requires, (first_needed, *needed), strict=True)
    return tuple(required and need for required, need in pairs)


def _executes(will_execute: Callable, node: Any) -> bool:
    if node is None:
        return False
    try:
        return will_execute(node)
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
        aliases: list[Tensor | None] = []
        sought: list[Tensor] = []
        for operand, need in zip(operands, needed, strict=True):
            if operand is None:
                aliases.append(None)
                continue
            alias = operand.view_as(operand)
            if not alias.requires_grad:
                alias.requires_grad_()
            aliases.append(alias)
            if need:
                sought.append(alias)
        outputs, weights = [], []
        for y, weight in zip(function(*aliases), cotangents, strict=True):
            if y is not None and weight is not None and y.requires_grad:
                outputs.append(y)
                weights.append(weight)
        gradients: Any = (None,) * len(sought)
        if outputs and sought:
            gradients = torch.autograd.grad(
                outputs, sought, weights, create_graph=create_graph, allow_unused=True
            )
    remaining = iter(gradients)
    results: list[Tensor | None] = []
    for alias, need in zip(aliases, needed, strict=True):
        results.append(next(remaining) if alias is not None and need else None)
    return tuple(results)
