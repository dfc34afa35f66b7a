"""The trilinear form of a spline layer, which is closed under differentiation, as three operators.

    F = Σ_n Σ_i Σ_m Σ_o a[n,i] · w[i,m,o] · g[n,o] · B_m⁽ᵛ⁾(x[n,i])

    spline_y  (x, a, w) ↦ y ⎫
    spline_a  (x, w, g) ↦ a ⎬ the derivatives of F in g, a and w
    spline_w  (x, a, g) ↦ w ⎭

With `residual` SiLU is one more function B_m, the last. The derivative of an operator in one of its
operands is another of the three, and the derivative in x is a·spline_a at ν + 1. So the backward
pass of each consists of the three, and derivatives of any order work.

An operand may lead with a model axis of length 1 or P; without it, it is shared by all models.
"""

from collections.abc import Callable, Sequence

from torch import Tensor

from kandle.torch import _native, _plain
from kandle.torch._operator import Operator, needed_gradients, remember

SPLINE = "int grid, int degree, float lo, float hi"

# Every operator has two of these as operands, in this order, and computes the third.
_ROLES = ("a", "w", "g")
_RANKS = {"a": 2, "w": 3, "g": 2}


def sum_to(gradient: Tensor | None, shape: Sequence[int] | None) -> Tensor | None:
    """The gradient of an operand: summed over models if the operand is shared by them."""
    if gradient is None or shape is None or gradient.shape == shape:
        return gradient
    return gradient.sum_to_size(shape)


def model_axis(*tensors_and_ranks: tuple[Tensor | None, int]) -> tuple[int, ...]:
    """(P,), or () where no operand has a model axis."""
    sizes = [t.shape[0] for t, rank in tensors_and_ranks if t is not None and t.dim() > rank]
    for size in sizes:
        if size != 1:
            return (size,)
    return tuple(sizes[:1])


def _others(role: str) -> tuple[str, str]:
    first, second = (other for other in _ROLES if other != role)
    return first, second


def _kernel(role: str, implementation: Callable) -> Callable:
    """`implementation(x, a, w, g, …)` with None for the operand that the result stands for."""
    first, second = _others(role)

    def call(x, p, q, *options):
        operands = {role: None, first: p, second: q}
        return implementation(x, operands["a"], operands["w"], operands["g"], *options)

    return call


def _shape(role: str) -> Callable:
    first, second = _others(role)

    def shape(x, p, q, grid, degree, lo, hi, order, residual):
        n, n_in = x.shape[-2:]
        n_out = {first: p, second: q}["w" if role == "g" else "g"].shape[-1]
        lead = model_axis((x, 2), (p, _RANKS[first]), (q, _RANKS[second]))
        shapes = {"a": (n, n_in), "w": (n_in, grid + degree + residual, n_out), "g": (n, n_out)}
        return x.new_empty((*lead, *shapes[role]))

    return shape


def _setup(ctx, inputs, output):
    remember(ctx, inputs[:3])
    ctx.spline, ctx.order, ctx.residual = inputs[3:7], inputs[7], inputs[8]


def _backward(role: str) -> Callable:
    first, second = _others(role)

    def backward(ctx, cotangent):
        x, p, q = ctx.saved_tensors
        spline, order, residual = ctx.spline, ctx.order, ctx.residual
        operands = {first: p, second: q, role: cotangent}
        need_x, *need_others = needed_gradients(ctx)
        d_x = None
        # The splines' derivatives end at their degree, those of SiLU never do.
        if need_x and (residual or order < spline[1]):
            w, g = operands["w"], operands["g"]
            d_x = operands["a"] * spline_a(x, w, g, *spline, order + 1, residual)
        gradients = [sum_to(d_x, x.shape)]
        for other, need in zip((first, second), need_others, strict=True):
            if not need:
                gradients.append(None)
                continue
            remaining = [operands[name] for name in _others(other)]
            gradient = _OPERATORS[other](x, *remaining, *spline, order, residual)
            gradients.append(sum_to(gradient, operands[other].shape))
        return (*gradients, *[None] * 6)

    return backward


def _define(name: str, role: str) -> Operator:
    first, second = _others(role)
    return Operator(
        name,
        f"(Tensor x, Tensor {first}, Tensor {second}, {SPLINE}, int order, bool residual)"
        " -> Tensor",
        native=_kernel(role, _native.trilinear),
        plain=_kernel(role, _plain.trilinear),
        shape=_shape(role),
        setup=_setup,
        backward=_backward(role),
        ranks=(2, _RANKS[first], _RANKS[second]),
        rows=(True, first != "w", second != "w"),
        result_has_rows=lambda _: role != "w",
    )


spline_y = _define("spline_y", role="g")
spline_a = _define("spline_a", role="a")
spline_w = _define("spline_w", role="w")
_OPERATORS = {"g": spline_y, "a": spline_a, "w": spline_w}
