"""Second and third derivatives in one native call equal the composition of operators."""

# ruff: noqa: E402

import pytest

torch = pytest.importorskip("torch")

import kandle.torch
from kandle.torch import _native, _ops, _second

SPLINE = (5, 3, -1.0, 1.0)

pytestmark = pytest.mark.skipif(not _native.AVAILABLE, reason="the native kernels are not built")


def operands(n=600, n_in=3, n_out=2, residual=True, dtype=torch.float64):
    generator = torch.Generator().manual_seed(n)

    def normal(*shape):
        return torch.randn(shape, generator=generator, dtype=dtype)

    x = 2.4 * torch.rand((n, n_in), generator=generator, dtype=dtype) - 1.2
    r = normal(n_out, n_in) if residual else None
    return x, r, normal(n_out, n_in), normal(n_out, n_in, 8), normal(n, n_out), normal(n, n_in)


def compose(x, r, c, b, g, u, needed=(True,) * 5):
    return _ops.compose_second(x, r, c, b, g, u, None, None, None, None, SPLINE, needed)


def fused(*tensors, needed=(True,) * 5):
    return _second.gradients(*tensors, SPLINE, needed, _ops.compose_second)


def tracked(tensors):
    return [None if t is None else t.clone().requires_grad_() for t in tensors]


def assert_same(ours, theirs):
    for a, e in zip(ours, theirs, strict=True):
        assert (a is None) == (e is None)
        if a is not None:
            torch.testing.assert_close(a, e, rtol=1e-10, atol=1e-10 * e.abs().max().item())


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("n_out", [1, 2])
def test_second_derivatives(n_out, residual):
    tensors = operands(n_out=n_out, residual=residual)
    assert_same(fused(*tensors), compose(*tensors))


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("directions", [(0,), (4,), (0, 4), (0, 2, 3, 4)])
def test_third_and_fourth_derivatives(directions, residual):
    """Through the gradients in x (0) and in g (4), and through those in the weights."""
    results = []
    for second in (fused, compose):
        tensors = tracked(operands(n=9, residual=residual))
        gradients = [t for t in tensors if t is not None]
        values = second(*tensors)
        loss = sum(torch.sin(values[j]).sum() for j in directions)
        third = torch.autograd.grad(loss, gradients, create_graph=True, allow_unused=True)
        loss = sum(torch.cos(t).sum() for t in third if t is not None)
        results.append([*third, *torch.autograd.grad(loss, gradients, allow_unused=True)])
    for ours, theirs in zip(*results, strict=True):
        zero = torch.zeros(())
        a, e = (zero if t is None else t for t in (ours, theirs))
        torch.testing.assert_close(
            a + 0 * e, e + 0 * a, rtol=1e-9, atol=1e-9 * e.abs().max().item()
        )


def test_a_tensor_may_be_two_operands():
    x, r, c, b, g, _ = tracked(operands(n=5))
    for second in (fused, compose):
        value = second(x, r, c, b, g, x)[0].square().sum()
        (gradient,) = torch.autograd.grad(value, x)
        if second is fused:
            ours = gradient
    torch.testing.assert_close(ours, gradient, rtol=1e-10, atol=1e-10)


def test_bits_do_not_depend_on_the_number_of_threads():
    x, r, c, b, g, u = operands(n=3000, n_in=20, dtype=torch.float32)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            results.append(
                _native.second(
                    *(x, r, c, b, u, u + 1, g - 1, g, 5, -1.0, 1.0),
                    outputs=True,
                    inputs=True,
                    along=True,
                    weights=True,
                )
            )
    finally:
        torch.set_num_threads(before)
    for a, e in zip(*results, strict=True):
        assert torch.equal(a, e)


def test_layers_called_one_by_one_take_the_shortcut(monkeypatch):
    calls = []
    call = _native.call
    monkeypatch.setattr(
        _native, "call", lambda name, *rest: (calls.append(name), call(name, *rest))
    )
    layers = torch.nn.Sequential(kandle.torch.KANLinear(2, 3), kandle.torch.KANLinear(3, 1))
    x = torch.rand(5, 2, requires_grad=True)
    u = layers(x)
    (du,) = torch.autograd.grad(u.sum(), x, create_graph=True)
    (d_xx,) = torch.autograd.grad(du[:, 1].sum(), x, create_graph=True)
    (u + du[:, :1] - d_xx[:, 1:]).square().mean().backward()
    assert "trilinear" not in calls
    assert calls.count("second") > 0
