"""A layer, and a whole network in one native call, each with derivatives of any order.

A layer is two operators, of which the second is the backward pass of the first:

    layer           (x, r, c, b, bias) ↦ y       with SiLU, or with r None and no residual function
    layer_backward  (x, r, c, b, g) ↦ the gradients of Σ g·y

PyTorch spends more time around the kernels of a small layer than they run. In eager calls on a CPU
`KAN.forward` therefore hands all its layers to one `autograd.Function`. With the network F(x, θ),
θ the weights of all layers:

    _Value   (x, θ) ↦ F
    _First   (x, g, θ) ↦ the gradients of Q₁ = Σ g·F in x and θ
    _Second  (x, g, u, θ) ↦ those of Q₂ = Σ u·∂Q₁/∂x in x, g and θ
    _Third   (x, g, u, v, s, θ) ↦ those of Q₃ = Σ v·∂Q₂/∂x + s·∂Q₂/∂g in x, g, u and θ

Each is the backward pass of the one before, which leaves it what it computed between the layers. A
PINN with second derivatives in x needs all four. With h_0 = x, h_l the output of layer l, and
h_L = F, these are the values at all h_l, the `Level`s of the native calls:

    level       at x    between    at F      first computed by
    h_l         x       hidden     F         _Value
    ∂Q₁/∂h_l    ∂Q₁/∂x  cots       g         _First
    ∂h_l/∂x·u   u       along      ∂Q₂/∂g    _Second
    ∂Q₂/∂h_l    ∂Q₂/∂x  slopes     –         _Second

`_Second` and `_Third` also differentiate `layer_backward`, as a network of one layer. Everything
else, such as a derivative of the gradients in θ, is differentiated as the composition of
operators, to any order.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from kandle._route import LayerSpec
from kandle.bases import BSpline
from kandle.torch import _native, _plain, _route
from kandle.torch._native import Gradients, Level, Network
from kandle.torch._operator import Operator, differentiate, needed_gradients, remember
from kandle.torch._plain import packed, unpacked
from kandle.torch._trilinear import SPLINE, model_axis, spline_a, spline_w, spline_y, sum_to

# ---- the layer -----------------------------------------------------------------------------------


def _shape_of(tensor: Tensor | None) -> torch.Size | None:
    return None if tensor is None else tensor.shape


def _layer_shape(x, r, c, b, bias, grid, degree, lo, hi):
    lead = model_axis((x, 2), (r, 2), (c, 2), (b, 3), (bias, 1))
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
    summed: list[Tensor | None] = []
    for gradient, shape, need in zip(gradients, shapes, needed, strict=True):
        summed.append(sum_to(gradient, shape) if need else None)
    return (*summed, *[None] * 4)


layer = Operator(
    "layer",
    f"(Tensor x, Tensor? r, Tensor c, Tensor b, Tensor? bias, {SPLINE}) -> Tensor",
    native=_native.layer,
    plain=_plain.operator_layer,
    shape=_layer_shape,
    setup=_layer_setup,
    backward=_layer_backward,
    ranks=(2, 2, 2, 3, 1),
    rows=(True, False, False, False, False),
    result_has_rows=lambda _: True,
)


# ---- the gradients of a layer --------------------------------------------------------------------


def _gradient_shape(x, r, c, b, g, grid, degree, lo, hi, want_x, want_w):
    lead = model_axis((x, 2), (r, 2), (c, 2), (b, 3), (g, 2))
    n_out, n_in = c.shape[-2:]

    def shape(wanted: bool, *own: int) -> Tensor:
        return x.new_empty((*lead, *own) if wanted else (0,))

    return (
        shape(want_x, x.shape[-2], n_in),
        shape(want_w and r is not None, n_out, n_in),
        shape(want_w, n_out, n_in),
        shape(want_w, *b.shape[-3:]),
        shape(want_w, n_out),
    )


def _gradient_setup(ctx, inputs, output):
    remember(ctx, inputs[:5])
    ctx.spline = inputs[5:9]
    ctx.set_materialize_grads(False)


def _gradient_backward(ctx, u_x, u_r, u_c, u_b, u_bias):
    x, r, c, b, g = ctx.saved_tensors
    needed = needed_gradients(ctx)
    network = None if u_x is None else _network_of_layer(x, r, c, b, g, ctx.spline)
    if _route.derivative_obstacle(network, (u_x, g), (u_r, u_c, u_b, u_bias)) is None:
        need_x, need_r, need_c, need_b, need_g = needed
        needed = (need_x, need_g, need_r, need_c, need_b, False)
        between = (None, None)  # of a layer alone there is nothing between
        results = _Second.apply(x, g, u_x, r, c, b, None, between, needed, network)
        d_x, d_g, d_r, d_c, d_b, _ = results
        gradients = d_x, d_r, d_c, d_b, d_g
    else:
        gradients = compose_second(x, r, c, b, g, u_x, u_r, u_c, u_b, u_bias, ctx.spline, needed)
    summed: list[Tensor | None] = []
    for gradient, operand in zip(gradients, (x, r, c, b, g), strict=True):
        summed.append(sum_to(gradient, _shape_of(operand)))
    return (*summed, *[None] * 6)


def _network_of_layer(x, r, c, b, g, spline: Sequence[Any]) -> Network | None:
    """A layer alone as a network; None for several models, which the native calls do not take."""
    if not (x.dim() == c.dim() == g.dim() == 2 and b.dim() == 3):
        return None
    n_out, n_in = c.shape
    if not (isinstance(n_out, int) and isinstance(n_in, int)):
        return None  # sizes are symbols while PyTorch traces a call
    return _native.layer_alone(n_in, n_out, r is not None, *spline)


def compose_second(x, r, c, b, g, u_x, u_r, u_c, u_b, u_bias, spline, needed) -> Gradients:
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
        if u_x is not None:  # Σ_i φ'(x_i) u_x,i
            d_g = spline_y(x, u_x, w, *spline, 1, residual)
        if w_dot is not None:  # Σ_i [ u_r R(x_i) + Σ_m ẇ_m B_m(x_i) ]
            d_g = _add(d_g, spline_y(x, ones, w_dot, *spline, 0, residual))
        if u_bias is not None:
            d_g = _add(d_g, u_bias[..., None, :].expand(g.shape))
    if need_x:
        if u_x is not None:  # g φ''(x_i) u_x,i
            d_x = u_x * spline_a(x, w, g, *spline, 2, residual)
        if w_dot is not None:  # g [ u_r R'(x_i) + Σ_m ẇ_m B_m'(x_i) ]
            d_x = _add(d_x, spline_a(x, w_dot, g, *spline, 1, residual))
    if need_r or need_c or need_b:
        if u_x is not None:
            # Σ_n g u_x B_m'(x), of which c·b and r are the weights
            d_r, d_w = unpacked(spline_w(x, u_x, g, *spline, 1, residual), residual)
            if need_c:
                d_c = (b * d_w).sum(-1)
            if need_b:
                d_b = c[..., None] * d_w
        if u_c is not None or u_b is not None:
            # Σ_n g B_m(x), of which ẇ = u_c b + c u_b is the weight
            _, d_w_dot = unpacked(spline_w(x, ones, g, *spline, 0, residual), residual)
            if need_c and u_b is not None:
                d_c = _add(d_c, (u_b * d_w_dot).sum(-1))
            if need_b and u_c is not None:
                d_b = _add(d_b, u_c[..., None] * d_w_dot)
    return d_x, d_r, d_c, d_b, d_g


def _packed_tangent(r, c, b, u_r, u_c, u_b) -> Tensor | None:
    """(ẇ, u_r) in the layout of the trilinear form, None where nothing changes the weights."""
    if u_r is None and u_c is None and u_b is None:
        return None
    w_dot = None if u_c is None else u_c[..., None] * b
    if u_b is not None:
        w_dot = _add(w_dot, c[..., None] * u_b)
    if w_dot is None:
        w_dot = torch.zeros_like(b)
    if r is not None and u_r is None:
        u_r = torch.zeros_like(r)
    return packed(u_r, torch.ones_like(w_dot[..., 0]), w_dot)


def _add(total: Tensor | None, term: Tensor) -> Tensor:
    return term if total is None else total + term


layer_backward = Operator(
    "layer_backward",
    f"(Tensor x, Tensor? r, Tensor c, Tensor b, Tensor g, {SPLINE}, bool want_x, bool want_w)"
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


# ---- the network ---------------------------------------------------------------------------------


def evaluate(model: nn.Module, x: Tensor) -> Tensor | None:
    """A KAN in one native call; None where its layers have to run one by one."""
    plan, _ = _route.one_call(model, x)
    if plan is None:
        return None
    network, weights = plan.network, plan.weights
    flat = x.dim() == 2
    rows = (x if flat else x.reshape(-1, network.widths[0])).contiguous()
    if torch.is_grad_enabled():
        y = _apply_value(rows, *weights, network)
    else:
        y, _ = _native.forward(network, rows, weights, keep=False)
    return y if flat else y.reshape(*x.shape[:-1], network.widths[-1])


class _Value(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        x, *weights, network = arguments
        y, hidden = _native.forward(network, x, weights, keep=True)
        ctx.save_for_backward(*arguments[:-1], hidden)
        ctx.network = network
        return y

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> Gradients:
        (g,) = cotangents
        network, needed = ctx.network, ctx.needs_input_grad[:-1]
        *operands, hidden = ctx.saved_tensors
        x, *weights = operands
        # Training has no gradient in x, and then those in the weights are nearly always needed:
        # asking the engine would cost more than it saves.
        if needed[0]:
            ctx.present = [t is not None for t in operands]
            needed = needed_gradients(ctx, single=1)
        if _route.eager_obstacle(g) is not None:
            results = _differentiated(network, 0, operands, (g,), needed)
        elif torch.is_grad_enabled():
            # These gradients will be differentiated: `_First` keeps what that takes.
            results = _First.apply(x, g.contiguous(), *weights, (hidden,), needed, network)
        else:
            h = Level(x, hidden, None)
            g = g.contiguous()
            results, _ = _native.backward(network, h, weights, g, needed, keep=False)
        return *results, None


# `Function.apply` but for what it does about transforms: `eager_obstacle` has seen that there are
# none.
_apply_value: Callable[..., Tensor] = super(torch.autograd.Function, _Value).apply  # pyright: ignore


# The last three arguments of the others are no operands: the tensors between the layers, which
# gradients are needed, and the network.


class _First(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Gradients:
        x, g, *weights, (hidden,), needed, network = arguments
        h = Level(x, hidden, None)
        # ∂Q₁/∂x and ∂Q₁/∂θ; cots are the ∂Q₁/∂h_l on the way there.
        results, cots = _native.backward(network, h, weights, g, needed, keep=True)
        return _recorded(ctx, arguments, results, hidden, cots)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> Gradients:
        network, needed = ctx.network, needed_gradients(ctx, single=2)
        *operands, hidden, cots = ctx.saved_tensors
        x, g, *weights = operands
        # Cotangents of ∂Q₁/∂x and ∂Q₁/∂θ. The native call has no term for the latter.
        u, *of_weights = cotangents
        if _route.derivative_obstacle(network, (u,), of_weights) is not None:
            results = _differentiated(network, 1, operands, cotangents, needed)
        elif torch.is_grad_enabled():
            # Third derivatives will follow, as in the loss of a PINN.
            between = hidden, cots
            results = _Second.apply(x, g, _contiguous(u), *weights, between, needed, network)
        else:
            results, *_ = _native.second(
                network,
                Level(x, hidden, None),
                weights,
                Level(None, cots, g),
                _contiguous(u),
                needed,
                keep=False,
            )
        return *results, None, None, None


class _Second(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Gradients:
        x, g, u, *weights, (hidden, cots), needed, network = arguments
        h_levels, g_levels = Level(x, hidden, None), Level(None, cots, g)
        # ∂Q₂/∂x, ∂Q₂/∂g and ∂Q₂/∂θ; on the way up ∂h_l/∂x·u, on the way down ∂Q₂/∂h_l.
        results, along, slopes = _native.second(
            network, h_levels, weights, g_levels, u, needed, keep=True
        )
        return _recorded(ctx, arguments, results, hidden, cots, along, slopes)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> Gradients:
        network, needed = ctx.network, needed_gradients(ctx, single=3)
        *operands, hidden, cots, along, slopes = ctx.saved_tensors
        x, g, u, *weights = operands
        v, s, *of_weights = cotangents  # of ∂Q₂/∂x, ∂Q₂/∂g and ∂Q₂/∂θ
        if _route.derivative_obstacle(network, (v, s), of_weights) is not None:
            results = _differentiated(network, 2, operands, cotangents, needed)
            return *results, None, None, None
        v, s, between = _contiguous(v), _contiguous(s), (hidden, cots, along, slopes)
        if torch.is_grad_enabled():
            results = _Third.apply(x, g, u, v, s, *weights, between, needed, network)
        else:
            results = _third(network, x, g, u, v, s, weights, between, needed)
        return *results, None, None, None


class _Third(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Gradients:
        x, g, u, v, s, *weights, between, needed, network = arguments
        results = _third(network, x, g, u, v, s, weights, between, needed)
        return _recorded(ctx, arguments, results)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> Gradients:
        operands, needed = ctx.saved_tensors, needed_gradients(ctx)
        results = _differentiated(ctx.network, 3, operands, cotangents, needed)
        return *results, None, None, None


def _third(network: Network, x, g, u, v, s, weights, between, needed) -> Gradients:
    """∂Q₃/∂x, ∂Q₃/∂g, ∂Q₃/∂u and ∂Q₃/∂θ."""
    hidden, cots, along, slopes = between
    return _native.third(
        network,
        Level(x, hidden, None),
        weights,
        Level(None, cots, g),
        Level(u, along, None),
        Level(None, slopes, None),
        v,
        s,
        needed,
    )


def _recorded(ctx: Any, arguments: Sequence[Any], results: Gradients, *between: Any) -> Gradients:
    """The results, once the operands and what lies between the layers are saved."""
    remember(ctx, arguments[:-3], extra=between)
    ctx.network = arguments[-1]
    ctx.set_materialize_grads(False)
    return results


def _contiguous(t: Tensor | None) -> Any:
    return None if t is None else t.contiguous()


# ---- the network as a composition of operators ---------------------------------------------------


def _spline(described: LayerSpec) -> tuple[int, int, float, float]:
    """The grid, degree and domain of a layer, as the operators take them."""
    basis = described.basis
    assert isinstance(basis, BSpline)
    return basis.grid, basis.degree, *basis.domain


def _differentiated(
    network: Network,
    order: int,
    operands: Sequence[Tensor | None],
    cotangents: Sequence[Tensor | None],
    needed: Sequence[bool],
    keep_graph: bool = False,
) -> Gradients:
    """The derivative of `_Value`, `_First`, `_Second` or `_Third`, of this order, by autograd."""
    wanted = [cotangent is not None for cotangent in cotangents]
    composed = _composed(network, order, wanted)
    return differentiate(composed, operands, cotangents, needed, keep_graph)


def _composed(network: Network, order: int, wanted: Sequence[bool]) -> Callable[..., Gradients]:
    """What one of the four computes, from operators that have derivatives of any order.

    Each is the derivative of the one below it, down to the chain of `layer`s. Second derivatives of
    a layer alone are written out instead: `layer_backward` would hand them back to `_Second`.
    """

    def value(x, *weights):
        for position, described in enumerate(network.layers):
            r, c, b, bias = weights[4 * position : 4 * position + 4]
            x = layer(x, r, c, b, bias, *_spline(described))
        return (x,)

    def second_of_layer(x, g, u, r, c, b, bias):
        want_x, want_g, want_r, want_c, want_b, _ = wanted
        spline, needed = _spline(network.layers[0]), (want_x, want_r, want_c, want_b, want_g)
        d_x, d_r, d_c, d_b, d_g = compose_second(
            x, r, c, b, g, u, None, None, None, None, spline, needed
        )
        return d_x, d_g, d_r, d_c, d_b, None

    def derivative(*operands):
        # Operands are those of the order below, with its cotangents between x, … and the weights.
        of_weights = (None,) * (4 * len(network.layers))
        if order == 1:
            x, g, *weights = operands
            below, cotangents = (x, *weights), (g,)
        elif order == 2:
            x, g, u, *weights = operands
            below, cotangents = (x, g, *weights), (u, *of_weights)
        else:
            x, g, u, v, s, *weights = operands
            below, cotangents = (x, g, u, *weights), (v, s, *of_weights)
        needed = [t is not None for t in below]
        return _differentiated(network, order - 1, below, cotangents, needed, keep_graph=True)

    if order == 0:
        return value
    if order == 2 and network.alone:
        return second_of_layer
    return derivative
