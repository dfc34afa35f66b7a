"""Which way a call takes, and why not a faster one: what depends on the call and on the module.

    one call    the whole network in one native call
    per layer   one native call per layer
    plain       PyTorch's own operations

What depends on the layers' bases, sizes and types alone is decided in `kandle._route`. Here follows
what a call may meet: devices, compilers, transforms and tracers; hooks and grids that were moved;
cotangents that no native call takes. A function named `…_obstacle` returns None where the faster
way is open, else the reason why not. All of PyTorch's paths ask these functions, and so does
`kandle.kernels.route`.
"""

import itertools
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.modules.module import _has_any_global_hook

from kandle._errors import must
from kandle._route import LayerSpec, Route, network_obstacle
from kandle.torch import _native
from kandle.torch._grids import WatchedGrid, has_memory
from kandle.torch._native import Network

# ---- what takes part in a call -------------------------------------------------------------------

# Layers of these types compute in float32, which the kernels do.
LOW_PRECISION = (torch.float16, torch.bfloat16)


def tensor_obstacle(x: Tensor) -> str | None:
    """Why the kernels cannot read a tensor like this one."""
    if _native.UNAVAILABLE is not None:
        return _native.UNAVAILABLE
    if not x.is_cpu:
        return "the kernels run on the CPU, and the inputs are elsewhere"
    if x.dtype not in _native.DTYPES:
        return "the kernels compute in float32 and float64"
    return None


def kernel_obstacle(x: Tensor) -> str | None:
    """Why no native call can compute anything at x, so that PyTorch's own operations have to.

    These can be exported to ONNX and differentiated in forward mode, and run on every device.
    """
    if torch.jit.is_tracing():  # pyright: ignore[reportPrivateImportUsage]
        return "torch.jit traces the call"
    if torch.onnx.is_in_onnx_export():
        return "the call is exported to ONNX"
    if forward_ad._current_level >= 0:
        return "the kernels have no derivatives in forward mode"
    return tensor_obstacle(x)


def eager_obstacle(*tensors: Tensor | None) -> str | None:
    """What takes part in a call besides autograd: a compiler, a transform, a mode or a tracer.

    Where nothing does, an `autograd.Function` may read the memory of these tensors.
    """
    if torch.compiler.is_compiling():
        return "torch.compile traces the call"
    if torch._C._are_functorch_transforms_active():
        return "a transform of torch.func is active"
    if torch._C._len_torch_dispatch_stack():
        return "a dispatch mode is active"
    if torch.jit.is_tracing():  # pyright: ignore[reportPrivateImportUsage]
        return "torch.jit traces the call"
    for tensor in tensors:
        if not has_memory(tensor):
            return "a tensor is of a subclass, or belongs to a transform of torch.func"
    return None


def is_transformed() -> bool:
    """Whether a transform of `torch.func` is active, outside of the compiler."""
    return not torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active()


def derivative_obstacle(
    network: Network | None,
    cotangents: Sequence[Tensor | None],
    of_weights: Sequence[Tensor | None],
) -> str | None:
    """Why a second or third derivative has to be composed of operators.

    Args:
        network: None if the operands are of no single network.
        cotangents: of the gradient in x first, then of what else is differentiated.
        of_weights: those of the gradients in the weights.
    """
    if network is None:
        return "the native calls take one model, and a direction in x"
    for cotangent in of_weights:
        if cotangent is not None:
            return "gradients in the weights are differentiated"
    first = cotangents[0]
    if first is None and network.alone:  # whose third derivative can do without one of the two
        first = cotangents[1]
    if first is None:
        return "the gradient in x is not differentiated"
    return eager_obstacle(*cotangents) or network.derivatives_obstacles[first.dtype]


# ---- what a layer does beside its formula --------------------------------------------------------

# Modules' attributes are read from their dictionaries here: `nn.Module` would search for them, and
# every network comes here in every call.

_WEIGHTS = ("base_weight", "spline_scaler", "spline_weight", "bias")


def residual_obstacle(R: Any) -> str | None:
    """Why the kernels do not compute a residual function along with the splines."""
    if R is None or R is nn.functional.silu:
        return None
    if type(R) is not nn.SiLU:
        return "its residual function is not SiLU"
    reason = _module_obstacle(R.__dict__)
    return None if reason is None else f"its residual function has to be called: {reason}"


def knots_obstacle(grid: WatchedGrid) -> str | None:
    """Why the kernels, which take equal intervals, do not compute the splines of a layer."""
    return None if grid.is_uniform else "its knots are not uniform"


def layer_obstacle(grid: WatchedGrid, x: Tensor) -> str | None:
    """Why a layer has to run on PyTorch's own operations, at inputs like x."""
    return knots_obstacle(grid) or kernel_obstacle(x)


def _module_obstacle(attributes: dict[str, Any]) -> str | None:
    """Why a module has to be called, whatever it computes."""
    if (
        attributes["_forward_pre_hooks"]
        or attributes["_forward_hooks"]
        or attributes["_backward_pre_hooks"]
        or attributes["_backward_hooks"]
    ):
        return "it has hooks"
    if "forward" in attributes:
        return "its forward was replaced"
    if attributes.get("_compiled_call_impl") is not None:
        return "it is compiled by itself"
    return None


def _weight_of(attributes: dict[str, Any], name: str) -> Any:
    parameters = attributes["_parameters"]
    return parameters[name] if name in parameters else attributes.get(name)


def _residual_of(attributes: dict[str, Any]) -> Any:
    modules = attributes["_modules"]
    if "base_activation" in modules:
        return modules["base_activation"]
    return attributes["base_activation"]


# ---- a whole network -----------------------------------------------------------------------------


class _Seen(NamedTuple):
    """A layer at the time of planning."""

    layer: nn.Module
    basis: Any
    residual: Any
    weights: Sequence[Any]


class Plan:
    """A network as the native calls take it, for as long as nothing about its layers changes.

    Comparing the network with its plan is cheaper than making the plan.

    Args:
        network: the layers.
        dtype: of the inputs and of all weights.
        seen: the layers as they were.
        weights: of all layers, for the native calls.
    """

    def __init__(
        self, network: Network, dtype: torch.dtype, seen: Sequence[_Seen], weights: Sequence[Any]
    ):
        self.network, self.weights = network, weights
        self._dtype, self._seen = dtype, seen
        # Which layer a weight belongs to, and its size.
        self._sizes: list[tuple[int, Tensor, tuple[int, ...]]] = []
        for position, (weight, (size, _)) in enumerate(zip(weights, network.layouts, strict=True)):
            if weight is not None:
                self._sizes.append((position // len(_WEIGHTS), weight, size))
        # Other tensors are made for one call: keeping them would keep the graphs that they are of.
        self.is_lasting = True
        for layer in seen:
            for weight in layer.weights:
                if weight is not None and type(weight) is not nn.Parameter:
                    self.is_lasting = False

    def holds(self, layers: Collection[nn.Module], dtype: torch.dtype) -> bool:
        """Whether these are still the layers of the plan, and nothing about them has changed."""
        if dtype is not self._dtype or len(layers) != len(self._seen):
            return False
        for layer, (seen, basis, residual, weights) in zip(layers, self._seen, strict=True):
            if layer is not seen:
                return False
            attributes = layer.__dict__
            grid, R = attributes["_watched_grid"], _residual_of(attributes)
            if not (
                grid.basis is basis
                and grid.is_uniform
                and grid.has_seen(attributes["_buffers"]["grid"])
                and R is residual
                and residual_obstacle(R) is None
                and not attributes["normalized"]
                and _module_obstacle(attributes) is None
            ):
                return False
            for name, weight in zip(_WEIGHTS, weights, strict=True):
                if _weight_of(attributes, name) is not weight:
                    return False
        return self.weights_obstacle() is None

    def weights_obstacle(self) -> str | None:
        """Why the kernels cannot read the weights: `Tensor.data` can be set to anything."""
        dtype = self._dtype
        for index, w, size in self._sizes:
            if not (w.shape == size and w.dtype is dtype and w.is_cpu and w.is_contiguous()):
                requirement = f"contiguous tensors of {dtype} on the CPU, of the layer's shape"
                return f"layers[{index}]: its weights are not all {requirement}"
        return None


def one_call(model: nn.Module, x: Tensor) -> tuple[Plan | None, str | None]:
    """The plan of a KAN whose layers are one native call at x; None with the reason otherwise."""
    reason = kernel_obstacle(x) or eager_obstacle(x)
    if reason is not None:
        return None, reason
    if _has_any_global_hook():
        return None, "hooks of all modules are registered"
    attributes = model.__dict__
    module_list = attributes["_modules"].get("layers")
    if type(module_list) is not nn.ModuleList:
        return None, "its layers are not in a ModuleList"
    layers = module_list._modules.values()
    plan = attributes.get("_plan")
    if plan is None or not plan.holds(layers, x.dtype):
        plan, reason = _planned(layers, x.dtype)
        if plan is None:
            return None, reason
        if plan.is_lasting:
            attributes["_plan"] = plan
    network = plan.network
    if x.shape[-1] != network.widths[0]:
        return None, f"{x.shape[-1]} inputs, the network takes {network.widths[0]}"
    if x.requires_grad:
        # They may be differentiated twice, which takes less time layer by layer.
        reason = network.derivatives_obstacles[x.dtype]
        if reason is not None:
            return None, f"the inputs require gradients; of their derivatives, {reason}"
    return plan, None


def _planned(layers: Collection[nn.Module], dtype: torch.dtype) -> tuple[Plan | None, str | None]:
    """The plan of these layers; None with the reason where they have to be called one by one."""
    from kandle.torch._layer import KANLinear  # not above: layers ask this module as well

    specs, seen, weights = [], [], []
    for index, layer in enumerate(layers):
        attributes = layer.__dict__
        if type(layer) is not KANLinear:
            return None, f"layers[{index}]: a {type(layer).__name__} may compute something else"
        grid = attributes["_watched_grid"]
        grid.follow(attributes["_buffers"]["grid"])
        R = _residual_of(attributes)
        present = [_weight_of(attributes, name) for name in _WEIGHTS]
        reason = _module_obstacle(attributes) or residual_obstacle(R) or knots_obstacle(grid)
        if reason is None and not all(map(has_memory, present)):
            reason = "its weights are of a subclass, or belong to a transform of torch.func"
        if reason is not None:
            return None, f"layers[{index}]: {reason}"
        r, c, b, bias = present
        if R is None:
            r = None
        if c is None:
            c = torch.ones(layer.out_features, layer.in_features, dtype=dtype)
        residual = None if r is None else "silu"
        sizes = (layer.in_features, layer.out_features)
        specs.append(LayerSpec(*sizes, grid.basis, residual, layer.normalized))
        seen.append(_Seen(layer, grid.basis, R, present))
        weights += [r, c, b, bias]
    network, reason = _network_of(tuple(specs), dtype)
    if network is None:
        return None, reason
    plan = Plan(network, dtype, seen, weights)
    reason = plan.weights_obstacle()
    return (plan, None) if reason is None else (None, reason)


@lru_cache(maxsize=256)
def _network_of(
    specs: tuple[LayerSpec, ...], dtype: torch.dtype
) -> tuple[Network | None, str | None]:
    """The network of these layers, one for all modules that have them, or None with the reason."""
    if not specs:
        return None, "it has no layers"
    for index, (layer, following) in enumerate(itertools.pairwise(specs), start=1):
        if layer.n_out != following.n_in:
            return None, f"layers[{index}]: {following.n_in} inputs, {layer.n_out} are there"
    reason = network_obstacle(specs, _native.DTYPES[dtype])
    return (Network(specs), None) if reason is None else (None, reason)


# ---- the answer for users ------------------------------------------------------------------------


def _replaced(model: nn.Module) -> str | None:
    """Why a call of a network may not reach the `forward` of a `KAN`."""
    from kandle.torch._network import KAN

    if type(model).forward is not KAN.forward:
        return f"a {type(model).__name__} may compute something else"
    if "forward" in model.__dict__:
        return "its forward was replaced"
    if model.__dict__.get("_compiled_call_impl") is not None:
        return "it is compiled by itself"
    return None


def route(model: Any, x: Any, y: Any = None) -> Route:
    """`kandle.kernels.route` of a `KAN` or `KANLinear`."""
    from kandle.torch._layer import KANLinear

    if not isinstance(x, Tensor) or x.dim() == 0 or x.layout != torch.strided:
        got = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
        raise must("'x' of route", "a tensor with an axis of inputs, and not a sparse one", got)
    if y is not None:
        raise must("'y' of route", "None for a module of kandle.torch", type(y).__name__)
    if hasattr(model, "layers"):
        layers = list(model.layers)
        no_single_call = _replaced(model) or one_call(model, x)[1]
    else:
        layers = [model]
        no_single_call = "the model is a layer, and the call takes networks"
    reasons = []
    for layer in layers:
        if not isinstance(layer, KANLinear):
            reasons.append(f"a {type(layer).__name__} is no layer of Kandle")
            continue
        grid, dtype = layer._watched_grid, layer.spline_weight.dtype
        grid.follow(layer.grid)
        if dtype in LOW_PRECISION:
            dtype = torch.float32
        reasons.append(layer_obstacle(grid, x.detach()[:0].to(dtype)))
    # A network runs plain where all of its layers do: others use the kernels that there are.
    no_kernels = None if None in reasons else reasons[0]
    return Route.first(no_single_call, no_kernels)
