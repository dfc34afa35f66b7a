"""Which parts of a PyTorch module are spline layers, which are none, and which nobody knows."""

import re
from collections.abc import Iterator
from typing import Any

from kandle.interop._torch_adapters import ADAPTERS, Adapter, is_of

# Layers of splines, or of bases like them, by how they are called and by what they keep.
_NAME = re.compile(r"KAN|Kan(?![a-z])|[Ss]pline")
_GRIDS = ("grid", "grids", "knots")


def sort_parts(module: Any) -> tuple[list[tuple[str, Any, Adapter]], list[str], list[str]]:
    """The layers to initialize with their adapters, parts known as no splines, and all others.

    Unknown are classes that are not PyTorch's own and have parameters, by themselves or in a
    `ParameterList` or `ParameterDict`; and those that look like a KAN, though made of PyTorch's
    parts alone, unless a part of them says more.
    """
    parts = dict(module.named_modules())
    known: dict[str, Adapter] = {}
    for name, part in parts.items():
        adapter = next((a for a in ADAPTERS if a.matches(part)), None)
        if adapter is not None and not _under(name, known):
            known[name] = adapter
    rest = {name: part for name, part in parts.items() if not _under(name, known)}
    owners = [name for name in dict.fromkeys(_owners(rest)) if name in rest]

    unknown = [name for name in owners if not _no_spline(rest[name])]
    for name in reversed(rest):  # the innermost first
        said = any(inner == name or _inside(inner, name) for inner in (*known, *unknown))
        if not said and not _no_spline(rest[name]) and _looks_like_kan(rest[name]):
            unknown.append(name)
    left = [name for name in owners if name not in unknown and not _under(name, unknown)]

    order = list(parts)
    described = {n: f"{n or 'module'} ({_class(part).__name__})" for n, part in rest.items()}
    return (
        [(name or "module", parts[name], adapter) for name, adapter in known.items()],
        [described[name] for name in sorted(left, key=order.index)],
        [described[name] for name in sorted(unknown, key=order.index)],
    )


def _owners(parts: dict[str, Any]) -> Iterator[str]:
    """Parts with parameters; a list of parameters belongs to the module that has it."""
    import torch

    holders = (
        torch.nn.ParameterList,
        torch.nn.ParameterDict,
        torch.nn.ModuleList,  # that of a parametrization as well
        torch.nn.ModuleDict,
    )
    for name, part in parts.items():
        if next(part.parameters(recurse=False), None) is not None:
            while name and isinstance(parts.get(name), holders):
                name = name.rpartition(".")[0]
            yield name


def _looks_like_kan(part: Any) -> bool:
    import torch

    if next(part.parameters(), None) is None:
        return False
    tensors = {**vars(part), **part._buffers}
    has_grid = any(isinstance(tensors.get(name), torch.Tensor) for name in _GRIDS)
    return has_grid or _NAME.search(_class(part).__name__) is not None


def _no_spline(part: Any) -> bool:
    """Whether a part is known to be no spline layer: PyTorch's own, and pykan's other parts."""
    return _class(part).__module__.startswith("torch.") or any(
        is_of(part, name, "kan") for name in ("MultKAN", "Symbolic_KANLayer")
    )


def _class(part: Any) -> type:
    """The class that somebody wrote: a parametrized module is of one made up by PyTorch."""
    return next(c for c in type(part).__mro__ if c.__module__ != "torch.nn.utils.parametrize")


def _under(name: str, others: Any) -> bool:
    """Whether a part is one of the others or inside of one."""
    return any(name == other or _inside(name, other) for other in others)


def _inside(name: str, other: str) -> bool:
    return name != other and (not other or name.startswith(f"{other}."))
