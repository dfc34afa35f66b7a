"""Saving and loading PyTorch networks in Kandle's file format, which JAX networks share."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from kandle._errors import must
from kandle._model_file import (
    LayerFormat,
    check_own_residual,
    errors_name_file,
    read_model,
    write_model,
)
from kandle.bases import BSpline
from kandle.torch._convert import build_layer, layer_arrays
from kandle.torch._network import KAN


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
