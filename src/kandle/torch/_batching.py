"""How `torch.vmap` batches an operator: the new axis joins the samples, or the models."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor


def batching_rule(
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
        operands = [
            _Operand(None if t is None else (t if d is None else t.movedim(d, 0)), d, rank, row)
            for t, d, rank, row in zip(arguments, in_dims, ranks, rows, strict=False)
        ]
        given = [operand for operand in operands if operand.tensor is not None]
        if result_has_rows(rest) and all(o.fits_rows for o in given):
            results = call(*(o.fold_rows(size) for o in operands), *rest)
            return _unfold(results, lambda y: (size, y.shape[0] // size))
        models = max(o.models for o in given)
        results = call(*(o.fold_models(size, models) for o in operands), *rest)
        inner = any(o.has_models for o in given)
        return _unfold(results, lambda y: (size, models) if inner else (size,))

    return rule


class _Operand:
    """A tensor argument whose batch axis, if it has one, comes first."""

    def __init__(self, tensor: Any, dim: int | None, rank: int, row: bool):
        self.tensor, self.batched, self.rank, self.row = tensor, dim is not None, rank, row

    @property
    def has_models(self) -> bool:
        return self.tensor.dim() - self.batched > self.rank

    @property
    def models(self) -> int:
        return self.tensor.shape[int(self.batched)] if self.has_models else 1

    @property
    def fits_rows(self) -> bool:
        """Samples of any batch, or weights that all batches share."""
        return not self.has_models and (self.row or not self.batched)

    def fold_rows(self, size: int) -> Any:
        if self.tensor is None or not self.row:
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
    pairs = [
        (y, None) if y.shape == (0,) else (y.reshape(*lead(y), *y.shape[1:]), 0) for y in results
    ]
    return tuple(y for y, _ in pairs), tuple(dim for _, dim in pairs)
