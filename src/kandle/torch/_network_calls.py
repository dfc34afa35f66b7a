"""The native calls that take a whole network: its values and its first three derivatives.

A "level" is a value at each of h_0, …, h_L, where h_0 = x is the network's input and h_l the output
of layer l. It is given by three tensors, at h_0, at h_1, …, h_{L-1} (one after the other, in one
tensor) and at h_L, with None for what a call is not given or asked for. Weights are r, c, b and
bias of each layer, and None for those that a layer lacks. See `src/native/network.cc`.
"""

import itertools
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kandle.torch import _native
from kandle.torch._context import Gradients

Level = Sequence[Any]  # three tensors or None
Weights = Sequence[Any]

# Memory for a result: (size, strides, dtype). PyTorch's compiled code has a way to it that takes a
# third of the time of `torch.empty`.
_empty: Callable[..., Tensor] = getattr(
    getattr(getattr(torch._C, "_dynamo", None), "guards", None),
    "_empty_strided_cpu",
    lambda size, strides, dtype: torch.empty_strided(size, strides, dtype=dtype),
)


class Shape(NamedTuple):
    """A layer but for its weights."""

    n_in: int
    n_out: int
    grid: int
    degree: int
    residual: bool
    lo: float
    hi: float


def _layouts(shape: Shape) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Sizes and strides of r, c, b and bias."""
    n_in, n_out, bases = shape.n_in, shape.n_out, shape.grid + shape.degree
    yield from [((n_out, n_in), (n_in, 1))] * 2
    yield (n_out, n_in, bases), (n_in * bases, bases, 1)
    yield (n_out,), (1,)


class Network:
    """The layers' shapes, for Python and as the native library reads them."""

    def __init__(self, shapes: Sequence[Shape]):
        self.shapes = tuple(shapes)
        self.widths = (shapes[0].n_in, *(shape.n_out for shape in shapes))
        self.hidden = sum(self.widths[1:-1])
        integers = [int(n) for shape in shapes for n in shape[:5]]
        ends = [end for shape in shapes for end in shape[5:]]
        self._arrays = array("q", integers), array("d", ends)
        # What every call begins with.
        self.header = (*(a.buffer_info()[0] for a in self._arrays), len(shapes))
        self.nothing = (None,) * (4 * len(shapes))
        # Sizes and strides of the weights.
        self.layouts = [layout for shape in shapes for layout in _layouts(shape)]
        # Whether `second` and `third` cover these layers.
        self.takes_second = {
            dtype: all(_native.takes_second(dtype, s.n_out, s.degree) for s in shapes)
            for dtype in (torch.float32, torch.float64)
        }


@lru_cache(maxsize=256)
def network_of(shapes: tuple[tuple, ...]) -> Network | None:
    """The network of layers of these `Shape`s, or None if one does not fit the one before it."""
    layers = [Shape(*shape) for shape in shapes]
    if not layers or any(a.n_out != b.n_in for a, b in itertools.pairwise(layers)):
        return None
    return Network(layers)


def forward(
    network: Network, x: Tensor, weights: Weights, keep: bool
) -> tuple[Tensor, Tensor | None]:
    """h_L of h_0 = x, and with `keep` all h_l between."""
    n, n_out, dtype = x.shape[0], network.widths[-1], x.dtype
    y = _empty((n, n_out), (n_out, 1), dtype)
    hidden = _empty((n * network.hidden,), (1,), dtype) if keep else None
    _call("network_forward", network, x, (*weights, *network.nothing, x, hidden, y))
    return y, hidden


def backward(
    network: Network, h: Level, weights: Weights, g: Tensor, needed: Sequence[bool], keep: bool
) -> tuple[Gradients, Tensor | None]:
    """The gradients of Q₁ = Σ g·h_L in x and the weights, where needed, and in the h_l between."""
    x, hidden = h[:2]
    d_x = _empty_like(x) if needed[0] else None
    between = _empty_like(hidden) if keep else None
    gradients = _targets(network, x.dtype, needed[1:])
    _call("network_backward", network, x, (*weights, *gradients, *h, d_x, between, g))
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

    With `keep` then the derivatives of the h_l along u, and the gradients of Q₂ in the h_l.
    """
    x, hidden = h[:2]
    d_x = _empty_like(x) if needed[0] else None
    d_g = _empty_like(g[2]) if needed[1] else None
    along, slopes = (_empty_like(hidden) if keep else None for _ in range(2))
    gradients = _targets(network, x.dtype, needed[2:])
    gradients[-1] = None  # Q₂ does not depend on the last bias
    levels = *h, *g, u, along, d_g, d_x, slopes, None
    _call("network_second", network, x, (*weights, *gradients, *levels))
    return (d_x, d_g, *gradients), along, slopes


def third(
    network: Network,
    h: Level,
    weights: Weights,
    g: Level,
    u: Level,
    slopes: Level,
    v: Tensor,
    s: Tensor | None,
    needed: Sequence[bool],
) -> Gradients:
    """The gradients of Q₃ = Σ v·∂Q₂/∂x + s·∂Q₂/∂g_L in x, g_L, u and the weights, where needed."""
    x = h[0]
    d_x, d_g, d_u = (
        _empty_like(t) if need else None for t, need in zip((x, g[2], x), needed[:3], strict=True)
    )
    gradients = _targets(network, x.dtype, needed[5:])
    gradients[-1] = None
    levels = *h, *g, *u, *slopes, v, None, None, None, None, d_g, d_u, None, s, d_x, None, None
    _call("network_third", network, x, (*weights, *gradients, *levels))
    return d_x, d_g, d_u, *gradients


def _targets(network: Network, dtype: torch.dtype, needed: Sequence[bool]) -> list[Tensor | None]:
    return [
        _empty(*layout, dtype) if need else None
        for layout, need in zip(network.layouts, needed, strict=True)
    ]


def _empty_like(t: Tensor) -> Tensor:
    """For one axis or two. The strides of `t` may be any where an axis has one element or none."""
    size = tuple(t.shape)
    return _empty(size, (*size[1:], 1), t.dtype)


def _call(name: str, network: Network, x: Tensor, tensors: Sequence[Any]) -> None:
    """Weights, gradients in them and the levels, as the native library has them one by one."""
    # An array of Python's own is made in a third of the time that one of ctypes takes.
    pointers = array("Q", [0 if t is None else t.data_ptr() for t in tensors])
    _native.call(name, x.dtype, *network.header, x.shape[0], pointers.buffer_info()[0])
