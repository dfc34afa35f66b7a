"""A fitted network with the scaling between a table's units and its own, saved in one file."""

import contextlib
import json
import numbers
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from kandle._errors import UserError
from kandle.init import SCHEMES, Scheme, from_dict, to_dict
from kandle.nn import KAN, load_metadata, save
from kandle.nn._save import FITTED, build_layer, describe_layer, load_network
from kandle.tabular._encode import Encoder
from kandle.tabular._scaler import Scaler, in_float32

_BLOCK = 1024  # rows per call

# Outputs that vary by less, where targets have unit variance, explain less than a fifth of it.
_HARDLY = 0.1


@dataclass(frozen=True)
class Fitted:
    """A network, and how it reads and writes the units of the data.

    Args:
        model: the network.
        inputs: from the input columns to [-1, 1].
        target: from the target columns to the network's outputs, None for a classifier.
        classes: the class of each output, None for a regression.
        extra: plain values that are saved with it.
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
            described = describe_layer(layer)
            tensors = {name: np.asarray(getattr(layer, name)) for name in described.shapes()}
            layers.append((described, tensors))
        return {**self.__dict__, "model": layers}

    def __setstate__(self, state: dict[str, Any]) -> None:
        layers = (
            build_layer(described, {k: jnp.asarray(v) for k, v in tensors.items()}, None)
            for described, tensors in state["model"]
        )
        self.__dict__.update({**state, "model": KAN.from_layers(layers)})

    def outputs(self, x: np.ndarray) -> np.ndarray:
        """The network's own outputs for inputs in the data's units: (N, n_in) -> (N, n_out)."""
        return self.outputs_of_scaled(self.inputs.apply(x))

    def outputs_of_scaled(self, x: np.ndarray) -> np.ndarray:
        """The network's own outputs for scaled inputs: (N, n_in) -> (N, n_out)."""
        x = in_float32(x).astype(self.model.dtype)
        outputs = []
        for start in range(0, len(x), _BLOCK):
            block = x[start : start + _BLOCK]
            # Filled up, so that one compiled program serves any number of rows.
            padded = np.pad(block, ((0, _BLOCK - len(block)), (0, 0)), mode="edge")
            outputs.append(np.asarray(_forward(self.model, padded))[: len(block)])
        return np.concatenate(outputs).astype(np.float64)

    @property
    def encoder(self) -> Encoder | None:
        """How the columns of a table become the inputs; None if they are the inputs themselves."""
        columns = self.extra.get("columns")
        return None if columns is None else Encoder.from_dict(columns)

    def beyond(self, x: np.ndarray) -> int:
        """How many rows lie outside the range of the data that the network was fitted to."""
        return int((np.abs(self.inputs.apply(x)) > 1 + 1e-9).any(axis=1).sum())

    def hardly_varies(self, x: np.ndarray) -> bool:
        """Whether the predictions for these scaled rows are all but constant."""
        u = self.outputs_of_scaled(x[:: max(1, len(x) // _BLOCK)])
        if self.target is None:  # only differences between the outputs for classes count
            u = u - u.mean(axis=1, keepdims=True)
        return bool(u.std(axis=0).max() < _HARDLY)

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
    # Not `kandle.train.predict`, which recomputes the statistics of a normalized model from x.
    return model(x)


def plain(what: str, value: Any) -> Any:
    """A value as JSON has it, such that `restored` gives it back; NumPy's numbers as Python's.

    >>> restored(plain("widths", (np.int64(3), [1.5])))
    (3, [1.5])
    """
    if value is None or isinstance(value, str):
        return None if value is None else str(value)
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, list):
        return [plain(what, item) for item in value]
    if isinstance(value, tuple | np.ndarray):
        return {"tuple": [plain(what, item) for item in value]}
    raise UserError(f"{what} cannot be saved: there is no plain form of a {type(value).__name__}.")


def restored(value: Any) -> Any:
    """What `plain` was given; an array comes back as a tuple."""
    if isinstance(value, list):
        return [restored(item) for item in value]
    if isinstance(value, dict):
        return tuple(restored(item) for item in value["tuple"])
    return value


def describe_scheme(scheme: str | Scheme) -> str | dict[str, Any]:
    """A scheme for a file: its name, its parameters, or, of an author's own, what it was."""
    if isinstance(scheme, str):
        return scheme
    cls = type(scheme)
    if SCHEMES.get(scheme.name) is not cls:  # only its author could build it again
        return {"own": f"{cls.__module__}.{cls.__qualname__}"}
    return to_dict(scheme)


def restore_scheme(path: Any, description: str | dict[str, Any]) -> str | Scheme:
    """The scheme that a file names; the default, with a warning, for one of an author's own.

    Reading a file must not run code, and neither must a fit that goes on from it: a scheme
    `module:Class` is kept only if its module is loaded already. The saved weights do not depend on
    the scheme: only another fit does.
    """
    if isinstance(description, str):
        module, colon, _ = description.partition(":")
        if not colon or module in sys.modules:
            return description
        own = description
    elif isinstance(description, dict) and "own" in description:
        own = description["own"]
    elif isinstance(description, dict) and description.get("name") in SCHEMES:
        return from_dict(description)
    else:
        raise UserError("'init' is not the description of a scheme")
    warnings.warn(
        f"{path} was fitted with a user-defined scheme, {own}. Its weights are as "
        "they were saved; 'init' is now 'power-law': set it before you fit again.",
        stacklevel=3,
    )
    return "power-law"


def save_fitted(fitted: Fitted, path: str | os.PathLike) -> None:
    """Write everything to one safetensors file, whole or not at all."""
    described = {
        "inputs": fitted.inputs.to_dict(),
        "target": None if fitted.target is None else fitted.target.to_dict(),
        "classes": None if fitted.classes is None else plain("Classes", list(fitted.classes)),
        "extra": fitted.extra,
    }
    save(fitted.model, path, {FITTED: json.dumps(described)})


def load_fitted(path: str | os.PathLike) -> Fitted:
    """Read what `save_fitted` wrote."""
    metadata = load_metadata(path)
    if FITTED not in metadata:
        raise UserError(
            f"{path} is a model without a table's scaling: it was not written by `kandle fit` "
            "or by an estimator."
        )
    model = load_network(path)
    with damage_names_file(path):
        return _from_description(model, json.loads(metadata[FITTED]))


@contextlib.contextmanager
def damage_names_file(path: str | os.PathLike) -> Iterator[None]:
    """Whatever goes wrong while a description is taken apart is damage, in one line."""
    try:
        yield
    except KeyError as error:
        raise UserError(f"{path} has a damaged description of its data: it lacks {error}") from None
    # A number of thousands of digits is a ValueError, one beyond float64 an OverflowError.
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{path} has a damaged description of its data: {reason}") from None


def _from_description(model: KAN, described: Any) -> Fitted:
    """The fit that a file describes, every part of it checked against the others."""
    require(isinstance(described, dict), "it is not an object")
    inputs, target = Scaler.from_dict(described["inputs"]), described["target"]
    target = None if target is None else Scaler.from_dict(target)
    classes, extra = described["classes"], described["extra"]
    require(isinstance(extra, dict), "'extra' is not an object")
    require((target is None) != (classes is None), "it has not one of 'target' and 'classes'")
    require(
        classes is None
        or (isinstance(classes, list) and all(isinstance(c, str | int | float) for c in classes)),
        "'classes' are not texts or numbers",
    )
    fitted = Fitted(model, inputs, target, classes, extra)
    outputs = len(classes or ()) if target is None else len(target.columns)
    widths = len(inputs.columns), outputs
    require(widths == (model.widths[0], model.widths[-1]), "the model has other inputs or outputs")
    encoder = fitted.encoder
    require(
        encoder is None or encoder.names == list(inputs.columns),
        "'columns' are not those of the inputs",
    )
    return fitted


def require(holds: bool, otherwise: str) -> None:
    """An error about a description, unless something holds."""
    if not holds:
        raise UserError(otherwise)
