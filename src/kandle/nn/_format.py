"""The header of a saved model: its architecture as JSON, and the tensors that must go with it.

    {"version": 1, "dtype": "float32",
     "layers": [{"n_in": 2, "n_out": 8, "grid": 5, "degree": 3, "domain": [-1.0, 1.0],
                 "residual": "silu", "bias": true, "normalized": false, "frozen": false}, …]}

`residual` is a name of `RESIDUALS`, null, or {"custom": "name"} for a function of the caller's own.
Layer l has the tensors `layers.l.c`, `layers.l.b` and, where it has them, `.r`, `.bias`, `.mean`
and `.variance`. Everything in a file is checked against this before it is used.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any

from kandle._errors import UserError, must
from kandle.nn._layer import KANLayer
from kandle.nn._residuals import RESIDUALS, residual_name
from kandle.splines import SplineBasis

VERSION = 1
DTYPES = ("float16", "float32", "float64")


class FormatError(UserError):
    """What a file says about its model is not what `save` writes."""


@dataclass(frozen=True)
class LayerFormat:
    """One layer as the header describes it."""

    n_in: int
    n_out: int
    grid: int
    degree: int
    domain: tuple[float, float]
    residual: str | dict[str, str] | None
    bias: bool
    normalized: bool
    frozen: bool

    @classmethod
    def of(cls, layer: KANLayer) -> "LayerFormat":
        residual: str | dict[str, str] | None = None
        if layer.residual is not None:
            own = {"custom": getattr(layer.residual, "__name__", type(layer.residual).__name__)}
            residual = residual_name(layer.residual) or own
        basis = layer.basis
        if type(basis) is not SplineBasis:  # the file has no place for what another one adds
            raise must("The basis of a layer to save", "a SplineBasis", type(basis).__name__)
        return cls(
            *(layer.n_in, layer.n_out, basis.grid, basis.degree, basis.domain, residual),
            bias=layer.bias is not None,
            normalized=layer.normalized,
            frozen=layer.mean is not None,
        )

    @classmethod
    def parse(cls, given: Any) -> "LayerFormat":
        names = {field.name for field in fields(cls)}
        if not isinstance(given, dict) or given.keys() != names:
            raise FormatError("a layer's description lacks entries or has unknown ones")
        for name in ("n_in", "n_out", "grid", "degree"):
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
        domain = given["domain"]
        if not isinstance(domain, list):
            raise FormatError(f"'domain' of a layer is {domain!r}")
        spec = cls(**{**given, "domain": tuple(domain)})
        if spec.frozen and not spec.normalized:
            raise FormatError("a layer has frozen statistics and does not use any")
        return spec

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the layer's tensors."""
        edges, statistics = (self.n_out, self.n_in), (self.n_in, self.grid + self.degree)
        shapes: dict[str, tuple[int, ...]] = {"c": edges, "b": (self.n_out, *statistics)}
        if self.residual is not None:
            shapes["r"] = edges
        if self.bias:
            shapes["bias"] = (self.n_out,)
        if self.frozen:
            shapes |= {"mean": statistics, "variance": statistics}
        return shapes

    def build(self, tensors: dict[str, Any], own_residual: Callable | None) -> KANLayer:
        """The layer with these tensors; `own_residual` stands in for one without a known name."""
        if isinstance(self.residual, dict):
            residual = own_residual
        else:
            residual = None if self.residual is None else RESIDUALS[self.residual]
        optional = {name: tensors.get(name) for name in ("mean", "variance")}
        return KANLayer(
            *(tensors.get(name) for name in ("r", "c", "b", "bias")),  # pyright: ignore
            **optional,
            basis=SplineBasis(self.grid, self.degree, self.domain),
            residual=residual,
            normalized=self.normalized,
        )


def to_json(dtype: str, layers: list[LayerFormat]) -> str:
    described = [asdict(layer) for layer in layers]
    return json.dumps({"version": VERSION, "dtype": dtype, "layers": described})


def from_json(text: str) -> tuple[str, list[LayerFormat]]:
    """The dtype and the layers of a header, or a `FormatError`."""
    try:
        header = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        raise FormatError("its description is not JSON") from None
    if not isinstance(header, dict) or "version" not in header:
        raise FormatError("its description has no version")
    if header["version"] != VERSION:
        message = f"its format version is {header['version']!r}, this Kandle reads {VERSION}"
        raise FormatError(message)
    if header.keys() != {"version", "dtype", "layers"}:
        raise FormatError("its description lacks entries or has unknown ones")
    if header["dtype"] not in DTYPES:
        raise FormatError(f"its dtype is {header['dtype']!r}")
    if not isinstance(header["layers"], list) or not header["layers"]:
        raise FormatError("it has no layers")
    return header["dtype"], [LayerFormat.parse(layer) for layer in header["layers"]]
