"""The operators equal plain PyTorch, are differentiable to any order, and work under transforms."""

# ruff: noqa: E402

import pytest

torch = pytest.importorskip("torch")

import kandle.torch
from kandle import UserError
from kandle.kernels import route
from kandle.torch import _derivatives, _native, _plain, _trilinear

SPLINE = (5, 3, -1.0, 1.0)

IS_NATIVE = route(kandle.torch.KANLinear(1, 1), torch.zeros(1, 1)).path == "per layer"
needs_native = pytest.mark.skipif(not IS_NATIVE, reason="the native kernels are not built")

# As the layers call them; `torch.ops.kandle` has them as PyTorch's dispatcher calls them.
EAGER = {
    "layer": _derivatives.layer,
    "layer_backward": _derivatives.layer_backward,
    "spline_y": _trilinear.spline_y,
    "spline_a": _trilinear.spline_a,
    "spline_w": _trilinear.spline_w,
}


def operands(n_out=4, n=7, n_in=3, residual=True, dtype=torch.float64, n_basis=8):
    generator = torch.Generator().manual_seed(n_out)

    def normal(*shape):
        return torch.randn(shape, generator=generator, dtype=dtype)

    x = 2.4 * torch.rand((n, n_in), generator=generator, dtype=dtype) - 1.2
    r = normal(n_out, n_in) if residual else None
    return x, r, normal(n_out, n_in), normal(n_out, n_in, n_basis), normal(n_out)


def with_gradients(tensors):
    return [None if t is None else t.requires_grad_() for t in tensors]


def close(a, b, tolerance=1e-12):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@needs_native
@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("n_out", [1, 4, 9, 33])
@pytest.mark.parametrize("residual", [True, False])
def test_kernels_equal_plain_operations(degree, n_out, residual):
    spline = (6, degree, -1.0, 1.5)
    x, r, c, b, bias = operands(n_out, residual=residual, n_basis=6 + degree)
    close(
        _native.layer(x, r, c, b, bias, *spline), _plain.operator_layer(x, r, c, b, bias, *spline)
    )
    g = torch.randn(len(x), n_out, dtype=x.dtype)
    for want in ((True, True), (True, False), (False, True)):
        ours = _native.layer_backward(x, r, c, b, g, *spline, *want)
        for a, e in zip(
            ours, _plain.operator_layer_backward(x, r, c, b, g, *spline, *want), strict=True
        ):
            close(a, e)
    w = torch.randn(3, 6 + degree + residual, n_out, dtype=x.dtype)
    a = torch.randn_like(x)
    for order in range(6):
        for given in ((a, w, None), (None, w, g), (a, None, g)):
            options = (*spline, order, residual)
            ours = _native.trilinear(x, *given, *options)
            close(ours, _plain.trilinear(x, *given, *options), 1e-10)


def test_plain_silu_derivatives_are_those_of_autograd():
    x = torch.linspace(-6, 6, 25, dtype=torch.float64, requires_grad=True)
    value = torch.nn.functional.silu(x)
    for order in range(6):
        close(_plain.silu_derivative(x.detach(), order), value.detach(), 1e-10)
        (value,) = torch.autograd.grad(value.sum(), x, create_graph=True)


@needs_native
def test_not_finite_inputs_give_nan_in_their_row_only():
    x, *weights = operands()
    x[1, 0], x[3, 2] = float("nan"), float("inf")
    y = _derivatives.layer(x, *weights, *SPLINE)
    assert torch.isnan(y[[1, 3]]).all()
    assert torch.isfinite(y[[0, 2, 4, 5, 6]]).all()


@needs_native
def test_bits_do_not_depend_on_the_number_of_threads():
    x, *weights = operands(32, n=2000, n_in=8, dtype=torch.float32)
    g = torch.randn(2000, 32)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            y = _native.layer(x, *weights, *SPLINE)
            results.append((y, *_native.layer_backward(x, *weights[:3], g, *SPLINE, True, True)))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


@needs_native
def test_kernels_read_the_tensors_themselves():
    x, *weights = operands()
    with torch.no_grad(), torch.profiler.profile() as profile:
        _derivatives.layer(x, *weights, *SPLINE)
    names = {event.name for event in profile.events()}
    assert names.isdisjoint({"aten::copy_", "aten::clone", "aten::contiguous"})


def registered(name):
    return getattr(torch.ops.kandle, name).default


def cases():
    x, r, c, b, bias = operands()
    g, a = torch.randn(7, 4, dtype=x.dtype), torch.randn_like(x)
    w = torch.randn(3, 9, 4, dtype=x.dtype)
    return {
        "layer": (x, r, c, b, bias, *SPLINE),
        "layer_backward": (x, r, c, b, g, *SPLINE, True, True),
        "spline_y": (x, a, w, *SPLINE, 1, True),
        "spline_a": (x, w, g, *SPLINE, 1, True),
        "spline_w": (x, a, g, *SPLINE, 1, True),
    }


@pytest.mark.parametrize("name", list(cases()))
def test_opcheck(name):
    arguments = cases()[name]
    for tensor in arguments:
        if isinstance(tensor, torch.Tensor):
            tensor.requires_grad_()
    torch.library.opcheck(registered(name), arguments)


@pytest.mark.parametrize("way", ["eager", "registered"])
@pytest.mark.parametrize("name", list(cases()))
def test_gradients_of_first_and_second_order(name, way):
    arguments = cases()[name]
    tensors = [t.requires_grad_() for t in arguments if isinstance(t, torch.Tensor)]
    options = arguments[len(tensors) :]
    operator = EAGER[name] if way == "eager" else registered(name)

    def function(*tensors):
        return operator(*tensors, *options)

    assert torch.autograd.gradcheck(function, tensors)
    assert torch.autograd.gradgradcheck(function, tensors)


@pytest.mark.parametrize("residual", [True, False])
def test_third_derivatives_are_those_of_the_plain_path(residual):
    def third(function, tensors):
        x = tensors[0]
        y = function(*tensors)
        for _ in range(3):
            (y,) = torch.autograd.grad((y**2).sum(), x, create_graph=True)
        return [y, *torch.autograd.grad(y.sum(), [t for t in tensors if t is not None])]

    def plain(x, r, c, b, bias):
        B, R = _plain.uniform_basis(x, *SPLINE), torch.nn.functional.silu(x)
        return _plain.layer(B, R, r, c, b, bias)

    tensors = with_gradients(operands(residual=residual))
    ours = third(lambda *t: _derivatives.layer(*t, *SPLINE), tensors)
    for a, e in zip(ours, third(plain, tensors), strict=True):
        scale = e.abs().max().item()
        torch.testing.assert_close(a, e, rtol=1e-9, atol=1e-11 * scale)


def allocated(function):
    """The bytes that a function asks for, those it returns among them."""
    with torch.profiler.profile(profile_memory=True) as profile:
        function()
    sizes = [event.self_cpu_memory_usage for event in profile.events()]
    return sum(size for size in sizes if size > 0)


def test_gradients_that_are_not_asked_for_are_not_computed():
    x, *weights = with_gradients(operands(n_out=30, n=5, n_in=40))
    y = _derivatives.layer(x, *weights, *SPLINE).sum()
    of_weights = sum(8 * weight.numel() for weight in weights)

    def of(sought):
        return allocated(lambda: torch.autograd.grad(y, sought, retain_graph=True))

    assert of([x]) < of_weights
    assert of(weights) >= of_weights
    assert of([x, weights[0]]) >= of_weights + 8 * x.numel()


# ---- transforms ----------------------------------------------------------------------------------


def network():
    torch.manual_seed(0)
    return kandle.torch.KAN([3, 4, 2], dtype=torch.float64)


def points(n=6):
    return 2 * torch.rand(n, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) - 1


def test_vmap_of_rows_is_the_batch():
    model, x = network(), points()
    close(torch.vmap(model)(x), model(x))
    close(torch.vmap(torch.vmap(model))(x.reshape(2, 3, 3)), model(x).reshape(2, 3, 2))


def test_vmap_of_weights_is_every_model_alone():
    model, x = network(), points()
    stacked = {k: torch.stack([v, 2 * v, -v]) for k, v in model.named_parameters()}
    together = torch.vmap(lambda p: torch.func.functional_call(model, p, (x,)))(stacked)
    each = torch.vmap(lambda p, x: torch.func.functional_call(model, p, (x,)))(
        stacked, torch.stack([x, x, x])
    )
    for i in range(3):
        alone = torch.func.functional_call(model, {k: v[i] for k, v in stacked.items()}, (x,))
        close(together[i], alone)
        close(each[i], alone)


def test_gradients_per_sample_sum_to_the_gradient():
    model, x = network(), points()
    parameters = dict(model.named_parameters())

    def loss(p, x):
        return (torch.func.functional_call(model, p, (x,)) ** 2).sum()

    per_sample = torch.vmap(torch.func.grad(loss), (None, 0))(parameters, x)
    whole = torch.autograd.grad(loss(parameters, x), list(parameters.values()))
    for name, gradient in zip(parameters, whole, strict=True):
        close(per_sample[name].sum(0), gradient)


@pytest.mark.filterwarnings("ignore")  # PyTorch's own, of its forward mode
def test_jacobians_and_hessians():
    model, x = network(), points(3)
    jacobian = torch.vmap(torch.func.jacrev(model))(x)
    leaf = x.clone().requires_grad_()
    for j in range(2):
        (row,) = torch.autograd.grad(model(leaf)[:, j].sum(), leaf)
        close(jacobian[:, j], row)

    def scalar(x):
        return model(x).sum()

    twice = torch.vmap(torch.func.jacrev(torch.func.jacrev(scalar)))(x)
    close(torch.vmap(torch.func.hessian(scalar))(x), twice)  # forward over reverse
    close(twice, torch.stack([torch.autograd.functional.hessian(scalar, row) for row in x]))


def test_gradient_of_a_vmap_sums_over_shared_weights():
    model, x = network(), points()
    parameters = list(model.parameters())
    batched = torch.vmap(model)(x.reshape(2, 3, 3))
    ours = torch.autograd.grad((batched**2).sum(), parameters)
    for a, e in zip(ours, torch.autograd.grad((model(x) ** 2).sum(), parameters), strict=True):
        close(a, e)


@pytest.mark.filterwarnings("ignore")
def test_compiled_with_gradients():
    model, x = network(), points()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    parameters = list(model.parameters())
    y = compiled(x)
    close(y, model(x))
    ours = torch.autograd.grad((y**2).sum(), parameters)
    for a, e in zip(ours, torch.autograd.grad((model(x) ** 2).sum(), parameters), strict=True):
        close(a, e)
    torch._dynamo.reset()


@pytest.mark.filterwarnings("ignore")
def test_exported_with_any_number_of_rows():
    model, x = network().eval(), points()
    batch = torch.export.Dim("batch", min=2)
    program = torch.export.export(model, (x,), dynamic_shapes=({0: batch},))
    operators = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert operators.count("kandle.layer.default") == (2 if IS_NATIVE else 0)
    more = points(11)
    close(program.module()(more), model(more))


@needs_native
def test_operands_that_do_not_fit_are_refused():
    """The kernels would read beyond the end of what is too short."""
    x, r, c, b = (torch.zeros(*shape) for shape in ((7, 3), (4, 3), (4, 3), (4, 3, 8)))
    bias, g = torch.zeros(4), torch.zeros(7, 4)
    given = {"x": x, "r": r, "c": c, "b": b}
    for name, wrong in (
        ("x", x[:, :2]),
        ("r", r[:3]),
        ("c", c[:3]),
        ("b", b[..., :7]),
        ("b", b[:, :2]),
        ("b", b[:3]),
    ):
        operands = (given | {name: wrong}).values()
        with pytest.raises(UserError, match="of a layer must be"):
            torch.ops.kandle.layer(*operands, bias, 5, 3, -1.0, 1.0)
        with pytest.raises(UserError, match="of a layer must be"):
            torch.ops.kandle.layer_backward(*operands, g, 5, 3, -1.0, 1.0, True, True)
    with pytest.raises(UserError, match="of a layer must be"):
        torch.ops.kandle.layer(*given.values(), bias[:3], 5, 3, -1.0, 1.0)
    with pytest.raises(UserError, match="of 7 rows"):
        torch.ops.kandle.layer_backward(*given.values(), g[:6], 5, 3, -1.0, 1.0, True, True)
