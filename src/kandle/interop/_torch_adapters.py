"""Spline layers of PyTorch that are known here: how to read and write each."""

from typing import Any, Protocol, runtime_checkable

import numpy as np

from kandle._errors import must
from kandle.interop._spline import Residual, SplineLayer


@runtime_checkable
class Adapter(Protocol):
    """Three methods that teach `initialize_` one more kind of layer."""

    def matches(self, module: Any) -> bool:
        """Whether this adapter is for that module."""
        ...

    def describe(self, module: Any) -> SplineLayer:
        """The layer's widths, knots, degree and residual function."""
        ...

    def write(self, module: Any, r: Any, b: Any) -> None:
        """Put weights in place: r (n_out, n_in), or None, and b (n_out, n_in, n_basis).

        They are those of y_j = Σ_i [ r_ji R(x_i) + Σ_m b_jim B_m(x_i) ]: further factors of the
        layer are to be set to one, and a bias to zero.
        """
        ...


class PykanLayer:
    """pykan's `KANLayer`: coef (in, out, basis), scale_base and scale_sp (in, out).

    Masks, and with them pruned and symbolic edges, stay as they are.
    """

    def matches(self, module: Any) -> bool:
        return _is(module, "KANLayer", "kan")

    def describe(self, module: Any) -> SplineLayer:
        n_in, n_out = module.mask.shape
        return SplineLayer(
            n_in, n_out, to_numpy(module.grid), int(module.k), torch_residual(module.base_fun)
        )

    def write(self, module: Any, r: Any, b: Any) -> None:
        if r is not None:
            module.scale_base.copy_(r.T)
        module.scale_sp.fill_(1.0)
        module.coef.copy_(b.permute(1, 0, 2))


class EfficientLayer:
    """efficient-kan's `KANLinear`: base_weight (out, in), spline_weight (out, in, basis)."""

    _needed = ("base_weight", "spline_weight", "grid", "spline_order", "base_activation")

    def matches(self, module: Any) -> bool:
        return _is(module, "KANLinear") and all(hasattr(module, name) for name in self._needed)

    def describe(self, module: Any) -> SplineLayer:
        n_out, n_in = module.base_weight.shape
        residual = torch_residual(module.base_activation)
        return SplineLayer(n_in, n_out, to_numpy(module.grid), int(module.spline_order), residual)

    def write(self, module: Any, r: Any, b: Any) -> None:
        if r is not None:
            module.base_weight.copy_(r)
        module.spline_weight.copy_(b)
        if getattr(module, "enable_standalone_scale_spline", False):
            module.spline_scaler.fill_(1.0)


ADAPTERS: list[Adapter] = [PykanLayer(), EfficientLayer()]


def register(adapter: Adapter) -> None:
    """Make `initialize_` know one more kind of layer; it is asked before those already there."""
    if not isinstance(adapter, Adapter) or isinstance(adapter, type):
        raise must("'adapter'", "an object with methods matches, describe and write", adapter)
    ADAPTERS.insert(0, adapter)


def unregister(adapter: Adapter) -> None:
    """Forget an adapter that `register` was given."""
    ADAPTERS.remove(adapter)


def not_spline(module: Any) -> bool:
    """Whether a module is known to be no spline layer: PyTorch's own, and pykan's other parts."""
    owner = type(module).__module__
    return owner.startswith("torch.nn.") or any(
        _is(module, name, "kan") for name in ("MultKAN", "Symbolic_KANLayer")
    )


def to_numpy(tensor: Any) -> np.ndarray:
    return tensor.detach().to("cpu").double().numpy()


def torch_residual(function: Any) -> Residual | None:
    """R and R' over NumPy from a function of tensors, differentiated by PyTorch in float64."""
    import copy

    import torch

    if function is None:
        return None
    if isinstance(function, torch.nn.Module):
        function = copy.deepcopy(function).to("cpu").double()

    def residual(x: np.ndarray, order: int) -> np.ndarray:
        points = torch.tensor(x, dtype=torch.float64, requires_grad=order == 1)
        with torch.enable_grad():
            y = function(points)
            if order == 1:
                [y] = torch.autograd.grad(y.sum(), points)
        return y.detach().numpy()

    return residual


def _is(module: Any, name: str, package: str | None = None) -> bool:
    """Whether a class of that name, of that package, is among the module's classes."""
    return any(
        cls.__name__ == name and (package is None or cls.__module__.split(".")[0] == package)
        for cls in type(module).__mro__
    )
