"""Knots of a layer, and the weights that keep its functions when the knots change."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from kandle._errors import UserError
from kandle.bases import BSpline, Knots, transfer

_PLAIN_TYPES = (Tensor, nn.Parameter)
_functorch: Any = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]
# Tensors of a transform of `torch.func`, also after its end.
_is_wrapped: Callable[[Tensor], bool] = _functorch.is_functorch_wrapped_tensor
# Cotangents of `autograd.grad(..., is_grads_batched=True)`, which is no transform of `torch.func`.
_is_batched: Callable[[Tensor], bool] = getattr(
    _functorch, "is_legacy_batchedtensor", lambda tensor: False
)


def has_memory(tensor: Tensor | None) -> bool:
    """Whether a tensor, if any, is nothing but its numbers: of no subclass, and no transform's."""
    if tensor is None:
        return True
    return type(tensor) in _PLAIN_TYPES and not _is_wrapped(tensor) and not _is_batched(tensor)


class WatchedGrid:
    """The splines that a layer's buffer `grid` describes.

    Whoever loads a state, moves the module or writes to the buffer changes the knots without a word
    to the layer. `follow` compares the buffer with the one that was seen last, and reads the knots
    again where they may have changed.

    Attributes:
        basis: the splines; where the knots are not uniform, only its grid and degree hold.
        is_uniform: whether all inputs have the same equidistant knots, those of the basis.
    """

    def __init__(self, basis: BSpline):
        self.basis, self.is_uniform = basis, True
        self.forget()

    def forget(self) -> None:
        """Read the knots when `follow` is called next, whatever was seen before."""
        self._seen: tuple[Tensor | None, int, int] = (None, 0, 0)

    def see(self, grid: Tensor) -> None:
        """Take note of a buffer that is known to have the present knots."""
        if has_memory(grid):
            version = 0 if grid.is_inference() else grid._version
            self._seen = grid, version, grid.data_ptr()
        else:
            self.forget()

    def has_seen(self, grid: Tensor) -> bool:
        """Whether the buffer is the one seen last, and nothing was written to it since."""
        seen, version, address = self._seen
        if grid is not seen or grid.data_ptr() != address:
            return False
        return grid.is_inference() or grid._version == version

    def follow(self, grid: Tensor) -> None:
        """Read the knots again if they may have changed."""
        if grid.is_meta or not has_memory(grid) or self.has_seen(grid):
            return
        self.see(grid)
        # The same knots, rounded: the domain keeps all its digits.
        if torch.equal(grid, uniform_knots(self.basis, len(grid)).to(grid)):
            self.is_uniform = True
            return
        domain = uniform_domain(grid, self.basis.degree)
        self.is_uniform = domain is not None
        if domain is not None:
            self.basis = BSpline(self.basis.grid, self.basis.degree, domain)

    def knots(self, grid: Tensor) -> Tensor:
        """The knots of every input in float64 on the CPU, with all digits if they are uniform."""
        if self.is_uniform:
            return uniform_knots(self.basis, len(grid))
        return grid.double().cpu()


def uniform_knots(basis: BSpline, n_in: int) -> Tensor:
    """The knots of every input, (n_in, G + 2k + 1), in float64."""
    return torch.from_numpy(basis.knots.copy()).expand(n_in, -1).contiguous()


def uniform_domain(knots: Tensor, degree: int) -> tuple[float, float] | None:
    """(lo, hi) if all inputs have the same equidistant knots, up to the rounding of their dtype."""
    if not torch.isfinite(knots).all():
        raise UserError("The grid of a KANLinear must be finite.")
    row = knots[0].double()
    lo, hi = row[degree].item(), row[-degree - 1].item()
    if not lo < hi:
        return None
    near = 8 * torch.finfo(knots.dtype).eps * max(abs(row[0].item()), abs(row[-1].item()))
    grid = len(row) - 1 - 2 * degree
    steps = torch.arange(-degree, grid + degree + 1, dtype=row.dtype, device=row.device)
    exact = lo + (hi - lo) / grid * steps
    return (lo, hi) if ((knots.double() - exact).abs() <= near).all().item() else None


def spanning_domain(x: Tensor, margin: float) -> tuple[float, float]:
    """The interval of all values in x, wider by the margin on either side."""
    if x.numel() == 0 or not torch.isfinite(x).all():
        raise UserError("'x' of update_grid must be finite, with at least one row.")
    lo, hi = x.min().item() - margin, x.max().item() + margin
    if not lo < hi:  # constant data and no margin
        lo, hi = math.nextafter(lo, -math.inf) - 0.5, math.nextafter(hi, math.inf) + 0.5
    return lo, hi


def adaptive_knots(x: Tensor, grid: int, degree: int, grid_eps: float, margin: float) -> Tensor:
    """Knots between quantiles of each input (grid_eps = 0) and equidistant ones (grid_eps = 1).

    Knots beyond either end continue with the step of the equidistant ones.
    """
    spanning_domain(x, margin)
    x = x.detach().double().sort(dim=0).values.cpu()  # (N, n_in)
    at = torch.linspace(0, len(x) - 1, grid + 1).long()
    step = (x[-1] - x[0] + 2 * margin) / grid  # (n_in,)
    even = x[0] - margin + torch.arange(grid + 1)[:, None] * step
    inner = grid_eps * even + (1 - grid_eps) * x[at]
    beyond = torch.arange(1, degree + 1)[:, None] * step
    return torch.cat([inner[:1] - beyond.flip(0), inner, inner[-1:] + beyond]).T.contiguous()


def refit(b: Tensor, old: Tensor, new: Tensor, degree: int) -> Tensor:
    """Basis weights on new knots that keep every edge function, as `bases.transfer` has it.

    b is (n_out, n_in, M); knots are (n_in, M + k + 1); the result is (n_out, n_in, M').
    """
    weights = b.detach().double().cpu()
    rows = zip(old.double().cpu().numpy(), new.double().cpu().numpy(), strict=True)
    # Inputs of one grid, such as all inputs of a uniform layer, share the matrix.
    matrices: dict[tuple[bytes, bytes], Tensor] = {}
    columns = []
    for i, (before, after) in enumerate(rows):
        key = before.tobytes(), after.tobytes()
        if key not in matrices:
            bases = (Knots.from_full(knots, degree) for knots in (before, after))
            matrices[key] = torch.from_numpy(transfer(*bases))
        columns.append(weights[:, i] @ matrices[key].T)
    return torch.stack(columns, dim=1).to(b)
