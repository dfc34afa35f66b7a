"""Spline layers of PyTorch that are known here: how to read and write each."""

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np

from kandle._errors import UserError, must
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
        layer are to be set to one, and a bias to zero. `assign` writes one parameter, whatever
        its precision and even if it is parametrized. If `write` raises, all layers get their
        weights back.
        """
        ...


class PykanLayer:
    """pykan's `KANLayer`: coef (in, out, basis), scale_base and scale_sp (in, out).

    Masks, and with them pruned and symbolic edges, stay as they are.
    """

    def matches(self, module: Any) -> bool:
        return is_of(module, "KANLayer", "kan")

    def describe(self, module: Any) -> SplineLayer:
        n_in, n_out = module.mask.shape
        return SplineLayer(
            n_in, n_out, to_numpy(module.grid), int(module.k), torch_residual(module.base_fun)
        )

    def write(self, module: Any, r: Any, b: Any) -> None:
        if r is not None:
            assign(module, "scale_base", r.T)
        assign(module, "scale_sp", 1.0)
        assign(module, "coef", b.permute(1, 0, 2))


def affine_of(part: Any) -> Iterator[tuple[Any, float]]:
    """What a pykan `MultKAN` learns on its nodes, and what each is where a network starts."""
    if is_of(part, "MultKAN", "kan"):
        for name, start in (("scale", 1.0), ("bias", 0.0)):
            # The lists are what it computes with; layers that were added later are only there.
            for tensor in (*getattr(part, f"node_{name}"), *getattr(part, f"subnode_{name}")):
                yield tensor, start


class EfficientLayer:
    """efficient-kan's `KANLinear`: base_weight (out, in), spline_weight (out, in, basis)."""

    _needed = ("base_weight", "spline_weight", "grid", "spline_order", "base_activation")

    def matches(self, module: Any) -> bool:
        return is_of(module, "KANLinear") and all(hasattr(module, name) for name in self._needed)

    def describe(self, module: Any) -> SplineLayer:
        n_out, n_in, _ = module.spline_weight.shape
        residual = torch_residual(module.base_activation)
        return SplineLayer(n_in, n_out, to_numpy(module.grid), int(module.spline_order), residual)

    def write(self, module: Any, r: Any, b: Any) -> None:
        if r is not None:
            assign(module, "base_weight", r)
        assign(module, "spline_weight", b)
        if getattr(module, "enable_standalone_scale_spline", False):
            assign(module, "spline_scaler", 1.0)
        if getattr(module, "bias", None) is not None:  # kandle.torch.KANLinear has one
            assign(module, "bias", 0.0)


ADAPTERS: list[Adapter] = [PykanLayer(), EfficientLayer()]


def register(adapter: Adapter) -> None:
    """Make `initialize_` know one more kind of layer; it is asked before those already there."""
    if not isinstance(adapter, Adapter) or isinstance(adapter, type):
        raise must("'adapter'", "an object with methods matches, describe and write", adapter)
    ADAPTERS.insert(0, adapter)


def unregister(adapter: Adapter) -> None:
    """Forget an adapter that `register` was given."""
    places = [i for i, known in enumerate(ADAPTERS) if known is adapter]
    if not places:
        raise UserError(f"Adapter {type(adapter).__name__} is not registered.")
    del ADAPTERS[places[0]]


def assign(module: Any, name: str, values: Any) -> None:
    """Write a parameter of a module, in its own precision and on its own device.

    A parametrized one (`torch.nn.utils.parametrizations`) is computed from others, and writing
    into what was computed would be lost: those others are set to what gives the values. Where
    that is not possible it is an error.

    Args:
        module: the layer.
        name: of the parameter.
        values: a tensor of its shape, or one number for all of it.
    """
    import torch

    current = getattr(module, name)
    values = torch.as_tensor(values, dtype=current.dtype, device=current.device)
    values = values.expand_as(current)
    if torch.nn.utils.parametrize.is_parametrized(module, name):
        try:
            setattr(module, name, values.contiguous())
        except (NotImplementedError, RuntimeError, ValueError) as error:
            raise _computed(module, name) from error
        # An inverse may project, or divide by a norm of zero.
        near, scale = torch.finfo(current.dtype).eps ** 0.5, values.abs().max().item()
        if not torch.allclose(getattr(module, name), values, rtol=near, atol=near * scale):
            raise _computed(module, name)
    elif name in module._parameters or name in module._buffers:
        with torch.no_grad():
            current.copy_(values)
    else:  # as after the older torch.nn.utils.weight_norm
        raise _computed(module, name)


def _computed(module: Any, name: str) -> UserError:
    return UserError(
        f"{name!r} of {type(module).__name__} is computed from other parameters and cannot be set "
        "to the scheme's weights: initialize the layer before it is parametrized."
    )


def to_numpy(tensor: Any) -> np.ndarray:
    if tensor.is_meta:
        raise UserError("A layer on the meta device has no grid to read: give it a real device.")
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
        points = torch.tensor(x, dtype=torch.float64, device="cpu", requires_grad=order == 1)
        with torch.enable_grad():
            y = function(points)
            if order == 1 and not y.requires_grad:  # the same whatever x is
                y = torch.zeros_like(points)
            elif order == 1:
                [y] = torch.autograd.grad(y.sum(), points)
        return y.detach().numpy()

    return residual


def is_of(module: Any, name: str, package: str | None = None) -> bool:
    """Whether a class of that name, of that package, is among the module's classes."""
    return any(
        cls.__name__ == name and (package is None or cls.__module__.split(".")[0] == package)
        for cls in type(module).__mro__
    )
