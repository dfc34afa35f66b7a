"""A fitted network with all that leads from a table's units to its own and back."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from kandle._errors import UserError
from kandle.nn import KAN, load, load_metadata, save
from kandle.nn._format import LayerFormat
from kandle.problems import Scaler

# The key of the model file's header that holds scaling and names, as JSON.
_KEY = "kandle-fit"
_BLOCK = 1024  # rows a call


@dataclass(frozen=True)
class Fitted:
    """A network and its place in the world of the data.

    - `inputs`: from the input columns to [-1, 1];
    - `target`: from the target columns to the network's outputs, None for a classifier;
    - `classes`: what the outputs stand for, None for a regression;
    - `extra`: plain values that the caller keeps beside.
    """

    model: KAN
    inputs: Scaler
    target: Scaler | None = None
    classes: Sequence[Any] | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        # A residual function of JAX cannot be pickled; its name can.
        layers = []
        for layer in self.model.layers:
            described = LayerFormat.of(layer)
            tensors = {name: np.asarray(getattr(layer, name)) for name in described.shapes()}
            layers.append((described, tensors))
        return {**self.__dict__, "model": layers}

    def __setstate__(self, state: dict[str, Any]) -> None:
        layers = (
            described.build({k: jnp.asarray(v) for k, v in tensors.items()}, None)
            for described, tensors in state["model"]
        )
        self.__dict__.update({**state, "model": KAN.from_layers(layers)})

    def outputs(self, x: np.ndarray) -> np.ndarray:
        """The network's own outputs for inputs in the data's units: (N, n_in) -> (N, n_out)."""
        scaled = self.inputs.apply(x)
        # Beyond float32 nothing can be told apart, and infinities would be an error.
        x = np.clip(scaled, -1e30, 1e30).astype(self.model.dtype)
        outputs = []
        for start in range(0, len(x), _BLOCK):
            block = x[start : start + _BLOCK]
            # Filled up, so that one compiled program serves any number of rows.
            padded = np.pad(block, ((0, _BLOCK - len(block)), (0, 0)), mode="edge")
            outputs.append(np.asarray(_forward(self.model, padded))[: len(block)])
        return np.concatenate(outputs).astype(np.float64)

    def values(self, x: np.ndarray) -> np.ndarray:
        """Predictions in the target's units: (N, n_in) -> (N, n_targets)."""
        if self.target is None:
            raise UserError("A classifier predicts classes, not values.")
        return self.target.invert(self.outputs(x))

    def probabilities(self, x: np.ndarray) -> np.ndarray:
        """softmax of the outputs: (N, n_in) -> (N, n_classes)."""
        u = self.outputs(x)
        e = np.exp(u - u.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)


@eqx.filter_jit
def _forward(model: KAN, x):
    # Not `kandle.train.predict`, which takes the statistics of a normalized model from x anew.
    return model(x)


def save_fitted(fitted: Fitted, path: str | os.PathLike) -> None:
    """Write everything to one safetensors file, whole or not at all."""
    described = {
        "inputs": fitted.inputs.to_dict(),
        "target": None if fitted.target is None else fitted.target.to_dict(),
        "classes": None if fitted.classes is None else list(fitted.classes),
        "extra": fitted.extra,
    }
    save(fitted.model, path, {_KEY: json.dumps(described)})


def load_fitted(path: str | os.PathLike) -> Fitted:
    """Read what `save_fitted` wrote."""
    metadata = load_metadata(path)
    if _KEY not in metadata:
        raise UserError(
            f"{path} is a model without a table's scaling: it was not written by `kandle fit` "
            "or by an estimator."
        )
    model = load(path)
    try:
        described = json.loads(metadata[_KEY])
        inputs = Scaler.from_dict(described["inputs"])
        target = described["target"]
        target = None if target is None else Scaler.from_dict(target)
        classes, extra = described["classes"], described["extra"]
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} has a damaged description of its data: {error}") from None
    outputs = len(target.columns) if target is not None else len(classes or ())
    if model.widths[0] != len(inputs.columns) or model.widths[-1] != outputs:
        raise UserError(f"{path} has a model that does not fit the description of its data.")
    return Fitted(model, inputs, target, classes, extra)
