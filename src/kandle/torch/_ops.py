"""The layer and all its derivatives as operators of PyTorch, `torch.ops.kandle.…`.

    layer           (x, r, c, b, bias) ↦ y       the layer with SiLU, or with r None and no residual
    layer_backward  (x, r, c, b, g) ↦ the gradients of Σ g·y
    spline_y        (x, a, w) ↦ y ⎫
    spline_a        (x, w, g) ↦ a ⎬ the derivatives of the trilinear form F in g, a and w
    spline_w        (x, a, g) ↦ w ⎭

The trilinear form

    F = Σ_n Σ_i Σ_m Σ_o a[n,i] · w[i,m,o] · g[n,o] · B_m⁽ᵛ⁾(x[n,i])

where with `residual` SiLU is one more function B_m, the last, is closed under differentiation: its
derivative in one operand is another of the three, and the derivative in x is the same at ν + 1. So
the backward pass of every operator consists of these operators, and derivatives of any order work.

Each operator is registered with PyTorch's dispatcher (kernels, shapes, autograd, batching), which
`torch.compile` and `torch.export` go through. Eager calls and those under `torch.func` do not: the
same kernel and the same backward pass run in an `autograd.Function`, which nested transforms need,
and which has a fraction of the overhead.

An operand may lead with a model axis of length 1 or P; without it, it is shared by all models.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from kandle.torch import _native, _plain, _second
from kandle.torch._batching import batching_rule
from kandle.torch._context import is_eager, needed_gradients, remember
from kandle.torch._plain import packed, unpacked

_LIBRARY = torch.library.Library("kandle", "DEF")
_SPLINE = "int grid, int degree, float lo, float hi"


class Operator:
    """An operator; calling it takes the shortest way to its kernel.

    Args:
        name, schema: as the dispatcher knows it.
        native: the kernel for the CPU.
        plain: the same in PyTorch's operations, for other devices and without a compiler.
        shape: the fake implementation.
        setup, backward: what is saved for the backward pass, and that pass.
        ranks, rows, result_has_rows: see `batching_rule`.
    """

    def __init__(
        self,
        name: str,
        schema: str,
        *,
        native: Callable,
        plain: Callable,
        shape: Callable,
        setup: Callable,
        backward: Callable,
        ranks: Sequence[int],
        rows: Sequence[bool],
        result_has_rows: Callable[[Sequence[Any]], bool],
    ):
        def on_cpu(*arguments):
            return (native if _native.usable(arguments[0]) else plain)(*arguments)

        full = f"kandle::{name}"
        _LIBRARY.define(name + schema)
        _LIBRARY.impl(name, on_cpu, "CPU")
        _LIBRARY.impl(name, plain, "CompositeExplicitAutograd")
        torch.library.register_fake(full, shape, lib=_LIBRARY)
        torch.library.register_autograd(full, backward, setup_context=setup, lib=_LIBRARY)
        rule = batching_rule(self, ranks, rows, result_has_rows)
        torch.library.register_vmap(full, rule, lib=_LIBRARY)
        self._registered = getattr(torch.ops.kandle, name).default
        self._on_cpu = on_cpu
        self._tensors = len(ranks)

        def forward(ctx, *arguments):
            result = on_cpu(*arguments)
            setup(ctx, arguments, result)
            return result

        methods = {"forward": forward, "backward": backward}
        self._eager = _function(f"Kandle_{name}", methods)
        # Nested transforms need the two halves of `forward` apart, and a batching rule.
        methods = {"forward": self._value, "setup_context": setup, "backward": backward}
        self._transformed = _function(f"Kandle_{name}_transformed", methods | {"vmap": rule})

    def __call__(self, *arguments):
        if torch.is_grad_enabled() and self._is_eager(arguments):
            return self._eager(*arguments)
        if not torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active():
            return self._transformed(*arguments)
        return self._value(*arguments)

    def _value(self, *arguments):
        if not torch.is_grad_enabled() and self._is_eager(arguments):
            return self._on_cpu(*arguments)
        return self._registered(*arguments)

    def _is_eager(self, arguments) -> bool:
        return is_eager(*arguments[: self._tensors]) and arguments[0].is_cpu


def _function(name: str, methods: dict[str, Callable]) -> Callable:
    static = {key: staticmethod(method) for key, method in methods.items()}
    return type(name, (torch.autograd.Function,), static).apply


def _sum_to(gradient: Tensor | None, shape: Sequence[int] | None) -> Tensor | None:
    """The gradient of an operand: summed over models if the operand is shared by them."""
    if gradient is None or shape is None or gradient.shape == shape:
        return gradient
    return gradient.sum_to_size(shape)


def _shape_of(tensor: Tensor | None) -> torch.Size | None:
    return None if tensor is None else tensor.shape


def _lead(*tensors_and_ranks: tuple[Tensor | None, int]) -> tuple[int, ...]:
    """(P,), or () where no operand has a model axis."""
    sizes = [t.shape[0] for t, rank in tensors_and_ranks if t is not None and t.dim() > rank]
    return (next((size for size in sizes if size != 1), 1),) if sizes else ()


def _add(*terms: Tensor | None) -> Tensor | None:
    total = None
    for term in terms:
        if term is not None:
            total = term if total is None else total + term
    return total


# ---- the trilinear form --------------------------------------------------------------------------

_ROLES = ("a", "w", "g")


def _trilinear_shape(role: str) -> Callable:
    def shape(x, p, q, grid, degree, lo, hi, order, residual):
        operands = dict(zip((r for r in _ROLES if r != role), (p, q), strict=True))
        n, n_in = x.shape[-2:]
        n_out = operands["w" if role == "g" else "g"].shape[-1]
        ranks = {"a": 2, "w": 3, "g": 2}
        lead = _lead((x, 2), *((t, ranks[r]) for r, t in operands.items()))
        own = {"g": (n, n_out), "a": (n, n_in), "w": (n_in, grid + degree + residual, n_out)}[role]
        return x.new_empty((*lead, *own))

    return shape


def _trilinear(role: str, implementation: Callable) -> Callable:
    """`implementation(x, a, w, g, …)` with None for the operand that the result stands for."""

    def call(x, p, q, *options):
        operands = dict(zip((r for r in _ROLES if r != role), (p, q), strict=True))
        return implementation(x, *(operands.get(r) for r in _ROLES), *options)

    return call


def _trilinear_setup(ctx, inputs, output):
    remember(ctx, inputs[:3])
    ctx.spline, ctx.order, ctx.residual = inputs[3:7], inputs[7], inputs[8]


def _trilinear_backward(role: str) -> Callable:
    others = tuple(r for r in _ROLES if r != role)

    def backward(ctx, cotangent):
        x, p, q = ctx.saved_tensors
        spline, order, residual = ctx.spline, ctx.order, ctx.residual
        operands = {others[0]: p, others[1]: q, role: cotangent}
        needed = needed_gradients(ctx)
        gradients: list[Tensor | None] = [None, None, None]
        if needed[0] and (residual or order < spline[1]):
            options = (*spline, order + 1, residual)
            dx = operands["a"] * spline_a(x, operands["w"], operands["g"], *options)
            gradients[0] = _sum_to(dx, x.shape)
        for position, other in enumerate(others, start=1):
            if needed[position]:
                known = [operands[r] for r in _ROLES if r != other]
                gradient = _TRILINEAR[other](x, *known, *spline, order, residual)
                gradients[position] = _sum_to(gradient, (p, q)[position - 1].shape)
        return (*gradients, *[None] * 6)

    return backward


def _define_trilinear(role: str) -> Operator:
    others = tuple(r for r in _ROLES if r != role)
    name = "spline_y" if role == "g" else f"spline_{role}"
    tensors = ", ".join(f"Tensor {other}" for other in others)
    ranks = {"a": 2, "w": 3, "g": 2}
    return Operator(
        name,
        f"(Tensor x, {tensors}, {_SPLINE}, int order, bool residual) -> Tensor",
        native=_trilinear(role, _native.trilinear),
        plain=_trilinear(role, _plain.trilinear),
        shape=_trilinear_shape(role),
        setup=_trilinear_setup,
        backward=_trilinear_backward(role),
        ranks=(2, *(ranks[other] for other in others)),
        rows=(True, *(other != "w" for other in others)),
        result_has_rows=lambda _: role != "w",
    )


_TRILINEAR = {role: _define_trilinear(role) for role in _ROLES}
spline_y, spline_a, spline_w = (_TRILINEAR[role] for role in ("g", "a", "w"))


# ---- the layer -----------------------------------------------------------------------------------


def _layer_shape(x, r, c, b, bias, grid, degree, lo, hi):
    lead = _lead((x, 2), (r, 2), (c, 2), (b, 3), (bias, 1))
    return x.new_empty((*lead, x.shape[-2], c.shape[-2]))


def _layer_setup(ctx, inputs, output):
    remember(ctx, inputs[:4], inputs[4])
    ctx.bias_shape = _shape_of(inputs[4])
    ctx.spline = inputs[5:9]


def _layer_backward(ctx, g):
    x, r, c, b = ctx.saved_tensors
    needed = needed_gradients(ctx)
    gradients = layer_backward(x, r, c, b, g, *ctx.spline, needed[0], any(needed[1:]))
    shapes = (*(_shape_of(t) for t in (x, r, c, b)), ctx.bias_shape)
    summed = (
        _sum_to(gradient, shape) if need else None
        for gradient, shape, need in zip(gradients, shapes, needed, strict=True)
    )
    return (*summed, *[None] * 4)


layer = Operator(
    "layer",
    f"(Tensor x, Tensor? r, Tensor c, Tensor b, Tensor? bias, {_SPLINE}) -> Tensor",
    native=_native.layer,
    plain=_plain.operator_layer,
    shape=_layer_shape,
    setup=_layer_setup,
    backward=_layer_backward,
    ranks=(2, 2, 2, 3, 1),
    rows=(True, False, False, False, False),
    result_has_rows=lambda _: True,
)


# ---- its gradients -------------------------------------------------------------------------------


def _gradient_shape(x, r, c, b, g, grid, degree, lo, hi, want_x, want_w):
    lead = _lead((x, 2), (r, 2), (c, 2), (b, 3), (g, 2))
    n_out, n_in = c.shape[-2:]
    shapes = [(x.shape[-2], n_in), (n_out, n_in), (n_out, n_in), b.shape[-3:], (n_out,)]
    wanted = [want_x, want_w and r is not None, want_w, want_w, want_w]
    return tuple(
        x.new_empty((*lead, *shape) if want else (0,))
        for shape, want in zip(shapes, wanted, strict=True)
    )


def _gradient_setup(ctx, inputs, output):
    remember(ctx, inputs[:5])
    ctx.spline = inputs[5:9]
    ctx.set_materialize_grads(False)


def _gradient_backward(ctx, u_x, u_r, u_c, u_b, u_bias):
    x, r, c, b, g = ctx.saved_tensors
    needed = needed_gradients(ctx)
    only_x = u_r is u_c is u_b is u_bias is None
    if u_x is not None and only_x and _second.applies(x, c, b, g, u_x, ctx.spline):
        gradients = _second.gradients(x, r, c, b, g, u_x, ctx.spline, needed, compose_second)
    else:
        gradients = compose_second(x, r, c, b, g, u_x, u_r, u_c, u_b, u_bias, ctx.spline, needed)
    operands = (x, r, c, b, g)
    summed = (_sum_to(d, _shape_of(t)) for d, t in zip(gradients, operands, strict=True))
    return (*summed, *[None] * 6)


def compose_second(x, r, c, b, g, u_x, u_r, u_c, u_b, u_bias, spline, needed) -> _second.Gradients:
    """The derivatives of Q = Σ u·(gradients of Σ g·y), which is Σ g·ẏ with

        ẏ = Σ_i [ φ'(x_i) u_x,i + u_r R(x_i) + Σ_m ẇ_m B_m(x_i) ] + u_bias,    ẇ = u_c b + c u_b,

    the derivative of y in the direction u, φ = r R + c Σ_m b_m B_m, in x, r, c, b and g.
    """
    residual = r is not None
    need_x, need_r, need_c, need_b, need_g = needed
    w = None if u_x is None else packed(r, c, b)
    w_dot = _packed_tangent(r, c, b, u_r, u_c, u_b)
    ones = None if w_dot is None else torch.ones_like(x)

    d_x = d_r = d_c = d_b = d_g = None
    if need_g:
        d_g = _add(
            None if u_x is None else spline_y(x, u_x, w, *spline, 1, residual),
            None if w_dot is None else spline_y(x, ones, w_dot, *spline, 0, residual),
            None if u_bias is None else u_bias[..., None, :].expand(g.shape),
        )
    if need_x:
        d_x = _add(
            None if u_x is None else u_x * spline_a(x, w, g, *spline, 2, residual),
            None if w_dot is None else spline_a(x, w_dot, g, *spline, 1, residual),
        )
    if need_r or need_c or need_b:
        d_w = d_w_dot = None
        if u_x is not None:
            d_r, d_w = unpacked(spline_w(x, u_x, g, *spline, 1, residual), residual)
        if u_c is not None or u_b is not None:
            _, d_w_dot = unpacked(spline_w(x, ones, g, *spline, 0, residual), residual)
        if need_c:
            d_c = _add(
                None if d_w is None else (b * d_w).sum(-1),
                None if d_w_dot is None or u_b is None else (u_b * d_w_dot).sum(-1),
            )
        if need_b:
            d_b = _add(
                None if d_w is None else c[..., None] * d_w,
                None if d_w_dot is None or u_c is None else u_c[..., None] * d_w_dot,
            )
    return d_x, d_r, d_c, d_b, d_g


def _packed_tangent(r, c, b, u_r, u_c, u_b) -> Tensor | None:
    """(ẇ, u_r) in the layout of the trilinear form, None where nothing changes the weights."""
    w_dot = _add(
        None if u_c is None else u_c[..., None] * b, None if u_b is None else c[..., None] * u_b
    )
    if w_dot is None and u_r is None:
        return None
    if w_dot is None:
        w_dot = torch.zeros_like(b)
    if r is not None and u_r is None:
        u_r = torch.zeros_like(r)
    return packed(u_r, torch.ones_like(w_dot[..., 0]), w_dot)


layer_backward = Operator(
    "layer_backward",
    f"(Tensor x, Tensor? r, Tensor c, Tensor b, Tensor g, {_SPLINE}, bool want_x, bool want_w)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    native=_native.layer_backward,
    plain=_plain.operator_layer_backward,
    shape=_gradient_shape,
    setup=_gradient_setup,
    backward=_gradient_backward,
    ranks=(2, 2, 2, 3, 2),
    rows=(True, False, False, False, True),
    result_has_rows=lambda rest: not rest[-1],  # gradients in the weights belong to a model
)
