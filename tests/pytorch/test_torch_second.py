"""Higher derivatives of a layer called by itself equal the composition of operators."""

# ruff: noqa: E402

import pytest

torch = pytest.importorskip("torch")

import kandle.torch
from kandle.kernels import route

SPLINE = (5, 3, -1.0, 1.0)

pytestmark = pytest.mark.skipif(
    route(kandle.torch.KANLinear(1, 1), torch.zeros(1, 1)).path != "per layer",
    reason="the native kernels are not built",
)


def operands(n=600, n_in=3, n_out=2, residual=True, dtype=torch.float64):
    """x, r, c, b, g and u, all with gradients."""
    generator = torch.Generator().manual_seed(n)

    def normal(*shape):
        return torch.randn(shape, generator=generator, dtype=dtype).requires_grad_()

    x = 2.4 * torch.rand((n, n_in), generator=generator, dtype=dtype) - 1.2
    r = normal(n_out, n_in) if residual else None
    weights = normal(n_out, n_in), normal(n_out, n_in, 8)
    return x.requires_grad_(), r, *weights, normal(n, n_out), normal(n, n_in)


def slope(tensors, alone):
    """The gradient of Σ g·y in x, of one layer or of one that leads with a model axis.

    The native calls for second derivatives take one model, so the other is composed of operators.
    """
    x, r, c, b, g, _ = tensors
    if alone:
        y = torch.ops.kandle.layer(x, r, c, b, None, *SPLINE)
    else:
        y = torch.ops.kandle.layer(x[None], r, c, b, None, *SPLINE)[0]
    return torch.autograd.grad(y, x, g, create_graph=True)[0]


def second(tensors, alone):
    """The gradients of Q = Σ u·∂(Σ g·y)/∂x in x, r, c, b and g."""
    *sought, u = (t for t in tensors if t is not None)
    return torch.autograd.grad(slope(tensors, alone), sought, u, create_graph=True)


def operators(tensor):
    """The names of the nodes in a tensor's graph."""
    nodes, seen = [tensor.grad_fn], set()
    while nodes:
        node = nodes.pop()
        if node is not None and node not in seen:
            seen.add(node)
            nodes += [following for following, _ in node.next_functions]
    return " ".join(node.name() for node in seen)


def assert_same(ours, theirs, tolerance=1e-10):
    for a, e in zip(ours, theirs, strict=True):
        assert (a is None) == (e is None)
        if a is not None:
            scale = e.abs().max().item()
            torch.testing.assert_close(a, e, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("n_out", [1, 2])
def test_second_derivatives(n_out, residual):
    tensors = operands(n_out=n_out, residual=residual)
    ours, theirs = second(tensors, alone=True), second(tensors, alone=False)
    assert "spline" not in operators(ours[0])
    assert "spline" in operators(theirs[0])
    assert_same(ours, theirs)


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("directions", ["x", "g", "xg", "xcbg"])
def test_third_and_fourth_derivatives(directions, residual):
    """Through the gradients in x and in g, and through those in the weights."""
    tensors = operands(n=9, residual=residual)
    sought = [t for t in tensors if t is not None]
    names = "xrcbg" if residual else "xcbg"
    results = []
    for alone in (True, False):
        values = dict(zip(names, second(tensors, alone), strict=True))
        loss = sum(torch.sin(values[name]).sum() for name in directions)
        third = torch.autograd.grad(loss, sought, create_graph=True, materialize_grads=True)
        loss = sum(torch.cos(t).sum() for t in third)
        results.append([*third, *torch.autograd.grad(loss, sought, materialize_grads=True)])
    assert_same(*results, 1e-9)


def test_a_tensor_may_be_two_operands():
    x, r, c, b, g, _ = operands(n=5)
    results = []
    for alone in (True, False):
        d_x = second((x, r, c, b, g, x), alone)[0]
        results.append(torch.autograd.grad(d_x.square().sum(), x))
    assert_same(*results)


def test_operands_may_have_any_strides():
    x, r, c, b, g, u = operands(n=5)
    turned = [t.detach().T.contiguous().T.requires_grad_() for t in (x, r, c)]
    assert not any(t.is_contiguous() for t in turned)
    assert_same(second((*turned, b, g, u), True), second((x, r, c, b, g, u), True), 0)


def test_bits_do_not_depend_on_the_number_of_threads():
    tensors = operands(n=3000, n_in=20, dtype=torch.float32)
    sought = [t for t in tensors if t is not None]
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            values = second(tensors, alone=True)
            loss = values[0].sin().sum() + values[-1].sin().sum()
            results.append([*values, *torch.autograd.grad(loss, sought)])
    finally:
        torch.set_num_threads(before)
    assert_same(*results, 0)


def test_layers_called_one_by_one_take_the_native_calls():
    layers = torch.nn.Sequential(kandle.torch.KANLinear(2, 3), kandle.torch.KANLinear(3, 1))
    x = torch.rand(5, 2, requires_grad=True)
    u = layers(x)
    (du,) = torch.autograd.grad(u.sum(), x, create_graph=True)
    (d_xx,) = torch.autograd.grad(du[:, 1].sum(), x, create_graph=True)
    loss = (u + du[:, :1] - d_xx[:, 1:]).square().mean()
    (third,) = torch.autograd.grad(loss, x, create_graph=True)
    assert "spline" not in operators(third)
