"""Networks from and to other libraries, JAX and files, with the same outputs."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from kandle._errors import UserError, must
from kandle._model_file import (
    LayerFormat,
    check_own_residual,
    errors_name_file,
    read_model,
    write_model,
)
from kandle.bases import BSpline
from kandle.torch._adapters import is_of
from kandle.torch._layer import KANLinear
from kandle.torch._network import KAN
from kandle.torch._residuals import residual_name

if TYPE_CHECKING:
    from kandle import nn as kandle_nn


def from_kandle(model: "kandle_nn.KAN", *, residual: Any = None) -> KAN:
    """The PyTorch network with the weights of a Kandle network in JAX.

    Args:
        model: with uniform B-splines in every layer.
        residual: the residual function of tensors, for a network with one of the caller's own.
    """
    from kandle.nn._residuals import residual_name as name_in_jax

    layers = []
    for l, layer in enumerate(model.layers):
        if type(layer.basis) is not BSpline:
            requirement = "a uniform B-spline, kandle.bases.BSpline"
            raise must(f"The basis of layer {l}", requirement, type(layer.basis).__name__)
        R = None if layer.residual is None else name_in_jax(layer.residual)
        if layer.residual is not None and R is None:
            if residual is None:
                raise UserError(
                    f"The residual function of layer {l} has no name that PyTorch knows: give the "
                    "same function of tensors as from_kandle(model, residual=...)."
                )
            R = residual
        weights = {name: getattr(layer, name) for name in ("r", "c", "b", "bias")}
        statistics = {name: getattr(layer, name) for name in ("mean", "variance")}
        arrays = {
            name: None if array is None else np.array(array)
            for name, array in (weights | statistics).items()
        }
        layers.append(build_layer(layer.basis, R, layer.normalized, arrays))
    return KAN.from_layers(layers)


def to_kandle(model: KAN, *, residual: Any = None) -> "kandle_nn.KAN":
    """The Kandle network in JAX with the weights of a PyTorch network.

    Args:
        model: on uniform grids.
        residual: the residual function in JAX, for a network with one of the caller's own.
    """
    import jax.numpy as jnp

    from kandle.nn import KAN as JaxKAN
    from kandle.nn import KANLayer, get_residual

    if not isinstance(model, KAN):
        raise must("'model' of to_kandle", "a kandle.torch.KAN", type(model).__name__)
    layers = []
    for l, layer in enumerate(model.layers):
        basis, name, arrays = layer_arrays(layer, f"layers[{l}]")
        if arrays["b"].dtype == np.float64 and jnp.result_type(float) != np.float64:
            raise UserError(
                "A float64 network needs double precision in JAX: "
                "jax.config.update('jax_enable_x64', True)."
            )
        R = None
        if layer.base_activation is not None:
            R = get_residual(residual if name is None else name)
            if R is None:
                raise UserError(
                    f"The residual function of layers[{l}] has no name that JAX knows: give the "
                    "same function of arrays as to_kandle(model, residual=...)."
                )
        given: Any = {key: None if a is None else jnp.asarray(a) for key, a in arrays.items()}
        layers.append(KANLayer(**given, basis=basis, residual=R, normalized=layer.normalized))
    return JaxKAN.from_layers(layers)


def from_module(module: nn.Module) -> KAN | KANLinear:
    """The same function as a spline network of another library, on Kandle's layers.

    efficient-kan's `KANLinear` and pykan's `KANLayer` become a `KANLinear`; efficient-kan's `KAN`
    and pykan's `MultKAN` a `KAN`. Weights are copied. Networks whose grids were adapted to data
    keep their knots, and run on PyTorch's operations.

    pykan's networks must have additive nodes only, no symbolic edges, and read all inputs; masks,
    scales and biases of nodes go into the weights.
    """
    if is_of(module, "KANLayer", "kan"):
        return _from_pykan_layer(module)
    if is_of(module, "MultKAN", "kan"):
        return _from_pykan(module)
    if is_of(module, "KANLinear") and not isinstance(module, KANLinear):
        return _from_efficient_layer(module)
    layers = getattr(module, "layers", None)
    theirs = isinstance(layers, nn.ModuleList) and all(
        is_of(layer, "KANLinear") and not isinstance(layer, KANLinear) for layer in layers
    )
    if theirs and layers:
        return KAN.from_layers(_from_efficient_layer(layer) for layer in layers)
    requirement = "a network or layer of efficient-kan or pykan"
    raise must("'module' of from_module", requirement, type(module).__name__)


def _from_efficient_layer(module: Any) -> KANLinear:
    c = module.spline_scaler if module.enable_standalone_scale_spline else None
    return _build(
        module.grid, int(module.spline_order), module.base_activation, module.base_weight, c,
        module.spline_weight, None,
    )  # fmt: skip


def _from_pykan_layer(module: Any, scale: Tensor | None = None, shift=None) -> KANLinear:
    mask = module.mask.T
    if scale is not None:
        mask = mask * scale[:, None]
    return _build(
        module.grid, int(module.k), module.base_fun, module.scale_base.T * mask,
        module.scale_sp.T * mask, module.coef.permute(1, 0, 2), shift,
    )  # fmt: skip


def _from_pykan(module: Any) -> KAN:
    if any(sum(width[1:]) for width in module.width if isinstance(width, list | tuple)):
        raise UserError("A pykan network with multiplication nodes cannot be converted.")
    columns = module.input_id.tolist()
    if columns != list(range(len(columns))):
        raise UserError(
            f"A pykan network that reads the columns {columns} of its inputs cannot be converted: "
            f"set its input_id to torch.arange({len(columns)}), and pass x[:, {columns}] to the "
            "result."
        )
    layers = []
    for l, layer in enumerate(module.act_fun):
        if module.symbolic_enabled and bool((module.symbolic_fun[l].mask != 0).any()):
            raise UserError(f"A pykan network with symbolic edges (layer {l}) cannot be converted.")
        inner, outer = module.subnode_scale[l].flatten(), module.node_scale[l].flatten()
        shift = module.subnode_bias[l].flatten() * outer + module.node_bias[l].flatten()
        layers.append(_from_pykan_layer(layer, inner * outer, shift))
    return KAN.from_layers(layers)


def _build(
    knots: Tensor, degree: int, R: Any, r: Tensor, c: Any, b: Tensor, bias: Any
) -> KANLinear:
    n_out, n_in, _ = b.shape
    options = {"device": b.device, "dtype": b.dtype}
    layer = KANLinear(
        n_in,
        n_out,
        knots.shape[1] - 1 - 2 * degree,
        degree,
        enable_standalone_scale_spline=c is not None,
        residual=R,
        bias=bias is not None,
        **options,
    )
    with torch.no_grad():
        layer.grid.copy_(knots)
        layer._watched_grid.follow(layer.grid)
        given = {"base_weight": r, "spline_scaler": c, "spline_weight": b, "bias": bias}
        for name, value in given.items():
            if value is not None:
                getattr(layer, name).copy_(value)
    return layer


def layer_arrays(layer: KANLinear, what: str) -> tuple[BSpline, str | None, dict[str, Any]]:
    """The basis, the residual's name (None if it has none) and the arrays of a layer in JAX."""
    if layer.domain is None:
        raise UserError(f"{what} has a non-uniform grid, which Kandle's format does not describe.")
    n_out, n_in = layer.out_features, layer.in_features
    c = layer.spline_scaler
    named = {
        "r": layer.base_weight,
        "c": layer.spline_weight.new_ones(n_out, n_in) if c is None else c,
        "b": layer.spline_weight,
        "bias": layer.bias,
        "mean": layer.basis_mean,
        "variance": layer.basis_variance,
    }
    arrays = {k: None if t is None else t.detach().cpu().numpy().copy() for k, t in named.items()}
    return layer._watched_grid.basis, residual_name(layer.base_activation), arrays


def build_layer(
    basis: BSpline, residual: Any, normalized: bool, arrays: dict[str, Any]
) -> KANLinear:
    """A layer from its basis and arrays, the inverse of `layer_arrays`."""
    tensors = {k: None if a is None else torch.from_numpy(a) for k, a in arrays.items()}
    b = tensors["b"]
    assert b is not None
    n_out, n_in, _ = b.shape
    layer = KANLinear(
        n_in,
        n_out,
        basis.grid,
        basis.degree,
        init="lecun-normalized" if normalized else None,
        residual=residual,
        bias=tensors["bias"] is not None,
        domain=basis.domain,
        dtype=b.dtype,
    )
    names = {"r": "base_weight", "c": "spline_scaler", "b": "spline_weight", "bias": "bias"}
    with torch.no_grad():
        for key, name in names.items():
            if tensors[key] is not None:
                getattr(layer, name).copy_(tensors[key])
    layer.basis_mean, layer.basis_variance = tensors.get("mean"), tensors.get("variance")
    return layer


# ---- Kandle's file format ------------------------------------------------------------------------


def save(model: KAN, path: str | os.PathLike, metadata: Mapping[str, str] | None = None) -> None:
    """Write a network to a safetensors file that `kandle.load` reads too.

    Args:
        model: on uniform grids.
        path: the file to write or replace.
        metadata: text to keep beside the model, see `kandle.nn.load_metadata`.
    """
    if not isinstance(model, KAN):
        raise must("'model' of save", "a kandle.torch.KAN", type(model).__name__)
    layers, tensors = [], []
    for l, layer in enumerate(model.layers):
        basis, name, arrays = layer_arrays(layer, f"layers[{l}]")
        R = layer.base_activation
        own = {"custom": getattr(R, "__name__", type(R).__name__)}
        layers.append(
            LayerFormat(
                layer.in_features,
                layer.out_features,
                basis,
                None if R is None else name or own,
                bias=layer.bias is not None,
                normalized=layer.normalized,
                frozen=layer.basis_mean is not None,
            )
        )
        tensors.append(arrays)
    write_model(path, str(tensors[0]["b"].dtype), layers, tensors, metadata)


def load(path: str | os.PathLike, *, residual: Any = None) -> KAN:
    """Read a network that `save` or `kandle.save` wrote.

    Args:
        path: the file.
        residual: the residual function of tensors, of a model saved with one of the author's own.
    """
    _, layers, tensors = read_model(path)
    check_own_residual(path, layers, residual)
    built = []
    with errors_name_file(path):
        for l, (layer, arrays) in enumerate(zip(layers, tensors, strict=True)):
            if not isinstance(layer.basis, BSpline):
                requirement = "a uniform B-spline for kandle.torch"
                raise must(f"The basis of layer {l}", requirement, type(layer.basis).__name__)
            R = residual if isinstance(layer.residual, dict) else layer.residual
            missing: dict[str, np.ndarray | None] = dict.fromkeys(("r", "bias", "mean", "variance"))
            built.append(build_layer(layer.basis, R, layer.normalized, missing | arrays))
    return KAN.from_layers(built)
