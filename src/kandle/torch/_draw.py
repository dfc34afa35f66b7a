"""Weights of a layer from a scheme's standard deviations, drawn with PyTorch's generators."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kandle._errors import must
from kandle.init import Inputs, Scheme, draw_weights
from kandle.interop import SplineLayer, layer_scales
from kandle.torch._adapters import torch_residual
from kandle.torch._plain import knot_basis

_OPTIONS: dict[str, Any] = {"dtype": torch.float64, "device": "cpu"}


def draw(
    scheme: Scheme,
    n_in: int,
    n_out: int,
    knots: np.ndarray,
    degree: int,
    residual: Any,
    inputs: Inputs | None,
    generator: torch.Generator | None,
) -> tuple[Tensor | None, Tensor]:
    """(r, b) of a layer in float64 on the CPU; r is None without a residual."""
    if inputs is not None and not isinstance(inputs, Inputs):
        raise must("'inputs'", "a distribution such as init.Uniform(-1, 1), or None", inputs)
    layer = SplineLayer(n_in, n_out, knots, degree, torch_residual(residual))
    return draw_scaled(scheme, layer, *layer_scales(scheme, layer, inputs), generator)


def draw_scaled(
    scheme: Scheme,
    layer: SplineLayer,
    sigma_r: np.ndarray | None,
    sigma_b: np.ndarray,
    generator: torch.Generator | None,
) -> tuple[Tensor | None, Tensor]:
    """(r, b) with the scheme's distributions.

    σ_r is (n_in,), σ_b is (n_in,), or (n_in, n_basis) for one value per basis function.
    """
    shape = (layer.n_out, layer.n_in, layer.n_basis)
    scales_r = None if sigma_r is None else torch.from_numpy(sigma_r)
    scales_b = torch.from_numpy(sigma_b.reshape(layer.n_in, -1))
    source = GeneratorSource(generator)
    sources = (source, source)
    r, _, b = draw_weights(shape, scales_r, scales_b, law=scheme.residual_law, sources=sources)
    return r, b


@dataclass(frozen=True)
class GeneratorSource:
    """A generator of PyTorch, or the global one, as a source of `init`, in float64 on the CPU."""

    generator: torch.Generator | None

    def normal(self, shape: tuple[int, ...]) -> Tensor:
        return torch.randn(shape, generator=self.generator, **_OPTIONS)

    def uniform(self, shape: tuple[int, ...]) -> Tensor:
        return (2 * torch.rand(shape, generator=self.generator, **_OPTIONS) - 1) * 3**0.5

    def ones(self, shape: tuple[int, ...]) -> Tensor:
        return torch.ones(shape, **_OPTIONS)


def draw_like_efficient_kan(
    module: Any, noise: float, base: float, spline: float, generator: torch.Generator | None
) -> None:
    """efficient-kan's own initialization of a `KANLinear`.

        r ~ U(±√(6 / ((1 + 5 s_base²) n_in))),    c likewise with s_spline,

    and b such that the splines pass through uniform noise of ± s_noise / (2 G) at the grid points,
    with the smallest weights that do. Without c, b is multiplied by s_spline.
    """

    def uniform(scale: float) -> Tensor:
        end = math.sqrt(6 / ((1 + 5 * scale**2) * module.in_features))
        return (2 * torch.rand(edges, generator=generator, dtype=torch.float64) - 1) * end

    edges = (module.out_features, module.in_features)
    if module.base_weight is not None:
        module.base_weight.copy_(uniform(base))
    G, k = module.grid_size, module.spline_order
    knots = module.grid.double().cpu()
    values = torch.rand((*edges, G + 1), generator=generator, dtype=torch.float64) - 0.5
    B = knot_basis(knots[:, k : G + k + 1].T, knots, k).permute(1, 0, 2)  # (n_in, G + 1, M)
    inverse = torch.linalg.pinv(B)  # (n_in, M, G + 1)
    b = torch.einsum("img,oig->oim", inverse, values * noise / G)
    if module.spline_scaler is not None:
        module.spline_scaler.copy_(uniform(spline))
    else:
        b = b * spline
    module.spline_weight.copy_(b)
