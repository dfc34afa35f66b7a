"""Whether a network is exactly what the native calls compute.

`KAN.forward` asks this in every call: weights may be replaced, moved or reshaped at any time,
layers may get hooks, grids may move. A `Plan` is the answer for one state of the network; comparing
the network with its plan is cheaper than making the plan.
"""

import operator
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import nn

from kandle.bases import BSpline
from kandle.torch._context import has_memory
from kandle.torch._layer import KANLinear
from kandle.torch._network_calls import Network, network_of
from kandle.torch._residuals import is_fused_residual

_WEIGHTS = ("base_weight", "spline_scaler", "spline_weight", "bias")


class Plan:
    """The weights of a network and its shapes, as `_network_calls` takes them.

    Args:
        dtype: of the inputs and of all weights.
        layers: each with its weights as the module has them, and its basis.
        weights: of all layers, as the native calls take them.
        sizes: of those weights; () for those that are None.
    """

    def __init__(
        self,
        network: Network,
        dtype: torch.dtype,
        layers: Sequence[tuple[nn.Module, Sequence[Any], BSpline]],
        weights: Sequence[Any],
        sizes: Sequence[tuple[int, ...]],
    ):
        self.network, self.weights = network, weights
        self._dtype, self._layers = dtype, layers
        self._sizes = [(w, s) for w, s in zip(weights, sizes, strict=True) if w is not None]
        # Other tensors are made for one call: keeping them would keep the graphs that they are of.
        own = [w for _, given, _ in layers for w in given if w is not None]
        self.is_lasting = all(type(w) is nn.Parameter for w in own)

    def holds(self, layers: Collection[nn.Module], dtype: torch.dtype) -> bool:
        """Whether these layers are still those of the plan, and nothing about them has changed."""
        if dtype is not self._dtype or len(layers) != len(self._layers):
            return False
        for layer, (known, weights, basis) in zip(layers, self._layers, strict=True):
            own = layer.__dict__
            if not (
                layer is known
                and own["_basis"] is basis
                and _is_plain(own)
                and all(map(operator.is_, _weights(own), weights))
            ):
                return False
        return self.fits()

    def fits(self) -> bool:
        """Whether the weights are what the kernels read: `Tensor.data` can be set to anything."""
        dtype = self._dtype
        for w, size in self._sizes:
            if not (w.shape == size and w.dtype is dtype and w.is_cpu and w.is_contiguous()):
                return False
        return True


def plan_of(layers: Collection[nn.Module], dtype: torch.dtype) -> Plan | None:
    """The plan of these layers; None where only calling each of them will do."""
    parts, weights, sizes, shapes = [], [], [], []
    for layer in layers:
        if type(layer) is not KANLinear:
            return None
        layer._follow_grid()
        own = layer.__dict__
        given = _weights(own)
        if not _is_plain(own) or not all(map(has_memory, given)):
            return None
        basis, edges = layer._basis, (layer.out_features, layer.in_features)
        parts.append((layer, given, basis))
        r, c, b, bias = given
        weights += [r, torch.ones(edges, dtype=dtype) if c is None else c, b, bias]
        sizes += [edges, edges, (*edges, basis.n_basis), edges[:1]]
        shapes.append((*edges[::-1], basis.grid, basis.degree, r is not None, *basis.domain))
    network = network_of(tuple(shapes))
    if network is None:
        return None
    plan = Plan(network, dtype, parts, weights, sizes)
    return plan if plan.fits() else None


# What follows reads attributes from the modules' dictionaries: `nn.Module` would search for them,
# and every network comes here in every call.


def _weights(own: dict[str, Any]) -> list[Any]:
    parameters = own["_parameters"]
    return [parameters[name] if name in parameters else own.get(name) for name in _WEIGHTS]


def _is_plain(own: dict[str, Any]) -> bool:
    """Whether a `KANLinear` with these attributes is no more than its kernel."""
    if (
        own["_forward_pre_hooks"]
        or own["_forward_hooks"]
        or own["_backward_pre_hooks"]
        or own["_backward_hooks"]
        or "forward" in own
        or own.get("_compiled_call_impl") is not None
        or own["normalized"]
        or not own["_is_uniform"]
    ):
        return False
    seen, version, address = own["_seen_grid"]
    grid = own["_buffers"]["grid"]
    if grid is not seen or grid.data_ptr() != address:
        return False
    if not grid.is_inference() and grid._version != version:
        return False
    modules = own["_modules"]
    R = modules["base_activation"] if "base_activation" in modules else own["base_activation"]
    return R is None or is_fused_residual(R)
