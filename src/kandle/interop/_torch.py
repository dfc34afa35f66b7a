"""Initialize the spline layers of a PyTorch module in place."""

import warnings
from collections.abc import Sequence
from typing import Any

from kandle._errors import UserError, must
from kandle.init import Inputs, Scheme
from kandle.interop._report import Report, layer_report
from kandle.interop._scales import check_inputs, check_scheme, check_seed, layer_scales
from kandle.interop._spline import SplineLayer
from kandle.interop._torch_adapters import Adapter
from kandle.interop._torch_parts import sort_parts


def initialize_(
    module: Any,
    scheme: str | Scheme,
    *,
    inputs: Inputs | None = None,
    seed: Any = None,
) -> Report:
    """Start every spline layer of a PyTorch module anew, in place.

    Known are pykan's `KANLayer`, efficient-kan's `KANLinear`, and what `register` was given. A
    layer's grid is read from it, moments are computed on its knots, uniform or not. Parts with
    parameters that are not known keep them; they are named in a warning and in the report. After
    an error the module is as it was.

    Args:
        module: one layer or a network of them.
        scheme: of `kandle.init`, or its name; LeCun-normalized is refused.
        inputs: the distribution that the scheme assumes for every layer's inputs; None is uniform
            over the domain of each layer's own grid.
        seed: an integer, a `torch.Generator` on the CPU, or None for PyTorch's global generator.

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
        parts = ", ".join(left + unknown) or "no parameters at all"
        raise UserError(
            f"There is no spline layer that is known here in {type(module).__name__}: it has "
            f"{parts}. Other layers can be taught with kandle.torch.register(adapter)."
        )

    # All is drawn before anything is written: an error leaves the module as it was.
    layers, writes = [], []
    for name, part, adapter in known:
        layer = adapter.describe(part)
        if not isinstance(layer, SplineLayer):
            what = f"What 'describe' of adapter {type(adapter).__name__} returns"
            raise must(what, "a kandle.torch.SplineLayer", layer)
        sigma_r, sigma_b = layer_scales(found, layer, inputs)
        shape = (layer.n_out, layer.n_in, layer.n_basis)
        r = None
        if sigma_r is not None:
            unit = _unit(shape[:2], found.residual_law, generator)
            r = unit * torch.from_numpy(sigma_r)[None, :]
        b = torch.randn(shape, generator=generator, dtype=torch.float64)
        b = b * torch.from_numpy(sigma_b)[None, :, None]
        writes.append((name, adapter, part, r, b))
        layers.append(layer_report(name, type(part).__name__, layer, sigma_r, sigma_b))
    _write_all(writes)
    if unknown:
        warnings.warn(
            f"Not initialized, because these parts are not known: {', '.join(unknown)}. "
            "Teach them with kandle.torch.register(adapter).",
            stacklevel=2,
        )
    return Report(found.name, tuple(layers), tuple(left), tuple(unknown))


def _write_all(writes: Sequence[tuple[str, Adapter, Any, Any, Any]]) -> None:
    """Write every layer, or none: if one cannot be written, all get their weights back."""
    kept = [_Kept(inner) for _, _, part, _, _ in writes for inner in part.modules()]
    try:
        for one in writes:
            _write(*one)
    except BaseException:
        for module in kept:
            module.restore()
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

        self._module = module
        plain = {k: v for k, v in vars(module).items() if isinstance(v, torch.Tensor)}
        self._places = (
            (vars(module), plain),
            (module._parameters, dict(module._parameters)),
            (module._buffers, dict(module._buffers)),
        )
        tensors = [t for _, named in self._places for t in named.values() if t is not None]
        self._values = [(tensor, tensor.detach().clone()) for tensor in tensors]

    def restore(self) -> None:
        import torch

        for place, named in self._places:
            place.update(named)
        with torch.no_grad():
            for tensor, values in self._values:
                tensor.copy_(values)


def _generator(seed: Any) -> Any:
    import torch

    if seed is None or isinstance(seed, torch.Generator):
        return seed
    return torch.Generator().manual_seed(
        check_seed("'seed' of initialize_ (or a torch.Generator, or None)", seed)
    )


def _unit(shape: tuple[int, int], law: str, generator: Any) -> Any:
    """Draws of standard deviation one."""
    import torch

    if law == "uniform":
        return (2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1) * 3**0.5
    return torch.randn(shape, generator=generator, dtype=torch.float64)
