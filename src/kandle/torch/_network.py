"""A network of KAN layers as a PyTorch module."""

import copy
import itertools
import numbers
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from kandle._errors import must
from kandle._route import Route, route_of
from kandle.init import Inputs, Scheme
from kandle.torch import _derivatives, _route
from kandle.torch._layer import KANLinear


class KAN(nn.Module):
    """A spline Kolmogorov-Arnold network.

    Args:
        layers_hidden: (n_0, …, n_L): inputs, hidden layers, outputs.
        grid_size: G, the number of intervals; one for all layers, or one per layer.
        sample: inputs, (N, n_0), for schemes that adapt the weights to data, such as "data".

    The other arguments are those of `KANLinear`, the same for every layer.

    Example:
        >>> import torch
        >>> from kandle.torch import KAN
        >>> model = KAN([2, 8, 1], grid_size=5, spline_order=3)
        >>> model(torch.zeros(4, 10, 2)).shape
        torch.Size([4, 10, 1])
    """

    layers: Any  # an nn.ModuleList of KANLinear

    def __init__(
        self,
        layers_hidden: Sequence[int],
        grid_size: int | Sequence[int] = 5,
        spline_order: int = 3,
        scale_noise: float | None = None,
        scale_base: float | None = None,
        scale_spline: float | None = None,
        base_activation: Any = None,
        grid_eps: float | None = None,
        grid_range: Sequence[float] | None = None,
        *,
        enable_standalone_scale_spline: bool = True,
        init: str | Scheme | None = None,
        residual: Any = "silu",
        bias: bool = True,
        domain: Sequence[float] = (-1.0, 1.0),
        inputs: Inputs | None = None,
        sample: Tensor | None = None,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        widths = _check_widths(layers_hidden)
        grids = _check_grids(grid_size, len(widths) - 1)
        self.layers = nn.ModuleList(
            KANLinear(
                n_in,
                n_out,
                grid,
                spline_order,
                scale_noise,
                scale_base,
                scale_spline,
                enable_standalone_scale_spline,
                base_activation,
                grid_eps,
                grid_range,
                init=init,
                residual=residual,
                bias=bias,
                domain=domain,
                inputs=inputs,
                device=device,
                dtype=dtype,
            )
            for (n_in, n_out), grid in zip(itertools.pairwise(widths), grids, strict=True)
        )
        self._adapt(sample)

    @classmethod
    def from_layers(cls, layers: Iterable[KANLinear]) -> Self:
        """A network of ready layers, each as wide as the next one takes in."""
        layers = list(layers)
        if not layers:
            raise must("'layers' of KAN.from_layers", "at least one layer", layers)
        for i, (a, b) in enumerate(itertools.pairwise(layers)):
            if a.out_features != b.in_features:
                requirement = f"a layer of {a.out_features} inputs"
                raise must(f"'layers[{i + 1}]'", requirement, f"{b.in_features} inputs")
        network = cls.__new__(cls)
        nn.Module.__init__(network)
        network.layers = nn.ModuleList(layers)
        return network

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the plan of calls, which belongs to the weights in memory."""
        return {name: value for name, value in self.__dict__.items() if name != "_plan"}

    @property
    def widths(self) -> tuple[int, ...]:
        """(n_0, …, n_L)."""
        return (self.layers[0].in_features, *(layer.out_features for layer in self.layers))

    @property
    def grid_size(self) -> int | tuple[int, ...]:
        """G of all layers, or one per layer where they differ."""
        sizes = tuple(layer.grid_size for layer in self.layers)
        return sizes[0] if len(set(sizes)) == 1 else sizes

    @property
    def spline_order(self) -> int:
        """k of the splines."""
        return self.layers[0].spline_order

    def forward(self, x: Tensor, update_grid: bool = False) -> Tensor:
        """(..., n_0) -> (..., n_L); with `update_grid`, every layer's grid follows its inputs."""
        y = None if update_grid else _derivatives.evaluate(self, x)
        if y is not None:
            return y
        for layer in self.layers:
            if update_grid:
                layer.update_grid(x)
            x = layer(x)
        return x

    @torch.no_grad()
    def update_grid(self, x: Tensor, margin: float = 0.01) -> None:
        """`KANLinear.update_grid` of every layer, on what that layer is given for x."""
        for layer in self.layers:
            layer.update_grid(x, margin)
            x = layer(x)

    def refine(self, grid_size: int | Sequence[int]) -> None:
        """`KANLinear.refine` of every layer, with one grid size for all or one per layer."""
        for layer, grid in zip(self.layers, _check_grids(grid_size, len(self.layers)), strict=True):
            layer.refine(grid)

    @torch.no_grad()
    def freeze(self, x: Tensor) -> "KAN":
        """`KANLinear.freeze` of every layer, on what that layer is given for x."""
        for layer in self.layers:
            x = layer.freeze(x)(x)
        return self

    def reset_parameters(
        self,
        init: str | Scheme | None = None,
        *,
        inputs: Inputs | None = None,
        sample: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        """`KANLinear.reset_parameters` of every layer; then adaptation to the sample, if any."""
        for layer in self.layers:
            layer.reset_parameters(init, inputs=inputs, generator=generator)
        self._adapt(sample)

    @torch.no_grad()
    def _adapt(self, sample: Tensor | None) -> None:
        """What a scheme does with a sample of the inputs; this needs JAX."""
        scheme = self.layers[0].init
        if self.layers[0].grid.is_meta or not scheme.needs_data:
            if sample is not None:
                raise must("'sample' of KAN", f"None under scheme {scheme.name!r}", "a tensor")
            return
        if sample is None:
            if getattr(scheme, "sample_required", False):
                raise must("'sample' of KAN", f"a tensor under scheme {scheme.name!r}", None)
            return
        from kandle.torch._convert import to_kandle

        adapted = scheme.adapt(to_kandle(copy.deepcopy(self).float()), sample.cpu().numpy())
        for layer, other in zip(self.layers, adapted.layers, strict=True):
            named = {"base_weight": other.r, "spline_weight": other.b, "bias": other.bias}
            for name, weights in named.items():
                if weights is not None:
                    getattr(layer, name).copy_(torch.from_numpy(np.array(weights)))

    def regularization_loss(
        self,
        regularize_activation: float = 1.0,
        regularize_entropy: float = 1.0,
        x: Tensor | None = None,
    ) -> Tensor:
        """The sum of `KANLinear.regularization_loss` over all layers."""
        total = torch.zeros((), device=self.layers[0].grid.device)
        for layer in self.layers:
            total = total + layer.regularization_loss(regularize_activation, regularize_entropy, x)
            x = None if x is None else layer(x)
        return total


@route_of.register
def _(model: KAN, x: Any, y: Any = None) -> Route:
    return _route.route(model, x, y)


def _check_widths(widths: Any) -> tuple[int, ...]:
    requirement = "at least two integers of at least 1, such as [2, 8, 8, 1]"
    try:
        given = tuple(widths)
    except TypeError:
        raise must("'layers_hidden' of KAN", requirement, widths) from None
    valid = all(isinstance(n, numbers.Integral) and not isinstance(n, bool) for n in given)
    if len(given) < 2 or not valid or min(given) < 1:
        raise must("'layers_hidden' of KAN", requirement, widths)
    return tuple(int(n) for n in given)


def _check_grids(grid: Any, n_layers: int) -> tuple[int, ...]:
    if isinstance(grid, list | tuple):
        if len(grid) != n_layers:
            raise must("'grid_size' of KAN", f"one integer, or {n_layers}, one per layer", grid)
        return tuple(grid)
    return (grid,) * n_layers
