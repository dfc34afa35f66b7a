"""Saving and loading: weights as safetensors, the architecture in the file's header, no code."""

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from kandle._errors import UserError, must
from kandle.nn._format import DTYPES, FormatError, LayerFormat, from_json, to_json
from kandle.nn._network import KAN

# Keys of the header that are ours; all others are the caller's metadata.
_ARCHITECTURE, _DIGEST = "kandle", "kandle-sha256"


def save(model: KAN, path: str | os.PathLike, metadata: Mapping[str, str] | None = None) -> None:
    """Write a model to a safetensors file, whole or not at all.

    Args:
        model: one network (not a stack of them).
        path: the file to write or replace.
        metadata: text to keep beside the model, see `load_metadata`.

    A residual function without a name in `RESIDUALS` is recorded by its Python name only, and must
    be given to `load`.
    """
    dtype = jnp.dtype(model.dtype).name
    if dtype not in DTYPES:
        raise must("The dtype of a model to save", f"one of {', '.join(DTYPES)}", dtype)
    metadata = _check_metadata(metadata or {})
    layers = [LayerFormat.of(layer) for layer in model.layers]
    tensors = {}
    for l, (layer, described) in enumerate(zip(model.layers, layers, strict=True)):
        for name, shape in described.shapes().items():
            tensor = np.asarray(getattr(layer, name))
            if tensor.shape != shape:
                raise must(f"'{name}' of layer {l}", f"of shape {shape}", tensor.shape)
            tensors[f"layers.{l}.{name}"] = np.ascontiguousarray(tensor)
    header = {**metadata, _ARCHITECTURE: to_json(dtype, layers)}
    header[_DIGEST] = _digest(header, tensors)
    _write(Path(path), _ordered(to_bytes(tensors, header)))


def load(path: str | os.PathLike, *, residual: Callable[[Array], Array] | None = None) -> KAN:
    """Read a model that `save` wrote.

    Args:
        path: the file.
        residual: the residual function, of a model saved with one of the caller's own.
    """
    header, tensors = _read(Path(path))
    with _complaining(path):
        dtype, layers = from_json(header[_ARCHITECTURE])
        _check_tensors(dtype, layers, tensors)
        if header.get(_DIGEST) != _digest(header, tensors):
            raise FormatError("its checksum does not match: it was changed after it was written")
    if dtype == "float64" and jnp.result_type(float) != np.float64:
        raise UserError(
            f"{path} holds a float64 model: it must be loaded with double precision on, "
            "jax.config.update('jax_enable_x64', True)."
        )
    own = [layer.residual["custom"] for layer in layers if isinstance(layer.residual, dict)]
    if own and residual is None:
        raise UserError(
            f"{path} was saved with a residual function of its author's own, {own[0]!r}: "
            "it must be given as load(path, residual=...)."
        )
    if residual is not None and not own:
        raise must("'residual' of load", "None for a model whose residual is known", residual)
    with _complaining(path):
        return KAN.from_layers(
            layer.build(
                {name: jnp.asarray(tensors[f"layers.{l}.{name}"]) for name in layer.shapes()},
                residual,
            )
            for l, layer in enumerate(layers)
        )


def load_metadata(path: str | os.PathLike) -> dict[str, str]:
    """The text that was saved beside a model."""
    header, _ = _read(Path(path))
    return {key: text for key, text in header.items() if key not in (_ARCHITECTURE, _DIGEST)}


def _read(path: Path) -> tuple[dict[str, str], dict[str, np.ndarray]]:
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
def _complaining(path: str | os.PathLike):
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
