"""The file of a saved model: safetensors, with the architecture as JSON in the header; no JAX.

    {"version": 1, "dtype": "float32",
     "layers": [{"n_in": 2, "n_out": 8, "grid": 5, "degree": 3, "domain": [-1.0, 1.0],
                 "residual": "silu", "bias": true, "normalized": false, "frozen": false}, …]}

Version 1 describes uniform B-splines, and networks of those are still written in it. In version 2
a layer has `"basis": {"name": "knots", …}`, any basis as its `to_dict`, instead of `grid`, `degree`
and `domain`.

`residual` is a name of `RESIDUALS`, null, or {"custom": "name"} for a function of the caller's own.
Layer l has the tensors `layers.l.c`, `layers.l.b` and, where it has them, `.r`, `.bias`, `.mean`
and `.variance`. Everything in a file is checked against this before it is used.
"""

import contextlib
import hashlib
import json
import os
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from kandle import bases
from kandle._errors import UserError, must
from kandle.bases import Basis, BSpline
from kandle.bases._moments import CLOSED_FORMS as RESIDUALS

VERSIONS = (1, 2)
# What describes a layer's basis in version 1.
_SPLINE = ("grid", "degree", "domain")
DTYPES = ("float16", "float32", "float64")
# Keys of the header that are ours; all others are the caller's metadata.
_ARCHITECTURE, _DIGEST = "kandle", "kandle-sha256"


class FormatError(UserError):
    """A file's description of its model is not one that `save` writes."""


@dataclass(frozen=True)
class LayerFormat:
    """One layer as the header describes it."""

    n_in: int
    n_out: int
    basis: Basis
    residual: str | dict[str, str] | None
    bias: bool
    normalized: bool
    frozen: bool

    @classmethod
    def parse(cls, given: Any, version: int) -> "LayerFormat":
        names = {field.name for field in fields(cls)}
        if version == 1:
            names = names - {"basis"} | set(_SPLINE)
        if not isinstance(given, dict) or given.keys() != names:
            raise FormatError("a layer's description lacks entries or has unknown ones")
        if version == 1:
            for name in ("grid", "degree"):
                if type(given[name]) is not int or given[name] < 1:
                    raise FormatError(f"'{name}' of a layer is {given[name]!r}")
            if not isinstance(given["domain"], list):
                raise FormatError(f"'domain' of a layer is {given['domain']!r}")
            given = {k: v for k, v in given.items() if k not in _SPLINE} | {
                "basis": {"name": "bspline", **{name: given[name] for name in _SPLINE}}
            }
        for name in ("n_in", "n_out"):
            if type(given[name]) is not int or given[name] < 1:
                raise FormatError(f"'{name}' of a layer is {given[name]!r}")
        for name in ("bias", "normalized", "frozen"):
            if type(given[name]) is not bool:
                raise FormatError(f"'{name}' of a layer is {given[name]!r}")
        residual = given["residual"]
        if isinstance(residual, dict):
            if residual.keys() != {"custom"} or not isinstance(residual["custom"], str):
                raise FormatError(f"'residual' of a layer is {residual!r}")
        elif residual is not None and not (isinstance(residual, str) and residual in RESIDUALS):
            raise FormatError(f"'residual' of a layer is {residual!r}")
        if not isinstance(given["basis"], dict):
            raise FormatError(f"'basis' of a layer is {given['basis']!r}")
        _check_imported(given["basis"].get("name"))
        try:
            basis = bases.from_dict(given["basis"])
        except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
            raise FormatError(f"'basis' of a layer: {str(error).removesuffix('.')}") from None
        spec = cls(**{**given, "basis": basis})
        if spec.frozen and not spec.normalized:
            raise FormatError("a layer has frozen statistics and does not use any")
        return spec

    def describe(self, version: int) -> dict[str, Any]:
        """The layer as an entry of the header."""
        described = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "basis":
                described[field.name] = value
            elif version == 1:
                described |= {name: getattr(value, name) for name in _SPLINE}
            else:
                described["basis"] = value.to_dict()
        return described

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the layer's tensors."""
        edges, statistics = (self.n_out, self.n_in), (self.n_in, self.basis.n_basis)
        shapes: dict[str, tuple[int, ...]] = {"c": edges, "b": (self.n_out, *statistics)}
        if self.residual is not None:
            shapes["r"] = edges
        if self.bias:
            shapes["bias"] = (self.n_out,)
        if self.frozen:
            shapes |= {"mean": statistics, "variance": statistics}
        return shapes


def _check_imported(name: Any) -> None:
    """Refuse a basis whose module is not loaded: reading a file must not run code."""
    module = name.partition(":")[0] if isinstance(name, str) and ":" in name else None
    if module is not None and module not in sys.modules:
        raise FormatError(
            f"it uses the basis {name!r} of its author's own, and loading a model runs no code. If "
            f"you trust it, import {module!r} first"
        )


def to_json(dtype: str, layers: list[LayerFormat]) -> str:
    version = 1 if all(type(layer.basis) is BSpline for layer in layers) else 2
    described = [layer.describe(version) for layer in layers]
    return json.dumps({"version": version, "dtype": dtype, "layers": described})


def from_json(text: str) -> tuple[str, list[LayerFormat]]:
    """The dtype and the layers of a header, or a `FormatError`."""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):  # a number of thousands of digits is a ValueError
        raise FormatError("its description is not JSON") from None
    if not isinstance(header, dict) or "version" not in header:
        raise FormatError("its description has no version")
    if header["version"] not in VERSIONS:
        readable = " and ".join(map(str, VERSIONS))
        message = f"its format version is {header['version']!r}, this Kandle reads {readable}"
        raise FormatError(message)
    if header.keys() != {"version", "dtype", "layers"}:
        raise FormatError("its description lacks entries or has unknown ones")
    if header["dtype"] not in DTYPES:
        raise FormatError(f"its dtype is {header['dtype']!r}")
    if not isinstance(header["layers"], list) or not header["layers"]:
        raise FormatError("it has no layers")
    return header["dtype"], [
        LayerFormat.parse(layer, header["version"]) for layer in header["layers"]
    ]


def write_model(
    path: str | os.PathLike,
    dtype: str,
    layers: list[LayerFormat],
    tensors: list[dict[str, np.ndarray]],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a model, whole or not at all; `tensors` are those of each layer by name."""
    if dtype not in DTYPES:
        raise must("The dtype of a model to save", f"one of {', '.join(DTYPES)}", dtype)
    metadata = _check_metadata(metadata or {})
    named = {}
    for l, (layer, values) in enumerate(zip(layers, tensors, strict=True)):
        for name, shape in layer.shapes().items():
            if values[name].shape != shape:
                raise must(f"'{name}' of layer {l}", f"of shape {shape}", values[name].shape)
            named[f"layers.{l}.{name}"] = np.ascontiguousarray(values[name])
    header = {**metadata, _ARCHITECTURE: to_json(dtype, layers)}
    header[_DIGEST] = _digest(header, named)
    _write(Path(path), _ordered(to_bytes(named, header)))


def read_model(
    path: str | os.PathLike,
) -> tuple[str, list[LayerFormat], list[dict[str, np.ndarray]]]:
    """The dtype, the layers and the tensors of each layer of a file that `write_model` wrote."""
    header, tensors = _read(path)
    with errors_name_file(path):
        dtype, layers = from_json(header[_ARCHITECTURE])
        _check_tensors(dtype, layers, tensors)
        if header.get(_DIGEST) != _digest(header, tensors):
            raise FormatError("its checksum does not match: it was changed after it was written")
    return (
        dtype,
        layers,
        [
            {name: tensors[f"layers.{l}.{name}"] for name in layer.shapes()}
            for l, layer in enumerate(layers)
        ],
    )


def check_own_residual(path: str | os.PathLike, layers: list[LayerFormat], residual: Any) -> None:
    """An error unless a residual function is given exactly when the file does not know it."""
    own = [layer.residual["custom"] for layer in layers if isinstance(layer.residual, dict)]
    if own and residual is None:
        raise UserError(
            f"{path} was saved with a residual function of its author's own, {own[0]!r}: "
            "it must be given as load(path, residual=...)."
        )
    if residual is not None and not own:
        raise must("'residual' of load", "None for a model whose residual is known", residual)


def read_metadata(path: str | os.PathLike) -> dict[str, str]:
    """The text that was saved beside a model."""
    header, _ = _read(path)
    return {key: text for key, text in header.items() if key not in (_ARCHITECTURE, _DIGEST)}


def _read(given: str | os.PathLike) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    path = os.fspath(given) if isinstance(given, os.PathLike) else given
    if not isinstance(path, str) or "\0" in path:
        raise must("The path of a model", "text or a pathlib.Path", given)
    path = Path(path)
    if path.is_dir():
        raise UserError(f"{path} is a folder, not a saved model.")
    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            if _ARCHITECTURE not in header:
                raise UserError(f"{path} is a safetensors file, but not one that Kandle saved.")
            return header, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, TypeError, AttributeError) as error:
        raise UserError(f"{path} is damaged or not a saved model: {error}.") from None


@contextlib.contextmanager
def errors_name_file(path: str | os.PathLike):
    """Say which file an error inside is about."""
    try:
        yield
    except UserError as error:
        message = str(error).removesuffix(".")
        raise UserError(f"{path} is not a valid Kandle model: {message}.") from None


def _check_tensors(dtype: str, layers: list[LayerFormat], tensors: dict[str, np.ndarray]) -> None:
    wanted = {
        f"layers.{l}.{name}": shape
        for l, layer in enumerate(layers)
        for name, shape in layer.shapes().items()
    }
    if wrong := wanted.keys() ^ tensors.keys():
        raise FormatError(f"tensors are missing or unknown: {', '.join(sorted(wrong))}")
    for name, shape in wanted.items():
        got = tensors[name]
        if got.shape != shape or got.dtype.name != dtype:
            raise FormatError(
                f"tensor {name!r} is {got.dtype}{list(got.shape)}, "
                f"not {dtype}{list(shape)} as described"
            )


def _digest(header: Mapping[str, str], tensors: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for key in sorted(header.keys() - {_DIGEST}):
        digest.update(repr((key, header[key])).encode())
    for name in sorted(tensors):
        digest.update(repr((name, tensors[name].shape)).encode() + tensors[name].tobytes())
    return digest.hexdigest()


def _ordered(content: bytes) -> bytes:
    """The same file with its metadata in order: safetensors shuffles them, and a model that is
    saved twice should give the same bytes.

    A file is the length of its header (8 bytes), the header as JSON, filled up with blanks to a
    multiple of 8, and the tensors, whose places are counted from the header's end.
    """
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + content[end:]


def _check_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    for key, text in metadata.items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise must("'metadata' of save", "a mapping of text to text", {key: text})
        if key in (_ARCHITECTURE, _DIGEST):
            raise must("A key of 'metadata'", f"other than {_ARCHITECTURE!r}, {_DIGEST!r}", key)
    return dict(metadata)


def _write(path: Path, content: bytes) -> None:
    """Under its name only once it is whole and on disk."""
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
