"""Initialize the spline layers of a PyTorch module in place."""

import warnings
from typing import Any

from kandle._errors import UserError, must
from kandle.init import Inputs, Scheme
from kandle.interop._report import Report, layer_report
from kandle.interop._scales import check_scheme, layer_scales
from kandle.interop._torch_adapters import ADAPTERS, Adapter, not_spline


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
    parameters that are not known keep them; they are named in a warning and in the report.

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

    found = check_scheme(scheme)
    if not isinstance(module, torch.nn.Module):
        raise must("'module' of initialize_", "a torch.nn.Module", type(module).__name__)
    generator = _generator(seed)
    known, left, unknown = _sort(module)
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
        sigma_r, sigma_b = layer_scales(found, layer, inputs)
        shape = (layer.n_out, layer.n_in, layer.n_basis)
        r = None
        if sigma_r is not None:
            unit = _unit(shape[:2], found.residual_law, generator)
            r = unit * torch.from_numpy(sigma_r)[None, :]
        b = torch.randn(shape, generator=generator, dtype=torch.float64)
        b = b * torch.from_numpy(sigma_b)[None, :, None]
        writes.append((adapter, part, r, b))
        layers.append(layer_report(name, type(part).__name__, layer, sigma_r, sigma_b))
    with torch.no_grad():
        for adapter, part, r, b in writes:
            adapter.write(part, r, b)
    if unknown:
        warnings.warn(
            f"Not initialized, because these parts are not known: {', '.join(unknown)}. "
            "Teach them with kandle.torch.register(adapter).",
            stacklevel=2,
        )
    return Report(found.name, tuple(layers), tuple(left), tuple(unknown))


def _sort(module: Any) -> tuple[list[tuple[str, Any, Adapter]], list[str], list[str]]:
    """The layers to initialize with their adapters, parts known as no splines, and all others."""
    known, left, unknown, inside = [], [], [], set()
    for name, part in module.named_modules():
        if id(part) in inside:
            continue
        adapter = next((a for a in ADAPTERS if a.matches(part)), None)
        if adapter is not None:
            known.append((name or "module", part, adapter))
            inside.update(id(child) for child in part.modules())
        elif next(part.parameters(recurse=False), None) is not None:
            described = f"{name or 'module'} ({type(part).__name__})"
            (left if not_spline(part) else unknown).append(described)
    return known, left, unknown


def _generator(seed: Any) -> Any:
    import torch

    if seed is None or isinstance(seed, torch.Generator):
        return seed
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise must("'seed' of initialize_", "an integer, a torch.Generator or None", seed)
    return torch.Generator().manual_seed(seed)


def _unit(shape: tuple[int, int], law: str, generator: Any) -> Any:
    """Draws of standard deviation one."""
    import torch

    if law == "uniform":
        return (2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1) * 3**0.5
    return torch.randn(shape, generator=generator, dtype=torch.float64)
