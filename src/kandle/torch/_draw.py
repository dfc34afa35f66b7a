"""Weights of a layer from a scheme's standard deviations, drawn with PyTorch's generators."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kandle._errors import must
from kandle.init import Inputs, Scheme
from kandle.interop import SplineLayer, layer_scales
from kandle.torch._adapters import torch_residual
from kandle.torch._plain import knot_basis


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
    """r ~ σ_r (of the scheme's law) and b ~ N(0, σ_b²).

    σ_r is (n_in,), σ_b is (n_in,), or (n_in, n_basis) for one value per basis function.
    """
    shape = (layer.n_out, layer.n_in, layer.n_basis)
    r = None
    if sigma_r is not None:
        r = _unit(shape[:2], scheme.residual_law, generator) * torch.from_numpy(sigma_r)
    spread = torch.from_numpy(sigma_b.reshape(layer.n_in, -1))
    return r, _unit(shape, "normal", generator) * spread


def _unit(shape: tuple[int, ...], law: str, generator: torch.Generator | None) -> Tensor:
    """Numbers of standard deviation one."""
    options: dict[str, Any] = {"generator": generator, "dtype": torch.float64, "device": "cpu"}
    if law == "uniform":
        return (2 * torch.rand(shape, **options) - 1) * 3**0.5
    return torch.randn(shape, **options)


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
