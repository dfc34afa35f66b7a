"""Initialize the spline layers of a PyTorch module in place."""

import itertools
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from kandle._errors import UserError, must
from kandle.init import Inputs, Scheme
from kandle.interop._report import LayerReport, Report, layer_report
from kandle.interop._scales import (
    check_inputs,
    check_scheme,
    check_seed,
    layer_scales,
    naming,
)
from kandle.interop._spline import SplineLayer
from kandle.torch._adapters import Adapter, affine_of, is_compiled, kind, label, sort_parts
from kandle.torch._draw import draw_scaled

# The name of a layer, what writes it, the layer, r and b.
_Write = tuple[str, Adapter, Any, Any, Any]


def initialize_(
    module: Any,
    scheme: str | Scheme,
    *,
    inputs: Inputs | None = None,
    seed: Any = None,
) -> Report:
    """Initialize every spline layer of a PyTorch module, in place.

    Known are pykan's `KANLayer`, efficient-kan's `KANLinear`, and what `register` was given. A
    layer's grid is read from it, moments are computed on its knots, uniform or not. Parts with
    parameters that are not known keep them; they are named in a warning and in the report, and so
    are the layers of a module that was traced, scripted or exported. The scales and biases that a
    pykan `MultKAN` has on its nodes become one and zero; its masks, and with them pruned and
    symbolic edges, stay. After an error the module is as it was.

    Args:
        module: one layer or a network of them.
        scheme: of `kandle.init`, or its name; LeCun-normalized is refused.
        inputs: the distribution that the scheme assumes for every layer's inputs; None is uniform
            over the domain of each layer's own grid.
        seed: an integer from -2**63 to 2**63 - 1, a `torch.Generator` on the CPU, or None for
            PyTorch's global generator. All is drawn on the CPU, whatever the default device.

    Example:
        >>> from kandle import init, torch
        >>> torch.initialize_(model, init.PowerLaw(0.25, 1.75))  # doctest: +SKIP
    """
    import torch

    found, inputs = check_scheme(scheme), check_inputs(inputs)
    if not isinstance(module, torch.nn.Module):
        raise must("'module' of initialize_", "a torch.nn.Module", type(module).__name__)
    generator = _generator(seed)
    known, left, unknown = sort_parts(module)
    if not known:
        raise _nothing_known(module, left + unknown)
    # Neither what is computed here nor what an adapter computes goes to a default device.
    with torch.device("cpu"):
        # All is drawn before anything is written: an error leaves the module as it was.
        drawn = [_draw(*one, found, inputs, generator) for one in known]
        affine = {label(n, p): list(affine_of(p)) for n, p in module.named_modules()}
        _write_all([write for write, _ in drawn], list(itertools.chain(*affine.values())))
    if unknown:
        warnings.warn(
            f"Not initialized, because these parts are not known: {', '.join(unknown)}. "
            "Teach them with kandle.torch.register(adapter).",
            stacklevel=2,
        )
    reset = tuple(name for name, tensors in affine.items() if tensors)
    left = tuple(name for name in left if name not in reset)
    layers = tuple(layer for _, layer in drawn)
    return Report(found.name, layers, left, tuple(unknown), reset)


def _nothing_known(module: Any, parts: Sequence[str]) -> UserError:
    if any(is_compiled(part) for part in module.modules()):
        advice = (
            "A module that was traced, scripted or exported must be initialized before that: its "
            "layers can no longer be identified."
        )
    elif any("rbf" in name.lower() or "radial" in name.lower() for name in parts):
        advice = (
            "Radial functions, as in FastKAN, have no knots that an adapter could describe. Take "
            "the scales from the scheme, sigma_r, sigma_b = kandle.init.get(scheme).scales(n_in, "
            "n_out, basis=kandle.bases.RBF(8, domain=(-2, 2))), and draw with "
            "torch.nn.init.normal_; or train kandle.KAN(widths, kandle.bases.RBF(8))."
        )
    else:
        advice = "Other layers can be taught with kandle.torch.register(adapter)."
    return UserError(
        f"There is no spline layer that is known here in {kind(module)}: it has "
        f"{', '.join(parts) or 'no parameters at all'}. {advice}"
    )


def _draw(
    name: str, part: Any, adapter: Adapter, scheme: Scheme, inputs: Inputs | None, generator: Any
) -> tuple[_Write, LayerReport]:
    """What is to be written into a layer, and the report of it."""
    with naming(name):
        layer = _described(adapter, part)
        if not isinstance(layer, SplineLayer):
            what = f"What 'describe' of adapter {type(adapter).__name__} returns"
            raise must(what, "a kandle.torch.SplineLayer", layer)
        sigma_r, sigma_b = layer_scales(scheme, layer, inputs)
    r, b = draw_scaled(scheme, layer, sigma_r, sigma_b, generator)
    report = layer_report(name, type(part).__name__, layer, sigma_r, sigma_b)
    return (name, adapter, part, r, b), report


def _described(adapter: Adapter, part: Any) -> Any:
    try:
        return adapter.describe(part)
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"'describe' of adapter {type(adapter).__name__} ends in {type(error).__name__}: "
            f"{' '.join(str(error).split())}"
        ) from error


def _write_all(writes: Sequence[_Write], affine: Sequence[tuple[Any, float]]) -> None:
    """Write all, or nothing: if a layer cannot be written, all tensors get their values back."""
    import torch

    kept = [_Kept(inner) for _, _, part, _, _ in writes for inner in part.modules()]
    values = _values(tensor for tensor, _ in affine)
    try:
        with torch.no_grad():
            for tensor, value in affine:
                tensor.fill_(value)
        for one in writes:
            _write(*one)
    except BaseException:
        for module in kept:
            module.restore()
        _put_back(values)
        raise


def _write(name: str, adapter: Adapter, part: Any, r: Any, b: Any) -> None:
    import torch

    try:
        with torch.no_grad():
            adapter.write(part, r, b)
    except UserError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())
        raise UserError(
            f"Adapter {type(adapter).__name__} could not write layer {name!r}, and nothing was "
            f"changed: {type(error).__name__}: {reason}"
        ) from error


class _Kept:
    """The tensors of one module, their values, and where they belong."""

    def __init__(self, module: Any):
        import torch

        plain = {k: v for k, v in vars(module).items() if isinstance(v, torch.Tensor)}
        self._places = [(vars(module), plain)]
        for place in (module._parameters, module._buffers):
            if isinstance(place, dict):  # a script, as an activation may be, has none to put back
                self._places.append((place, dict(place)))
        own = (*module.parameters(recurse=False), *module.buffers(recurse=False))
        self._values = _values([*plain.values(), *own])

    def restore(self) -> None:
        for place, named in self._places:
            place.update(named)
        _put_back(self._values)


def _values(tensors: Iterable[Any]) -> list[tuple[Any, Any]]:
    return [(tensor, tensor.detach().clone()) for tensor in tensors]


def _put_back(values: list[tuple[Any, Any]]) -> None:
    import torch

    with torch.no_grad():
        for tensor, value in values:
            tensor.copy_(value)


def _generator(seed: Any) -> Any:
    import torch

    what = "'seed' of initialize_ (or a torch.Generator, or None)"
    if isinstance(seed, torch.Generator) and seed.device.type != "cpu":
        raise must(what, "a generator on the CPU", f"one on {seed.device}")
    if seed is None or isinstance(seed, torch.Generator):
        return seed
    return torch.Generator("cpu").manual_seed(check_seed(what, seed))
