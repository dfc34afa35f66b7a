"""pykan's models themselves."""

# ruff: noqa: E402

import pytest

torch = pytest.importorskip("torch")
kan = pytest.importorskip("kan", exc_type=ImportError)

import kandle
from kandle import UserError, init


def model(width=(2, 5, 1), **options):
    return kan.KAN(width=list(width), grid=5, k=3, seed=0, auto_save=False, **options)


@pytest.mark.parametrize("scheme", ["baseline", "lecun-numerical", "glorot", "power-law"])
def test_every_layer_starts_as_the_formulas_say(scheme):
    net = model((30, 40, 20))
    report = kandle.torch.initialize_(net, scheme, seed=0)
    assert [layer.name for layer in report.layers] == ["act_fun.0", "act_fun.1"]
    assert report.unknown == ()
    for layer, (n_in, n_out) in zip(net.act_fun, ((30, 40), (40, 20)), strict=True):
        sigma_r, sigma_b = init.get(scheme).scales(n_in, n_out, grid=5)
        assert layer.coef.std().item() == pytest.approx(sigma_b, rel=0.03)
        assert layer.scale_base.std().item() == pytest.approx(sigma_r, rel=0.08)
        assert (layer.scale_sp == 1).all()


def test_outputs_are_those_of_a_kandle_network_with_the_same_weights():
    import jax.numpy as jnp
    import numpy as np

    from kandle.bases import BSpline
    from kandle.nn import KANLayer

    net = model()
    kandle.torch.initialize_(net, init.Glorot(), seed=3)
    layers = [
        KANLayer(
            jnp.asarray(part.scale_base.detach().numpy().T),
            jnp.asarray(part.scale_sp.detach().numpy().T),
            jnp.asarray(part.coef.detach().numpy().transpose(1, 0, 2)),
            None,
            basis=BSpline(5, 3),
            residual=kandle.nn.RESIDUALS["silu"],
        )
        for part in net.act_fun
    ]
    x = np.random.default_rng(0).uniform(-0.99, 0.99, (64, 2)).astype(np.float32)
    expected = kandle.KAN.from_layers(layers)(x)
    np.testing.assert_allclose(net(torch.from_numpy(x)).detach(), expected, atol=2e-6)


def test_grids_adapted_to_data_and_masks_survive():
    net = model((2, 6, 1))
    x = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    net(x)
    net.update_grid_from_samples(x)
    grid, mask = (net.act_fun[0].grid.clone(), net.act_fun[0].mask)
    mask.data[0, 0] = 0.0
    report = kandle.torch.initialize_(net, init.LeCun(), seed=0)
    assert torch.equal(grid, net.act_fun[0].grid)
    assert mask[0, 0] == 0
    uniform, _ = init.LeCun().scales(2, 6, grid=5)
    assert uniform is not None
    assert abs(report.layers[0].sigma_b / init.LeCun().scales(2, 6, grid=5)[1] - 1) > 0.05
    assert torch.isfinite(net(x)).all()


def test_a_zero_base_function_leaves_the_splines_alone_to_share():
    net = model((3, 3), base_fun="zero")
    report = kandle.torch.initialize_(net, init.PowerLaw(1.0, 1.0), seed=0)
    assert report.layers[0].sigma_r is None
    assert report.layers[0].sigma_b == pytest.approx(1 / (3 * 8))


def affine(net):
    """What a network has learned on its nodes, by the names it is kept under."""
    found = {name: value for name, value in net.named_parameters() if "node_" in name}
    assert len(found) == 4 * len(net.act_fun)
    return found


def learned(width=(2, [3, 2], 1)):
    """As after training with affine parameters: an edge is pruned, one is symbolic."""
    net = model(width)
    for value in affine(net).values():
        value.data.uniform_(0.5, 1.5)
    net.act_fun[0].mask.data[0, 0] = 0.0
    net.fix_symbolic(0, 1, 1, "sin", fit_params_bool=False, verbose=False)
    return net


def test_scales_and_biases_of_nodes_start_anew():
    net = learned()
    mask, symbolic = net.act_fun[0].mask.clone(), net.symbolic_fun[0].affine.clone()
    report = kandle.torch.initialize_(torch.nn.Sequential(net), "power-law", seed=0)
    assert report.reset == ("0 (MultKAN)",)
    assert not any("MultKAN" in part for part in report.left)
    assert "scales and biases set to one and zero: 0 (MultKAN)\n" in str(report)
    for name, value in affine(net).items():
        assert (value == (1.0 if "scale" in name else 0.0)).all(), name
    assert torch.equal(mask, net.act_fun[0].mask)
    assert mask[0, 0] == mask[1, 1] == 0
    assert torch.equal(symbolic, net.symbolic_fun[0].affine)
    fresh = model((2, [3, 2], 1))
    kandle.torch.initialize_(fresh, "power-law", seed=0)
    fresh.act_fun[0].mask.data[:] = mask
    fresh.fix_symbolic(0, 1, 1, "sin", fit_params_bool=False, verbose=False)
    x = torch.linspace(-0.9, 0.9, 20).reshape(10, 2)
    torch.testing.assert_close(net(x), fresh(x))


def test_layers_that_were_added_later_start_anew():
    net = model(mult_arity=[[], [], []])
    net.expand_depth()
    net.node_bias[-1].data.fill_(3.0)
    kandle.torch.initialize_(net, "power-law", seed=0)
    assert (net.node_bias[-1] == 0).all()


def test_an_error_leaves_scales_and_biases_too():
    net = learned()
    net.act_fun[1].coef = torch.nn.Parameter(torch.ones(1))
    before = {name: value.clone() for name, value in net.state_dict().items()}
    with pytest.raises(UserError, match=r"could not write layer 'act_fun\.1'"):
        kandle.torch.initialize_(net, "power-law", seed=0)
    for name, value in net.state_dict().items():
        assert torch.equal(before[name], value), name


@pytest.mark.parametrize("inputs", [None, init.Uniform(-1, 1)])
def test_a_collapsed_grid_is_named_by_layer_and_input(inputs):
    net = model((3, 4, 1))
    x = torch.rand(100, 3)
    x[:, 1] = 0.3
    net(x)
    net.update_grid_from_samples(x)
    with pytest.raises(
        UserError, match=r"'act_fun\.0'.*input 1 .*0\.3.*samples that vary"
    ) as caught:
        kandle.torch.initialize_(net, "glorot", seed=0, inputs=inputs)
    assert "\n" not in str(caught.value)


def test_the_default_device_has_no_say():
    nets = [model(), model()]
    kandle.torch.initialize_(nets[0], "power-law", seed=1)
    torch.set_default_device("meta")
    try:
        kandle.torch.initialize_(nets[1], "power-law", seed=1)
    finally:
        torch.set_default_device(None)
    for name, value in nets[0].state_dict().items():
        assert torch.equal(value, nets[1].state_dict()[name]), name


def test_training_goes_on_from_there():
    net = model()
    x = torch.rand(64, 2) * 2 - 1
    y = (x[:, :1] * x[:, 1:]) ** 2
    kandle.torch.initialize_(net, "power-law", seed=0)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = torch.mean((net(x) - y) ** 2)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
