"""Saving and loading JAX networks in the format of `kandle._model_file`."""

import os
from collections.abc import Callable, Mapping

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from kandle._errors import UserError
from kandle._model_file import (
    LayerFormat,
    check_own_residual,
    errors_name_file,
    read_metadata,
    read_model,
    write_model,
)
from kandle.nn._layer import KANLayer
from kandle.nn._network import KAN
from kandle.nn._residuals import RESIDUALS, residual_name

# The key of metadata that describes the scaling of a network that was fitted to a table.
FITTED = "kandle-fit"


def save(model: KAN, path: str | os.PathLike, metadata: Mapping[str, str] | None = None) -> None:
    """Write a model to a safetensors file, whole or not at all.

    Args:
        model: one network (not a stack of them).
        path: the file to write or replace.
        metadata: text to keep beside the model, see `load_metadata`.

    Any basis that `kandle.bases.from_dict` finds again is stored with its parameters. A residual
    function without a name in `RESIDUALS` is recorded by its Python name only, and must be given to
    `load`.
    """
    layers = [describe_layer(layer) for layer in model.layers]
    tensors = [
        {name: np.asarray(getattr(layer, name)) for name in described.shapes()}
        for layer, described in zip(model.layers, layers, strict=True)
    ]
    write_model(path, jnp.dtype(model.dtype).name, layers, tensors, metadata)


def load(path: str | os.PathLike, *, residual: Callable[[Array], Array] | None = None) -> KAN:
    """Read a model that `save` wrote.

    Args:
        path: the file.
        residual: the residual function, of a model saved with one of the caller's own.

    A network that was fitted to a table needs its scaling: `kandle.tabular.load_fitted` reads both.
    """
    if FITTED in load_metadata(path):
        raise UserError(
            f"{path} was fitted to a table, and its network alone would take and return scaled "
            "numbers. Read it with kandle.tabular.load_fitted, or with the load method of the "
            "estimator that saved it."
        )
    return load_network(path, residual)


def load_network(path: str | os.PathLike, residual: Callable[[Array], Array] | None = None) -> KAN:
    """Read the network in a file alone, without the scaling that it may have been fitted with."""
    dtype, layers, tensors = read_model(path)
    if dtype == "float64" and jnp.result_type(float) != np.float64:
        raise UserError(
            f"{path} holds a float64 model: it must be loaded with double precision enabled, "
            "jax.config.update('jax_enable_x64', True)."
        )
    check_own_residual(path, layers, residual)
    with errors_name_file(path):
        return KAN.from_layers(
            build_layer(
                layer, {name: jnp.asarray(value) for name, value in values.items()}, residual
            )
            for layer, values in zip(layers, tensors, strict=True)
        )


def load_metadata(path: str | os.PathLike) -> dict[str, str]:
    """The text that was saved beside a model."""
    return read_metadata(path)


def describe_layer(layer: KANLayer) -> LayerFormat:
    residual: str | dict[str, str] | None = None
    if layer.residual is not None:
        own = {"custom": getattr(layer.residual, "__name__", type(layer.residual).__name__)}
        residual = residual_name(layer.residual) or own
    return LayerFormat(
        *(layer.n_in, layer.n_out, layer.basis, residual),
        bias=layer.bias is not None,
        normalized=layer.normalized,
        frozen=layer.mean is not None,
    )


def build_layer(
    layer: LayerFormat, tensors: dict[str, Array], own_residual: Callable | None
) -> KANLayer:
    """The layer with these tensors; `own_residual` stands in for one without a known name."""
    if isinstance(layer.residual, dict):
        residual = own_residual
    else:
        residual = None if layer.residual is None else RESIDUALS[layer.residual]
    return KANLayer(
        *(tensors.get(name) for name in ("r", "c", "b", "bias")),  # pyright: ignore
        mean=tensors.get("mean"),
        variance=tensors.get("variance"),
        basis=layer.basis,
        residual=residual,
        normalized=layer.normalized,
    )
