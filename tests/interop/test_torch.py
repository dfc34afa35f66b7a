"""PyTorch layers start as the formulas say, on whatever knots they have."""

# ruff: noqa: E402

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch_layers import KANLinear, Own

import kandle
from kandle import UserError, init
from kandle.bases import BSpline, Uniform

SCHEMES = [init.Baseline(), init.LeCun(), init.Glorot(), init.PowerLaw(0.25, 1.75)]


def network(*layers):
    return torch.nn.Sequential(*layers)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_efficient_kan_has_the_scheme_s_deviations(scheme):
    layer = KANLinear(60, 70, grid_size=6)
    report = kandle.torch.initialize_(layer, scheme, seed=0)
    sigma_r, sigma_b = scheme.scales(60, 70, grid=6)
    assert report.layers[0].sigma_r == pytest.approx(sigma_r, rel=1e-6)
    assert report.layers[0].sigma_b == pytest.approx(sigma_b, rel=1e-6)
    assert layer.base_weight.std().item() == pytest.approx(sigma_r, rel=0.05)
    assert layer.spline_weight.std().item() == pytest.approx(sigma_b, rel=0.02)
    assert (layer.spline_scaler == 1).all()
    if scheme.name == "baseline":
        assert layer.base_weight.abs().max().item() <= math.sqrt(6 / 130)


def test_without_a_scaler_and_with_another_activation():
    layer = KANLinear(30, 30, enable_standalone_scale_spline=False, base_activation=torch.nn.Tanh)
    report = kandle.torch.initialize_(layer, init.LeCun(), seed=0)
    import jax.numpy as jnp

    sigma_r, _ = init.LeCun().scales(30, 30, grid=5, residual=jnp.tanh)
    assert report.layers[0].sigma_r == pytest.approx(sigma_r, rel=1e-6)


def test_non_uniform_grids_have_moments_of_their_own():
    layer = KANLinear(2, 4000, grid_size=5)
    crowded = np.asarray([-3, -2, -1.5, -1, -0.97, -0.94, -0.91, 0.9, 1, 1.5, 2, 3])
    layer.grid[1] = torch.from_numpy(crowded)
    kandle.torch.initialize_(layer, init.Glorot(gain=1.0), seed=1)

    def sigma_b(knots):
        """Eq. 5 by Monte Carlo on SciPy's splines: √(2 / (T (n_in μ⁽⁰⁾ + n_out μ⁽¹⁾)))."""
        from scipy.interpolate import BSpline as ScipySpline

        x = np.random.default_rng(0).uniform(knots[3], knots[-4], 50_000)
        B = ScipySpline(knots.astype(float), np.eye(8), 3)
        mu_0, mu_1 = np.mean(B(x) ** 2), np.mean(B.derivative()(x) ** 2)
        return math.sqrt(2 / (9 * (2 * mu_0 + 4000 * mu_1)))

    for i, knots in enumerate(layer.grid.numpy()):
        drawn = layer.spline_weight[:, i].std().item()
        assert drawn == pytest.approx(sigma_b(knots), rel=0.03)
    uniform, other = (sigma_b(knots) for knots in layer.grid.numpy())
    assert abs(other / uniform - 1) > 0.2


def test_inputs_are_assumed_as_given():
    assert kandle.torch.initialize_(KANLinear(3, 3), init.LeCun(), seed=0).layers[
        0
    ].sigma_b != pytest.approx(
        kandle.torch.initialize_(KANLinear(3, 3), init.LeCun(), inputs=Uniform(0, 1), seed=0)
        .layers[0]
        .sigma_b,
        rel=0.1,
    )


def test_seeds():
    layers = [KANLinear(3, 4) for _ in range(4)]
    for layer, seed in zip(layers, (0, 0, 1, torch.Generator().manual_seed(1)), strict=True):
        kandle.torch.initialize_(layer, "glorot", seed=seed)
    a, b, c, d = (layer.spline_weight for layer in layers)
    assert torch.equal(a, b)
    assert torch.equal(c, d)
    assert not torch.equal(a, c)
    two = network(KANLinear(3, 3), KANLinear(3, 3))
    kandle.torch.initialize_(two, "glorot", seed=0)
    assert not torch.equal(two[0].spline_weight, two[1].spline_weight)
    kandle.torch.initialize_(layers[1], "glorot", seed=np.int64(1))
    assert torch.equal(b, c)
    for end in (2**63 - 1, -1, -(2**63)):
        kandle.torch.initialize_(layers[0], "glorot", seed=end)
    for wrong in ("0", True, 2**70, 2**63, np.uint64(2**63), -(2**63) - 1):
        with pytest.raises(UserError, match=r"integer from -2\*\*63 to 2\*\*63 - 1") as caught:
            kandle.torch.initialize_(layers[0], "glorot", seed=wrong)
        assert "\n" not in str(caught.value)


def test_global_generator_is_used_or_left_alone():
    torch.manual_seed(5)
    first, second = KANLinear(2, 2), KANLinear(2, 2)
    torch.manual_seed(7)
    kandle.torch.initialize_(first, "glorot")
    torch.manual_seed(7)
    before = torch.get_rng_state()
    kandle.torch.initialize_(second, "glorot", seed=0)
    assert torch.equal(before, torch.get_rng_state())
    kandle.torch.initialize_(second, "glorot")
    assert torch.equal(first.spline_weight, second.spline_weight)


def test_an_unknown_layer_is_named_and_untouched():
    net = network(KANLinear(2, 3), Own(3, 3), torch.nn.Linear(3, 1))
    before = net[1].w.clone()
    with pytest.warns(UserWarning, match=r"1 \(Own\)"):
        report = kandle.torch.initialize_(net, "power-law", seed=0)
    assert report.unknown == ("1 (Own)",)
    assert report.left == ("2 (Linear)",)
    assert [layer.name for layer in report.layers] == ["0"]
    assert torch.equal(before, net[1].w)
    assert "not known: 1 (Own)" in str(report)


class Listed(torch.nn.Module):
    """Coefficients where only their owner can tell what they are."""

    def __init__(self, holder):
        super().__init__()
        w = torch.nn.Parameter(torch.randn(3, 3, 8))
        self.w = holder([w]) if holder is torch.nn.ParameterList else holder({"coef": w})


class Fast(torch.nn.Module):
    """A KAN layer of PyTorch's parts alone, as FastKAN's."""

    def __init__(self, grid=True):
        super().__init__()
        self.base, self.spline = torch.nn.Linear(3, 3), torch.nn.Linear(24, 3, bias=False)
        if grid:
            self.register_buffer("grid", torch.linspace(-1, 1, 8))


class FourierKANLayer(Fast):
    def __init__(self):
        super().__init__(grid=False)


class WholeKAN(torch.nn.Module):
    """A network that is called after what is in it."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)


@pytest.mark.parametrize(
    ("unknown", "names"),
    [
        (lambda: Listed(torch.nn.ParameterList), ("1 (Listed)",)),
        (lambda: Listed(torch.nn.ParameterDict), ("1 (Listed)",)),
        (Fast, ("1 (Fast)",)),
        (FourierKANLayer, ("1 (FourierKANLayer)",)),
        (lambda: WholeKAN(Fast(), FourierKANLayer()), ("1.layers.0 (Fast)", "1.layers.1 (Fou")),
        (lambda: WholeKAN(torch.nn.Linear(3, 3)), ("1 (WholeKAN)",)),
        (lambda: torch.nn.utils.parametrizations.weight_norm(Own(3, 3), "w"), ("1 (Own)",)),
    ],
)
def test_unknown_layers_made_of_known_parts_are_named(unknown, names):
    net = network(KANLinear(2, 3), unknown(), torch.nn.Linear(3, 1))
    with pytest.warns(UserWarning, match="not known"):
        report = kandle.torch.initialize_(net, "power-law", seed=0)
    assert len(report.unknown) == len(names)
    assert all(found.startswith(name) for found, name in zip(report.unknown, names, strict=True))
    assert report.left == ("2 (Linear)",)


def test_a_network_of_known_layers_is_no_unknown_one():
    net = WholeKAN(KANLinear(2, 3), torch.nn.Linear(3, 1))
    report = kandle.torch.initialize_(net, "power-law", seed=0)
    assert report.unknown == ()
    assert report.left == ("layers.1 (Linear)",)


def test_a_parametrized_weight_is_set_through_its_inverse():
    layer, plain = KANLinear(3, 4), KANLinear(3, 4)
    torch.nn.utils.parametrizations.weight_norm(layer, "spline_weight")
    for part in (layer, plain):
        kandle.torch.initialize_(part, "power-law", seed=0)
    torch.testing.assert_close(layer.spline_weight, plain.spline_weight)
    x = torch.rand(5, 3)
    torch.testing.assert_close(layer(x), plain(x))


class Doubled(torch.nn.Module):
    def forward(self, x):
        return 2 * x


@pytest.mark.parametrize("scheme", ["power-law", "quiet"])
def test_a_weight_that_cannot_be_set_is_refused_and_nothing_changes(scheme):
    """Without an inverse; and splines of zero have no direction to normalize."""
    net = network(KANLinear(2, 3), KANLinear(3, 3))
    if scheme == "quiet":
        torch.nn.utils.parametrizations.weight_norm(net[1], "spline_weight")
    else:
        torch.nn.utils.parametrize.register_parametrization(net[1], "base_weight", Doubled())
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    with pytest.raises(UserError, match="computed from other parameters"):
        kandle.torch.initialize_(net, scheme, seed=0)
    for name, tensor in net.state_dict().items():
        assert torch.equal(before[name], tensor), name


def test_nothing_known_is_an_error():
    with pytest.raises(UserError, match=r"0 \(Linear\)"):
        kandle.torch.initialize_(network(torch.nn.Linear(2, 2)), "glorot")
    with pytest.raises(UserError, match=r"torch\.nn\.Module"):
        kandle.torch.initialize_(3, "glorot")


def test_normalized_is_refused_and_nothing_changes():
    layer = KANLinear(2, 3)
    before = layer.spline_weight.clone()
    with pytest.raises(UserError, match="standardises"):
        kandle.torch.initialize_(layer, "lecun-normalized")
    assert torch.equal(before, layer.spline_weight)


def test_an_error_half_way_changes_nothing():
    net = network(KANLinear(2, 3), KANLinear(3, 3))
    net[1].grid[0, 4] = 99.0
    before = net[0].spline_weight.clone()
    with pytest.raises(UserError, match=r"'1'.*non-decreasing.*input 0") as caught:
        kandle.torch.initialize_(net, "glorot")
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match="'inputs'"):
        kandle.torch.initialize_(net, "glorot", inputs=3)
    assert torch.equal(before, net[0].spline_weight)


class OwnAdapter:
    def matches(self, module):
        return isinstance(module, Own)

    def describe(self, module):
        n_in, _, n_out = module.w.shape
        residual = kandle.torch.torch_residual(torch.tanh)
        return kandle.torch.SplineLayer(n_in, n_out, module.knots.numpy(), 3, residual)

    def write(self, module, r, b):
        module.w.copy_(b.permute(1, 2, 0))
        module.v.copy_(r.T)


def test_an_adapter_teaches_a_layer():
    adapter = OwnAdapter()
    kandle.torch.register(adapter)
    try:
        layer = Own(40, 50)
        report = kandle.torch.initialize_(layer, init.LeCun(), seed=0)
    finally:
        kandle.torch.unregister(adapter)
    import jax.numpy as jnp

    step = 6 / 10
    basis = BSpline(4, 3, (-3 + 3 * step, 3 - 3 * step))
    sigma_r, sigma_b = init.LeCun().scales(40, 50, 4, domain=basis.domain, residual=jnp.tanh)
    assert layer.w.std().item() == pytest.approx(sigma_b, rel=0.03)
    assert layer.v.std().item() == pytest.approx(sigma_r, rel=0.05)
    assert report.unknown == ()
    with pytest.raises(UserError, match="matches, describe and write"):
        kandle.torch.register(object())


class Careless(OwnAdapter):
    """Replaces a parameter, then fails."""

    def write(self, module, r, b):
        module.v = torch.nn.Parameter(r.T)
        module.w.copy_(b.permute(1, 2, 0))
        module.w.copy_(b)


class Vague(OwnAdapter):
    def describe(self, module):
        return "a layer"


class Wrong(OwnAdapter):
    def describe(self, module):
        return module.nothing


@pytest.mark.parametrize(
    ("adapter", "message"),
    [
        (Careless(), "Careless could not write layer '1'"),
        (Vague(), "SplineLayer"),
        (Wrong(), "Layer '1' .*'describe' of adapter Wrong ends in AttributeError: .*nothing"),
    ],
)
def test_an_adapter_that_fails_leaves_all_layers_as_they_were(adapter, message):
    net = network(KANLinear(2, 3), Own(3, 4))
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    kandle.torch.register(adapter)
    try:
        with pytest.raises(UserError, match=message):
            kandle.torch.initialize_(net, "glorot", seed=0)
    finally:
        kandle.torch.unregister(adapter)
    for name, tensor in net.state_dict().items():
        assert torch.equal(before[name], tensor), name
    with pytest.raises(UserError, match="not registered"):
        kandle.torch.unregister(adapter)


def test_a_residual_that_is_constant():
    layer = KANLinear(2, 3, base_activation=lambda: torch.ones_like)
    assert kandle.torch.initialize_(layer, "power-law", seed=0).layers[0].sigma_r is not None


@pytest.fixture
def meta_by_default():
    def choose():
        torch.set_default_device("meta")

    yield choose
    torch.set_default_device(None)


@pytest.mark.parametrize("scheme", ["baseline", "power-law"])
def test_the_default_device_has_no_say(scheme, meta_by_default):
    """Nor where an activation makes tensors of its own."""
    layers = [KANLinear(3, 4, base_activation=lambda: doubled) for _ in range(2)]
    kandle.torch.initialize_(layers[0], scheme, seed=1)
    meta_by_default()
    kandle.torch.initialize_(layers[1], scheme, seed=1)
    for name, values in layers[0].state_dict().items():
        assert torch.equal(values, layers[1].state_dict()[name]), name
    assert torch.empty(1).is_meta  # still what the caller has chosen
    kandle.torch.initialize_(layers[1], scheme)
    kandle.torch.initialize_(layers[1], scheme, seed=torch.Generator("cpu"))


def doubled(x):
    return x * torch.tensor(2.0)


def test_other_precisions_stay():
    layer = KANLinear(2, 3).double()
    kandle.torch.initialize_(layer, "glorot", seed=0)
    assert layer.spline_weight.dtype == torch.float64
    x = torch.rand(5, 2, dtype=torch.float64)
    assert torch.isfinite(layer(x)).all()


def test_a_layer_without_residual_function():
    layer = KANLinear(4, 4)
    layer.base_activation = torch.nn.Threshold(100.0, 0.0)
    before = layer.base_weight.clone()
    report = kandle.torch.initialize_(layer, init.PowerLaw(1.0, 1.0), seed=0)
    assert report.layers[0].sigma_r is None
    assert report.layers[0].sigma_b == pytest.approx(1 / (4 * 8))
    assert torch.equal(before, layer.base_weight)


class RadialBasisFunction(torch.nn.Module):
    """As in FastKAN: fixed centres, stored as a parameter."""

    def __init__(self):
        super().__init__()
        self.grid = torch.nn.Parameter(torch.linspace(-2, 2, 8), requires_grad=False)


def test_radial_layers_are_shown_a_route_that_works():
    layer = torch.nn.Module()
    layer.rbf, layer.spline_linear = RadialBasisFunction(), torch.nn.Linear(3 * 8, 5, bias=False)
    with pytest.raises(UserError, match=r"Radial functions, as in FastKAN.*scales\(n_in, n_out, b"):
        kandle.torch.initialize_(layer, "power-law")
    basis = kandle.bases.RBF(8, domain=(-2, 2))
    _, sigma_b = kandle.init.get("power-law").scales(3, 5, basis=basis)
    torch.nn.init.normal_(layer.spline_linear.weight, std=sigma_b)
    assert layer.spline_linear.weight.std().item() == pytest.approx(sigma_b, rel=0.3)
