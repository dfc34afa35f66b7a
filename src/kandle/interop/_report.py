"""What an initialization did and what it left alone."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class LayerReport:
    """One layer that was initialized; σ are means over its inputs."""

    name: str
    kind: str
    n_in: int
    n_out: int
    n_basis: int
    sigma_r: float | None
    sigma_b: float


@dataclass(frozen=True)
class Report:
    """The outcome of an initialization.

    Attributes:
        scheme: the scheme's name.
        layers: the layers that were initialized.
        left: "name (Type)" of parts with parameters that are known not to be spline layers.
        unknown: the same for parts that nothing here knows; they keep their weights.
        reset: the same for parts whose scales and biases became one and zero.
    """

    scheme: str
    layers: tuple[LayerReport, ...]
    left: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    reset: tuple[str, ...] = ()

    def __str__(self) -> str:
        layers = "1 layer" if len(self.layers) == 1 else f"{len(self.layers)} layers"
        lines = [f"{self.scheme}: {layers} initialized"]
        for layer in self.layers:
            sigma_r = "none" if layer.sigma_r is None else f"{layer.sigma_r:.4g}"
            lines.append(
                f"  {layer.name} ({layer.kind}, {layer.n_in} -> {layer.n_out}, "
                f"{layer.n_basis} basis functions): "
                f"sigma_r = {sigma_r}, sigma_b = {layer.sigma_b:.4g}"
            )
        others = {
            "scales and biases set to one and zero": self.reset,
            "left as they are": self.left,
            "not known": self.unknown,
        }
        for title, parts in others.items():
            if parts:
                lines.append(f"{title}: {', '.join(parts)}")
        return "\n".join(lines)


def layer_report(name: str, kind: str, layer, sigma_r, sigma_b) -> LayerReport:
    return LayerReport(
        name,
        kind,
        layer.n_in,
        layer.n_out,
        layer.n_basis,
        None if sigma_r is None else float(np.mean(sigma_r)),
        float(np.mean(sigma_b)),
    )
