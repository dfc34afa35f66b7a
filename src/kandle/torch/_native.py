"""Kandle's compiled kernels on PyTorch's CPU tensors: pointers in, pointers out, no copies.

    layer, layer_backward, trilinear   one layer, for one model or for several
    forward, backward, second, third   a whole network and its first three derivatives

An operand of the first three may lead with a model axis of length 1 or P; without it, it is shared
by all models. The kernels run on PyTorch's own threads where its OpenMP runtime can be reached, on
as many as `torch.get_num_threads()` says; no result depends on their number.
"""

import ctypes
import warnings
from array import array
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kandle._errors import UserError, must
from kandle._native import NativeUnavailable, open_library
from kandle._route import LayerSpec, derivatives_obstacle
from kandle.bases import BSpline
from kandle.torch import _plain

Gradients = tuple[Tensor | None, ...]

# ---- the library ---------------------------------------------------------------------------------

# The types of tensors that the kernels take, by their names in NumPy.
DTYPES = {torch.float32: "float32", torch.float64: "float64"}
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


def _load() -> tuple[dict[tuple[str, torch.dtype], Any], str | None]:
    """The C functions by name and dtype; none, with the reason, where they cannot be used."""
    functions: dict[tuple[str, torch.dtype], Any] = {}
    try:
        library = open_library()
        for dtype, bits in zip(DTYPES, (32, 64), strict=True):
            for name, types in _SIGNATURES.items():
                function = getattr(library, f"kandle_c_{name}_f{bits}")
                function.argtypes = [*types, _SIZE]
                function.restype = ctypes.c_int
                functions[name, dtype] = function
    except (OSError, AttributeError) as error:
        reason = f"native kernels are not available: {error}"
        message = f"Kandle's {reason}. Using slower PyTorch operations."
        warnings.warn(message, NativeUnavailable, stacklevel=2)
        return {}, f"the {reason}"
    library.kandle_c_use_team.argtypes = [_POINTER]
    library.kandle_c_use_team.restype = None
    library.kandle_c_use_team(_openmp_team())
    return functions, None


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
_FUNCTIONS, UNAVAILABLE = _load()


def _call(name: str, dtype: torch.dtype, *arguments: Any) -> None:
    """Run one of the functions of `_SIGNATURES`."""
    status = _FUNCTIONS[name, dtype](*arguments, torch.get_num_threads())
    if status == 1:
        raise UserError("The native kernels need 1 ≤ grid_size ≤ 2²² and 1 ≤ spline_order ≤ 5.")
    if status == 3:
        raise UserError("The layers of a network must follow each other, on finite domains.")
    if status:
        raise MemoryError("The native kernels ran out of memory.")


# ---- one layer -----------------------------------------------------------------------------------


def layer(x, r, c, b, bias, grid, degree, lo, hi) -> Tensor:
    """y of `KANLinear`'s formula, with SiLU where r is given."""
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
    _call(
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
    """The gradients of Σ g·y in x, r, c, b and the bias; no elements where they are not wanted."""
    n_out, n_in = c.shape[-2:]
    n = x.shape[-2]
    residual = r is not None
    if r is None:
        r = c  # not read
    operands = (x, r, c, b, g)
    _check_shapes(x, r, c, b, grid + degree, g.shape[-1])
    if g.shape[-2] != n:
        raise must("'g'", f"of {n} rows, as 'x' is", tuple(g.shape))
    models, batched = _models(operands, (2, 2, 2, 3, 2))
    lead = () if models is None else (models,)

    def target(wanted: bool, *shape: int) -> tuple[Tensor, int | None]:
        """Memory for a gradient, and its address; none where it is not wanted."""
        if not wanted:
            return x.new_empty(0), None
        memory = x.new_empty((*lead, *shape))
        return memory, memory.data_ptr()

    dx, to_x = target(want_x, n, n_in)
    dr, to_r = target(want_w, n_out, n_in)
    dc, to_c = target(want_w, n_out, n_in)
    db, to_b = target(want_w, n_out, n_in, grid + degree)
    dbias, to_bias = target(want_w, n_out)
    operands = [operand.contiguous() for operand in operands]
    _call(
        "layer_backward",
        x.dtype,
        *[operand.data_ptr() for operand in operands],
        *(to_x, to_r, to_c, to_b, to_bias),
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
    if order > _MAX_SILU_ORDER:  # beyond the kernels' table of SiLU's derivatives
        return _plain.trilinear(x, a, w, g, grid, degree, lo, hi, order, residual)
    n, n_in = x.shape[-2:]
    n_out = (w if g is None else g).shape[-1]
    if g is None:
        shape = (n, n_out)
    elif a is None:
        shape = (n, n_in)
    else:
        shape = (n_in, grid + degree + residual, n_out)
    models, batched = _models((x, a, w, g), (2, 2, 3, 2))
    out = x.new_empty(shape if models is None else (models, *shape))
    operands = [None if t is None else t.contiguous() for t in (x, a, w, g)]
    _call(
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


def _models(operands: Sequence[Tensor | None], ranks: Sequence[int]) -> tuple[int | None, int]:
    """P, or None where no operand leads with a model axis, and the bits of those that differ."""
    models, batched = None, 0
    for bit, (operand, rank) in enumerate(zip(operands, ranks, strict=True)):
        if operand is not None and operand.dim() > rank:
            size = operand.shape[0]
            models = size if models is None or models == 1 else models
            batched |= (size != 1) << bit
    return models, batched


# ---- a whole network -----------------------------------------------------------------------------

# Memory for a result: (size, strides, dtype). PyTorch's compiled code has a way to it that takes a
# third of the time of `torch.empty`.
_empty: Callable[..., Tensor] = getattr(
    getattr(getattr(torch._C, "_dynamo", None), "guards", None),
    "_empty_strided_cpu",
    lambda size, strides, dtype: torch.empty_strided(size, strides, dtype=dtype),
)

# r, c, b and bias of each layer, one after the other; None for those that a layer lacks.
Weights = Sequence[Any]


class Level(NamedTuple):
    """A value at each of h_0, …, h_L, where h_0 = x is the input and h_l the output of layer l.

    Each is a tensor, or None for what a call is not given, or not asked for.
    """

    at_input: Any  # (n, n_0)
    between: Any  # at h_1, …, h_{L-1}, one after the other
    at_output: Any  # (n, n_L)


class Network:
    """Layers of uniform B-splines, for Python and as the native library reads them.

    Args:
        layers: each as wide as the next one takes in.
        alone: whether this is one layer that was called by itself, outside of a `KAN`. Its second
            and third derivatives have a call of their own.

    Attributes:
        widths: (n_0, …, n_L).
        derivatives_obstacles: for each dtype, why `second` and `third` do not take the network.
    """

    def __init__(self, layers: Sequence[LayerSpec], alone: bool = False):
        self.layers, self.alone = tuple(layers), alone
        self.widths = (layers[0].n_in, *(layer.n_out for layer in layers))
        self.derivatives_obstacles: dict[torch.dtype, str | None] = {}
        for dtype, name in DTYPES.items():
            self.derivatives_obstacles[dtype] = derivatives_obstacle(layers, name)
        self._hidden = sum(self.widths[1:-1])
        # The integers and the ends of the domains, as network.cc has them.
        integers, ends = array("q"), array("d")
        # Sizes and strides of the weights, and of the gradients in them.
        self.layouts: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        for n_in, n_out, basis, residual, _ in layers:
            spline: Any = basis
            integers.extend((n_in, n_out, spline.grid, spline.degree, residual is not None))
            ends.extend(spline.domain)
            bases = spline.n_basis
            edges = (n_out, n_in), (n_in, 1)
            functions = (n_out, n_in, bases), (n_in * bases, bases, 1)
            self.layouts += [edges, edges, functions, ((n_out,), (1,))]
        self._arrays = integers, ends  # which own the memory that the addresses lead to
        self._header = (integers.buffer_info()[0], ends.buffer_info()[0], len(layers))
        self._no_gradients = (None,) * (4 * len(layers))


@lru_cache(maxsize=256)
def layer_alone(
    n_in: int, n_out: int, residual: bool, grid: int, degree: int, lo: float, hi: float
) -> Network:
    """A layer that was called by itself, as a network."""
    basis = BSpline(grid, degree, (lo, hi))
    layer = LayerSpec(n_in, n_out, basis, "silu" if residual else None)
    return Network([layer], alone=True)


def forward(
    network: Network, x: Tensor, weights: Weights, keep: bool
) -> tuple[Tensor, Tensor | None]:
    """h_L of h_0 = x; and with `keep` the h_l between them."""
    n, n_out, dtype = x.shape[0], network.widths[-1], x.dtype
    y = _empty((n, n_out), (n_out, 1), dtype)
    hidden = _empty((n * network._hidden,), (1,), dtype) if keep else None
    _run("network_forward", network, x, weights, network._no_gradients, (Level(x, hidden, y),))
    return y, hidden


def backward(
    network: Network, h: Level, weights: Weights, g: Tensor, needed: Sequence[bool], keep: bool
) -> tuple[Gradients, Tensor | None]:
    """The gradients of Q₁ = Σ g·h_L in x and the weights, where needed.

    With `keep` also those in the h_l between.
    """
    x = h.at_input
    d_x = _empty_like(x) if needed[0] else None
    between = _empty_like(h.between) if keep else None
    gradients = _targets(network, x.dtype, needed[1:])
    levels = h, Level(d_x, between, g)
    _run("network_backward", network, x, weights, gradients, levels)
    return (d_x, *gradients), between


def second(
    network: Network,
    h: Level,
    weights: Weights,
    g: Level,
    u: Tensor,
    needed: Sequence[bool],
    keep: bool,
) -> tuple[Gradients, Tensor | None, Tensor | None]:
    """The gradients of Q₂ = Σ u·∂Q₁/∂x in x, g_L and the weights, where needed.

    With `keep` also, at the h_l between, their derivatives along u and the gradients of Q₂.

    Args:
        g: ∂Q₁/∂h_l; its value at the input may be left out.
        u: a direction in x.
    """
    x = h.at_input
    if network.alone:
        # Q₂ = Σ g·u·φ'(x)
        d_h, _, d_x, _, *gradients = _second_of_layer(
            network, x, weights, u, None, g.at_output, None, (*needed[:2], False, *needed[2:])
        )
        return (d_x, d_h, *gradients), None, None
    d_x = _empty_like(x) if needed[0] else None
    d_g = _empty_like(g.at_output) if needed[1] else None
    along = _empty_like(h.between) if keep else None
    slopes = _empty_like(h.between) if keep else None
    gradients = _targets(network, x.dtype, needed[2:])
    gradients[-1] = None  # Q₂ does not depend on the last bias
    levels = h, g, Level(u, along, d_g), Level(d_x, slopes, None)
    _run("network_second", network, x, weights, gradients, levels)
    return (d_x, d_g, *gradients), along, slopes


def third(
    network: Network,
    h: Level,
    weights: Weights,
    g: Level,
    u: Level,
    slopes: Level,
    v: Tensor | None,
    s: Tensor | None,
    needed: Sequence[bool],
) -> Gradients:
    """The gradients of Q₃ = Σ v·∂Q₂/∂x + s·∂Q₂/∂g_L in x, g_L, u and the weights, where needed.

    Args:
        g: ∂Q₁/∂h_l.
        u: the derivatives of the h_l along u.
        slopes: ∂Q₂/∂h_l.
        v, s: cotangents. s may be None, and so may v of a layer alone.
    """
    x = h.at_input
    if network.alone:
        # Q₃ = Σ s·u·φ'(x) + g·u·v·φ''(x)
        _, d_g, d_x, d_u, *gradients = _second_of_layer(
            network, x, weights, u.at_input, v, s, g.at_output, needed
        )
        return (d_x, d_g, d_u, *gradients)
    d_x = _empty_like(x) if needed[0] else None
    d_g = _empty_like(g.at_output) if needed[1] else None
    d_u = _empty_like(x) if needed[2] else None
    gradients = _targets(network, x.dtype, needed[3:])
    gradients[-1] = None  # nor does Q₃
    levels = (
        *(h, g, u, slopes),
        Level(v, None, None),
        Level(None, None, d_g),
        Level(d_u, None, s),
        Level(d_x, None, None),
    )
    _run("network_third", network, x, weights, gradients, levels)
    return (d_x, d_g, d_u, *gradients)


def _second_of_layer(
    network: Network,
    x: Tensor,
    weights: Weights,
    u: Tensor,
    v: Tensor | None,
    h: Tensor | None,
    g: Tensor | None,
    needed: Sequence[bool],
) -> Gradients:
    """The gradients of Q = Σ h·u·φ'(x) + g·u·v·φ''(x) in h, g, x, u, r, c, b and bias of a layer.

    Either of h and v may be None, and its term with it. `needed` says which of the gradients in x,
    in the outputs (h and g), in u and in each of the weights are needed.
    """
    r, c, b, _ = weights
    need_x, need_outputs, need_u, *need_weights = needed
    n_in, n_out, basis, residual, _ = network.layers[0]
    assert isinstance(basis, BSpline)
    d_x = _empty_like(x) if need_x else None
    d_u = _empty_like(x) if need_u else None
    d_h = d_g = d_r = d_c = d_b = None
    if need_outputs:
        d_h = x.new_empty(len(x), n_out)
        d_g = None if v is None else x.new_empty(len(x), n_out)
    if any(need_weights):  # the kernel computes all of them or none
        d_r, d_c, d_b, _ = _targets(network, x.dtype, (True,) * 4)
    if residual is None:
        r = c  # not read
    tensors = (x, r, c, b, u, v, h, g, d_h, d_g, d_x, d_u, d_r, d_c, d_b)
    tensors = [None if t is None else t.contiguous() for t in tensors]
    pointers = [None if t is None else t.data_ptr() for t in tensors]
    sizes, flag = (len(x), n_in, n_out), residual is not None
    _call("second", x.dtype, *pointers, *sizes, basis.grid, *basis.domain, flag)
    if residual is None:
        d_r = None
    return d_h, d_g, d_x, d_u, d_r, d_c, d_b, None


def _targets(network: Network, dtype: torch.dtype, needed: Sequence[bool]) -> list[Tensor | None]:
    """Memory for the gradients in the weights that are needed."""
    targets: list[Tensor | None] = []
    for (size, strides), need in zip(network.layouts, needed, strict=True):
        targets.append(_empty(size, strides, dtype) if need else None)
    return targets


def _empty_like(t: Any) -> Tensor:
    """For one axis or two. The strides of `t` may be any where an axis has one element or none."""
    size = tuple(t.shape)
    return _empty(size, (*size[1:], 1), t.dtype)


def _run(
    name: str,
    network: Network,
    x: Any,
    weights: Weights,
    gradients: Sequence[Tensor | None],
    levels: Sequence[Level],
) -> None:
    """Hand over the weights, the gradients in them and the levels, as network.cc has them."""
    tensors = [*weights, *gradients]
    for level in levels:
        tensors += level
    # An array of Python's own is made in a third of the time that one of ctypes takes.
    pointers = array("Q", [0 if t is None else t.data_ptr() for t in tensors])
    _call(name, x.dtype, *network._header, x.shape[0], pointers.buffer_info()[0])
