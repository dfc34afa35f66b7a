"""The spline layers of PyTorch libraries: how to find, read and write each in a module."""

import re
from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np

from kandle._errors import UserError, must
from kandle.interop._spline import SplineLayer
from kandle.torch._residuals import torch_residual


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


def is_of(module: Any, name: str, package: str | None = None) -> bool:
    """Whether a class of that name, of that package, is among the module's classes."""
    return any(
        cls.__name__ == name and (package is None or cls.__module__.split(".")[0] == package)
        for cls in type(module).__mro__
    )


# ---- the parts of a module -----------------------------------------------------------------------

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
