"""Kandle's compiled kernels on PyTorch's CPU tensors: pointers in, pointers out, no copies.

An operand may lead with a model axis of length 1 or P; without it, it is shared by all models. The
kernels run on PyTorch's own threads where its OpenMP runtime can be reached, on as many as
`torch.get_num_threads()` says; no result depends on their number.
"""

import ctypes
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kandle._errors import UserError, must
from kandle._native import NativeUnavailable, open_library
from kandle.torch import _plain

_BITS = {torch.float32: 32, torch.float64: 64}
_SIZE, _POINTER = ctypes.c_int64, ctypes.c_void_p
_SIZES = (*[_SIZE] * 4, ctypes.c_int)  # models, n, n_in, n_out, batched
_SPLINE = (_SIZE, ctypes.c_int, ctypes.c_double, ctypes.c_double)  # grid, degree, lo, hi
_GRID = (_SIZE, ctypes.c_double, ctypes.c_double)  # grid, lo, hi
_FLAG = ctypes.c_int
_NETWORK = (_POINTER, _POINTER, _SIZE, _SIZE, _POINTER)  # shapes, domains, layers, rows, pointers
# The types of a function's arguments but for the last one, the number of threads.
_SIGNATURES = {
    "layer": (*[_POINTER] * 6, *_SIZES, *_SPLINE, _FLAG),
    "layer_backward": (*[_POINTER] * 10, *_SIZES, *_SPLINE, _FLAG),
    "trilinear": (*[_POINTER] * 5, *_SIZES, *_SPLINE, _FLAG, _FLAG),
    "second": (*[_POINTER] * 15, *[_SIZE] * 3, *_GRID, _FLAG),
    "network_forward": _NETWORK,
    "network_backward": _NETWORK,
    "network_second": _NETWORK,
    "network_third": _NETWORK,
}
_MAX_SILU_ORDER = 12
_FEW_OUTPUTS: dict[torch.dtype, int] = {}  # that `second` takes at most


def _load() -> dict[tuple[str, torch.dtype], Any]:
    """The C functions by name and dtype; none, after a warning, where they cannot be used."""
    try:
        library = open_library()
        found = {}
        for dtype, bits in _BITS.items():
            for name, types in _SIGNATURES.items():
                function = getattr(library, f"kandle_c_{name}_f{bits}")
                function.argtypes = [*types, _SIZE]
                function.restype = ctypes.c_int
                found[name, dtype] = function
            _FEW_OUTPUTS[dtype] = getattr(library, f"kandle_c_few_outputs_f{bits}")()
    except (OSError, AttributeError) as error:
        warnings.warn(
            f"Kandle's native kernels are not available: {error}. Using slower PyTorch operations.",
            NativeUnavailable,
            stacklevel=2,
        )
        return {}
    library.kandle_c_use_team.argtypes = [_POINTER]
    library.kandle_c_use_team.restype = None
    library.kandle_c_use_team(_openmp_team())
    return found


def usable(x: Tensor) -> bool:
    """Whether the kernels take tensors like this one."""
    return x.is_cpu and x.dtype in _BITS and AVAILABLE


def layer(x, r, c, b, bias, grid, degree, lo, hi) -> Tensor:
    n_out, n_in = c.shape[-2:]
    n = x.shape[-2]
    residual = r is not None
    if r is None:
        r = c  # not read
    if bias is None:
        bias = x.new_zeros(n_out)
    _check_shapes(x, r, c, b, grid + degree, bias.shape[-1])
    operands = (x, r, c, b, bias)
    models, batched = _models(operands, (2, 2, 2, 3, 1))
    y = x.new_empty((n, n_out) if models is None else (models, n, n_out))
    operands = [operand.contiguous() for operand in operands]
    call(
        "layer",
        x.dtype,
        *[operand.data_ptr() for operand in operands],
        y.data_ptr(),
        1 if models is None else models,
        n,
        n_in,
        n_out,
        batched,
        grid,
        degree,
        lo,
        hi,
        residual,
    )
    return y


def layer_backward(x, r, c, b, g, grid, degree, lo, hi, want_x, want_w) -> tuple[Tensor, ...]:
    n_out, n_in = c.shape[-2:]
    n = x.shape[-2]
    residual = r is not None
    operands = (x, c if r is None else r, c, b, g)
    _check_shapes(*operands[:4], grid + degree, g.shape[-1])
    if g.shape[-2] != n:
        raise must("'g'", f"of {n} rows, as 'x' is", tuple(g.shape))
    models, batched = _models(operands, (2, 2, 2, 3, 2))
    lead = () if models is None else (models,)
    dx = x.new_empty((*lead, n, n_in) if want_x else 0)
    dr, dc = (x.new_empty((*lead, n_out, n_in) if want_w else 0) for _ in range(2))
    db = x.new_empty((*lead, n_out, n_in, grid + degree) if want_w else 0)
    dbias = x.new_empty((*lead, n_out) if want_w else 0)
    operands = [operand.contiguous() for operand in operands]
    call(
        "layer_backward",
        x.dtype,
        *[operand.data_ptr() for operand in operands],
        dx.data_ptr() if want_x else None,
        *[d.data_ptr() if want_w else None for d in (dr, dc, db, dbias)],
        1 if models is None else models,
        n,
        n_in,
        n_out,
        batched,
        grid,
        degree,
        lo,
        hi,
        residual,
    )
    return dx, dr if residual else x.new_empty(0), dc, db, dbias


def trilinear(x, a, w, g, grid, degree, lo, hi, order, residual) -> Tensor:
    """The derivative of Σ a·w·g·B⁽ᵛ⁾(x) in the one of a, w and g that is None."""
    if order > _MAX_SILU_ORDER:
        return _plain.trilinear(x, a, w, g, grid, degree, lo, hi, order, residual)
    n, n_in = x.shape[-2:]
    n_out = (w if g is None else g).shape[-1]
    given = [(t, rank) for t, rank in ((x, 2), (a, 2), (w, 3), (g, 2)) if t is not None]
    models, _ = _models([t for t, _ in given], [rank for _, rank in given])
    batched = 0
    for bit, (operand, rank) in enumerate(((x, 2), (a, 2), (w, 3), (g, 2))):
        if operand is not None and operand.dim() > rank and operand.shape[0] != 1:
            batched |= 1 << bit
    shape = (
        (n, n_out)
        if g is None
        else (n, n_in)
        if a is None
        else (n_in, grid + degree + residual, n_out)
    )
    out = x.new_empty(shape if models is None else (models, *shape))
    operands = [None if t is None else t.contiguous() for t in (x, a, w, g)]
    call(
        "trilinear",
        x.dtype,
        *[None if t is None else t.data_ptr() for t in operands],
        out.data_ptr(),
        1 if models is None else models,
        n,
        n_in,
        n_out,
        batched,
        grid,
        degree,
        lo,
        hi,
        order,
        residual,
    )
    return out


def takes_second(dtype: torch.dtype, n_out: int, degree: int) -> bool:
    """Whether `second` covers layers like this one."""
    return dtype in _FEW_OUTPUTS and degree == 3 and n_out <= _FEW_OUTPUTS[dtype]


def second(
    x, r, c, b, u, v, h, g, grid, lo, hi, *, outputs: bool, inputs: bool, along: bool, weights: bool
) -> tuple[Tensor | None, ...]:
    """The gradients of Q = Σ h·u·φ'(x) + g·u·v·φ''(x) in h, g, x, u, r, c and b.

    Either of h and v may be None, and its term with it. The first two results are computed with
    `outputs`, that in x with `inputs`, that in u with `along`, the last three with `weights`.
    """
    n_out, n_in = c.shape
    n = x.shape[0]
    d_h = x.new_empty(n, n_out) if outputs else None
    d_g = x.new_empty(n, n_out) if outputs and v is not None else None
    d_x, d_u = (x.new_empty(n, n_in) if wanted else None for wanted in (inputs, along))
    d_r, d_c = (x.new_empty(n_out, n_in) if weights else None for _ in range(2))
    d_b = x.new_empty(b.shape) if weights else None
    operands = [t if t is None else t.contiguous() for t in (x, c if r is None else r, c, b)]
    operands += [t if t is None else t.contiguous() for t in (u, v, h, g)]
    results = (d_h, d_g, d_x, d_u, d_r, d_c, d_b)
    pointers = [None if t is None else t.data_ptr() for t in (*operands, *results)]
    call("second", x.dtype, *pointers, n, n_in, n_out, grid, lo, hi, r is not None)
    return (*results[:4], None if r is None else d_r, d_c, d_b)


def _check_shapes(x, r, c, b, n_basis: int, n_out: int) -> None:
    """Refuse operands that do not fit each other: the kernels read as much as these say."""
    edges = c.shape[-2:]
    weights = b.shape[-3:]
    if not (
        edges[1] == x.shape[-1]
        and edges[0] == n_out
        and r.shape[-2:] == edges
        and weights[:2] == edges
        and weights[2] == n_basis
    ):
        shapes = ", ".join(str(tuple(t.shape)) for t in (x, r, c, b))
        raise UserError(
            f"'x', 'r', 'c' and 'b' of a layer must be (..., n_in), (n_out, n_in) twice and "
            f"(n_out, n_in, {n_basis}), with n_out = {n_out} as the bias or 'g' have. Got {shapes}."
        )


def _models(operands, ranks) -> tuple[int | None, int]:
    """P, or None where no operand leads with a model axis, and the bits of those that differ."""
    if sum(operand.dim() for operand in operands) == sum(ranks):
        return None, 0
    models, batched = None, 0
    for bit, (operand, rank) in enumerate(zip(operands, ranks, strict=True)):
        if operand.dim() > rank:
            size = operand.shape[0]
            models = size if models is None or models == 1 else models
            batched |= (size != 1) << bit
    return models, batched


def call(name: str, dtype: torch.dtype, *arguments) -> None:
    """Run one of the functions of `_SIGNATURES`."""
    status = _FUNCTIONS[name, dtype](*arguments, torch.get_num_threads())
    if status == 1:
        raise UserError("The native kernels need 1 ≤ grid_size ≤ 2²² and 1 ≤ spline_order ≤ 5.")
    if status == 3:
        raise UserError("The layers of a network must follow each other, on finite domains.")
    if status:
        raise MemoryError("The native kernels ran out of memory.")


def _openmp_team() -> int | None:
    """The address of `GOMP_parallel` in the OpenMP runtime that PyTorch computes with, if any.

    LLVM's and Intel's runtimes offer GCC's entry point too. Sharing PyTorch's team of threads keeps
    two pools from competing for the same cores.
    """
    for path in sorted((Path(torch.__file__).parent / "lib").glob("lib*omp*.so*")):
        try:
            entry = ctypes.CDLL(str(path)).GOMP_parallel
        except (OSError, AttributeError):
            continue
        return ctypes.cast(entry, ctypes.c_void_p).value
    return None


# Loaded once, here: code that is compiled or traced later must not open files.
_FUNCTIONS = _load()
AVAILABLE = bool(_FUNCTIONS)
