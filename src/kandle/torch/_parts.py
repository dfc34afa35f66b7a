"""Which parts of a PyTorch module are spline layers, which are none, and which nobody knows."""

import re
from collections.abc import Iterator
from typing import Any

from kandle.torch._adapters import ADAPTERS, Adapter, is_of

# Layers of splines, or of bases like them, by how they are called and by what they keep.
_NAME = re.compile(r"KAN|Kan(?![a-z])|[Ss]pline")
_GRIDS = ("grid", "grids", "knots")

# Layers that PyTorch itself computes. Its other parts hold what somebody else made.
_LAYERS = ("torch.nn.", "torch.ao.")
_LISTS = ("ParameterList", "ParameterDict", "ModuleList", "ModuleDict")
_VESSELS = ("Module", "Sequential", *_LISTS)


def sort_parts(module: Any) -> tuple[list[tuple[str, Any, Adapter]], list[str], list[str]]:
    """The layers to initialize with their adapters, parts known as no splines, and all others.

    Unknown are classes that are not PyTorch's own layers and have parameters, by themselves or in
    a `ParameterList` or `ParameterDict`; and those that look like a KAN, though made of PyTorch's
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
    described = {n: label(n, part) for n, part in rest.items()}
    return (
        [(name or "module", parts[name], adapter) for name, adapter in known.items()],
        [described[name] for name in sorted(left, key=order.index)],
        [described[name] for name in sorted(unknown, key=order.index)],
    )


def label(name: str, part: Any) -> str:
    """The name of a part in reports."""
    return f"{name or 'module'} ({kind(part)})"


def kind(part: Any) -> str:
    """The name of the class that somebody wrote."""
    return _origin(part)[1]


def is_compiled(part: Any) -> bool:
    """Whether a module is what a compiler made of another: its layers are those of a program."""
    import torch

    return isinstance(part, torch.jit.ScriptModule | torch.fx.GraphModule)


def _owners(parts: dict[str, Any]) -> Iterator[str]:
    """Parts with parameters; a list of parameters belongs to the module that has it."""
    for name, part in parts.items():
        if next(part.parameters(recurse=False), None) is not None:
            while name and name in parts and _is_list(parts[name]):
                name = name.rpartition(".")[0]
            yield name


def _is_list(part: Any) -> bool:
    import torch

    listed = tuple(getattr(torch.nn, name) for name in _LISTS)
    # The lists of a parametrization as well, and what a script made of one.
    return isinstance(part, listed) or (is_compiled(part) and kind(part) in _LISTS)


def _looks_like_kan(part: Any) -> bool:
    import torch

    # A frozen script has made constants of its parameters.
    if next(part.parameters(), None) is None and not isinstance(part, torch.jit.ScriptModule):
        return False
    tensors = {**vars(part), **dict(part.named_buffers(recurse=False))}
    has_grid = any(isinstance(tensors.get(name), torch.Tensor) for name in _GRIDS)
    return has_grid or _NAME.search(kind(part)) is not None


def _no_spline(part: Any) -> bool:
    """Whether a part is known to be no spline layer: a layer of PyTorch's, pykan's other parts."""
    module, name = _origin(part)
    own = f"{module}.".startswith(_LAYERS) and name not in _VESSELS
    return own or any(is_of(part, name, "kan") for name in ("MultKAN", "Symbolic_KANLayer"))


def _origin(part: Any) -> tuple[str, str]:
    """The module and the name of the class that somebody wrote.

    PyTorch makes up one for a parametrized module; one for a graph, with the name of what was
    traced; and a script says in its type what it was compiled from.
    """
    cls = type(part)
    if cls.__module__.startswith("torch.jit."):
        # __torch__.torch.nn.modules.linear.___torch_mangle_3.Linear
        path = part._c._type().qualified_name().split(".")
        path = [step for step in path if not step.startswith(("__torch__", "___torch_mangle_"))]
        return ".".join(path[:-1]), path[-1]
    cls = next(c for c in cls.__mro__ if c.__module__ != "torch.nn.utils.parametrize")
    return cls.__module__, cls.__name__


def _under(name: str, others: Any) -> bool:
    """Whether a part is one of the others or inside of one."""
    return any(name == other or _inside(name, other) for other in others)


def _inside(name: str, other: str) -> bool:
    return name != other and (not other or name.startswith(f"{other}."))
