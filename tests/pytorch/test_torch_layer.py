"""`kandle.torch.KANLinear` and `KAN` as PyTorch modules, beside independent evaluations."""

# ruff: noqa: E402

import contextlib
import copy
import math
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.interpolate import BSpline as SciPySpline

torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).parents[1] / "interop"))

from torch.autograd import forward_ad
from torch_layers import KANLinear as EfficientLinear

import kandle.torch
from kandle import UserError, init
from kandle.kernels import route
from kandle.torch import KAN, KANLinear


def rows(n=20, n_in=3, dtype=torch.float32, seed=0):
    return 2 * torch.rand(n, n_in, dtype=dtype, generator=torch.Generator().manual_seed(seed)) - 1


def expected(layer, x):
    """Eq. 1 with SciPy's splines."""
    knots = layer.grid.double().numpy()
    b = layer.scaled_spline_weight.detach().double().numpy()
    x = x.double().numpy()
    y = np.zeros((len(x), layer.out_features))
    for i in range(layer.in_features):
        for j in range(layer.out_features):
            for m, weight in enumerate(b[j, i]):
                own = knots[i, m : m + layer.spline_order + 2]
                B = SciPySpline.basis_element(own, extrapolate=False)(x[:, i])
                y[:, j] += weight * np.nan_to_num(B)
    if layer.base_weight is not None:
        R = layer.base_activation(torch.from_numpy(x)).numpy()
        y += R @ layer.base_weight.detach().double().numpy().T
    return y if layer.bias is None else y + layer.bias.detach().double().numpy()


def same(a, b, tolerance=1e-6):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"residual": None},
        {"residual": "tanh", "bias": False},
        {"base_activation": torch.nn.GELU, "grid_range": [-2, 1.5]},
        {"enable_standalone_scale_spline": False, "grid_size": 9, "spline_order": 2},
        {"domain": (0.0, 1.0), "spline_order": 5},
    ],
    ids=str,
)
def test_layer_equals_scipy(options, native):
    torch.manual_seed(0)
    layer = KANLinear(3, 4, dtype=torch.float64, init="lecun-numerical", **options)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_()
    x = 1.2 * rows(dtype=torch.float64)
    # In forward mode layers run on PyTorch's own operations.
    with contextlib.nullcontext() if native else forward_ad.dual_level():
        assert native or route(layer, x).path == "plain"
        y = layer(x)
    np.testing.assert_allclose(y.detach().numpy(), expected(layer, x), atol=1e-12)


def test_any_leading_axes():
    layer, x = KANLinear(3, 4), rows(24)
    same(layer(x.reshape(2, 3, 4, 3)).reshape(24, 4), layer(x), 0)
    same(layer(x[0]), layer(x[:1])[0], 1e-6)
    assert layer(x[:0]).shape == (0, 4)
    assert KAN([3, 4, 2])(x.reshape(4, 6, 3)).shape == (4, 6, 2)


def test_wrong_inputs_say_what_they_must_be():
    layer = KANLinear(3, 4)
    with pytest.raises(UserError, match="3 components"):
        layer(torch.zeros(5, 2))
    with pytest.raises(UserError, match=r"torch\.float32.*torch\.float64"):
        layer(torch.zeros(5, 3, dtype=torch.float64))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"in_features": 0}, "'in_features'"),
        ({"grid_size": 0}, "'grid_size'"),
        ({"spline_order": 6}, "'spline_order'.*from 1 to 5"),
        ({"domain": (1, 0)}, "'domain'"),
        ({"init": "xavier"}, "scheme"),
        ({"residual": "swish"}, "residual function"),
        ({"dtype": torch.int32}, "'dtype'"),
        ({"grid_eps": 2.0}, "'grid_eps'"),
        ({"init": "glorot", "scale_noise": 0.1}, "'scale_noise'.*contradict"),
        ({"init": "power-law", "scale_base": 1.0}, "'scale_base'.*contradict"),
        ({"residual": "tanh", "base_activation": torch.nn.SiLU}, "not both"),
        ({"domain": (0, 1), "grid_range": (0, 1)}, "not both"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(UserError, match=message):
        KANLinear(**{"in_features": 3, "out_features": 4, **arguments})


@pytest.mark.parametrize("scheme", sorted(set(init.SCHEMES) - {"data"}))
def test_every_scheme_has_its_deviations(scheme):
    torch.manual_seed(0)
    layer = KANLinear(40, 50, grid_size=6, init=scheme)
    sigma_r, sigma_b = init.get(scheme).scales(40, 50, grid=6)
    assert layer.base_weight.std().item() == pytest.approx(sigma_r, rel=0.06)
    drawn = layer.spline_weight.std((0, 1)).detach().numpy()
    np.testing.assert_allclose(drawn, np.broadcast_to(sigma_b, drawn.shape), rtol=0.1, atol=1e-12)
    assert (layer.spline_scaler == 1).all()
    assert (layer.bias == 0).all()


def test_schemes_that_need_data_get_a_sample():
    torch.manual_seed(0)
    x = rows(500)
    model = KAN([3, 20, 2], init="data", sample=x)
    for y in (model.layers[0](x), model(x)):
        assert y.var(0).mean().item() == pytest.approx(x.var().item(), rel=0.4)
    with pytest.raises(UserError, match="'sample'"):
        KAN([3, 20, 2], init="data")
    with pytest.raises(UserError, match="'sample'"):
        KAN([3, 20, 2], sample=x)


def test_reset_parameters_draws_anew_and_remembers_the_scheme():
    layer = KANLinear(40, 50)
    before = layer.spline_weight.clone()
    layer.reset_parameters(init="quiet")
    assert (layer.spline_weight == 0).all()
    assert "Quiet" in repr(layer)
    layer.reset_parameters(init.PowerLaw(), generator=torch.Generator().manual_seed(3))
    again = KANLinear(40, 50)
    again.reset_parameters(generator=torch.Generator().manual_seed(3))
    same(layer.spline_weight, again.spline_weight, 0)
    assert not torch.equal(layer.spline_weight, before)


def test_efficient_kan_initialization():
    """Splines through noise at the grid points; base and scaler with Kaiming's uniform law."""
    torch.manual_seed(0)
    layer = KANLinear(30, 40, scale_noise=0.4, scale_base=2.0, bias=False)
    points = torch.linspace(-1, 1 - 1e-6, 6)
    x = points[:, None].expand(-1, 30)
    layer.base_weight.data.zero_()
    bound = math.sqrt(6 / ((1 + 5) * 30))
    assert 0.95 * bound < layer.spline_scaler.abs().max().item() <= bound
    layer.spline_scaler.data.fill_(1.0)
    noise = torch.einsum("nim,oim->noi", layer._functions(x), layer.spline_weight)
    assert noise.abs().max().item() <= 0.4 / 5 / 2 + 1e-5
    assert noise.std().item() == pytest.approx(0.4 / 5 / math.sqrt(12), rel=0.02)
    assert "efficient-kan" in repr(layer)


def test_a_state_of_efficient_kan_loads():
    theirs = EfficientLinear(3, 4)
    ours = KANLinear(3, 4, bias=False)
    assert ours.load_state_dict(theirs.state_dict()) is not None
    same(ours(rows()), theirs(rows()), 1e-5)


def test_a_state_with_another_grid_is_noticed():
    theirs = EfficientLinear(3, 4, grid_range=(-3, 2))
    ours = KANLinear(3, 4, bias=False)
    ours.load_state_dict(theirs.state_dict())
    assert ours.domain == pytest.approx((-3, 2))
    same(ours(2 * rows()), theirs(2 * rows()), 1e-5)
    crowded = torch.tensor([-3, -2, -1.5, -1, -0.97, -0.94, -0.91, 0.9, 1, 1.5, 2, 3])
    theirs.grid[1] = crowded
    ours.load_state_dict(theirs.state_dict())
    assert ours.domain is None
    same(ours(rows()), theirs(rows()), 1e-5)
    ours.grid.copy_(theirs.grid[:1])  # by hand, back to equal rows
    assert "domain=(-3, 2)" in repr(ours)


def test_pickles_know_public_names_alone():
    pickled = pickle.dumps(KAN([3, 4, 2]))
    assert b"kandle.torch" in pickled
    assert b"kandle.torch._" not in pickled


def test_modules_that_version_0_2_pickled_compute_the_same():
    pickled = (Path(__file__).parent / "files" / "modules-0.2.pickle").read_bytes()
    x, models, values = pickle.loads(pickled)
    assert [type(model) for model in models] == [KAN, KAN, KANLinear]
    for model, y in zip(models, values, strict=True):
        torch.testing.assert_close(model(x), y, rtol=1e-5, atol=1e-6)
        again = pickle.loads(pickle.dumps(model))
        assert torch.equal(again(x), model(x))


def test_copies_compute_the_same():
    model = KAN([3, 4, 2], domain=(0.0, 0.1))
    x = 0.1 * rows()
    y = model(x)
    other = KAN([3, 4, 2], domain=(0.0, 0.1))
    other.load_state_dict(model.state_dict())
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), other):
        assert torch.equal(copied(x), y)
    assert set(model.state_dict()) == {
        f"layers.{l}.{name}"
        for l in range(2)
        for name in ("base_weight", "spline_weight", "spline_scaler", "bias", "grid")
    }


def test_types():
    model, x = KAN([3, 4, 2], init="lecun-numerical"), rows()
    y = model(x).detach()
    same(copy.deepcopy(model).double()(x.double()).float(), y, 1e-5)
    half = copy.deepcopy(model).half()
    assert half(x.half()).dtype == torch.float16
    same(half(x.half()).float(), y, 2e-2)
    same(copy.deepcopy(model).to(torch.bfloat16)(x.bfloat16()).float(), y, 0.1)
    assert half(x.half()).sum().backward() is None
    assert half.layers[0].spline_weight.grad.dtype == torch.float16
    same(model(x.half()), model(x.half().float()), 0)  # lower precision is promoted


def test_meta_device_then_a_real_one():
    model = KAN([3, 4, 2], device="meta")
    assert model(torch.zeros(5, 3, device="meta")).shape == (5, 2)
    real = model.to_empty(device="cpu")
    real.load_state_dict(KAN([3, 4, 2]).state_dict())
    assert torch.isfinite(real(rows())).all()


def test_training_mode_changes_nothing():
    model = KAN([3, 4, 2])
    y = model(rows())
    assert torch.equal(model.eval()(rows()), y)
    assert not model.layers[0].training


def test_parameters_all_get_gradients_and_learn():
    torch.manual_seed(0)
    model, x = KAN([3, 8, 1]), rows(200)
    y = torch.sin(3 * x[:, :1]) * x[:, 1:2]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(150):
        optimizer.zero_grad()
        loss = torch.mean((model(x) - y) ** 2)
        loss.backward()
        assert all(p.grad is not None for p in model.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.05 * losses[0]


class _Predict(torch.utils.data.Dataset):
    """A data set whose rows pass through a network in the loader's worker processes."""

    def __init__(self, model):
        self.model = model

    def __len__(self):
        return 8

    def __getitem__(self, i):
        """The network's output at the row, and its gradients there and at many others."""
        x = torch.full((3,), i / 8)
        y = self.model(x)
        loss = (y - self.model(rows(2000))).square().mean()
        return y.detach(), *torch.autograd.grad(loss, tuple(self.model.parameters()))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_data_loader_workers(context):
    model = KAN([3, 4, 2])
    model(rows(5000))  # threads exist before the workers are started
    data = _Predict(model)
    loader = torch.utils.data.DataLoader(
        data, batch_size=None, num_workers=1, multiprocessing_context=context, timeout=300
    )
    for i, found in enumerate(loader):
        for ours, expected in zip(found, data[i], strict=True):
            assert torch.equal(ours, expected)


# ---- grids ---------------------------------------------------------------------------------------


def test_refinement_by_a_whole_factor_is_exact():
    torch.manual_seed(0)
    # Hidden values stay on the domain, where the functions are kept.
    options = {"dtype": torch.float64, "init": "glorot", "domain": (-4, 4)}
    options["inputs"] = init.Uniform(-1, 1)
    model = KAN([3, 4, 2], grid_size=[4, 5], **options)
    x = rows(dtype=torch.float64)
    y = model(x)
    model.refine([8, 15])
    assert model.grid_size == (8, 15)
    assert model.layers[1].spline_weight.shape == (2, 4, 18)
    same(model(x), y, 1e-12)
    model.refine(40)
    same(model(x), y, 1e-2)


def test_update_grid_follows_the_data_and_keeps_the_function():
    torch.manual_seed(0)
    layer = KANLinear(3, 4, grid_size=4, init="lecun-numerical", dtype=torch.float64)
    layer.refine(20)
    x = 0.7 * rows(500, dtype=torch.float64)
    y = layer(x)
    layer.update_grid(x, margin=0.05)
    assert layer.domain == pytest.approx((x.min().item() - 0.05, x.max().item() + 0.05))
    assert layer.grid[0, 3].item() == pytest.approx(layer.domain[0])
    same(layer(x), y, 0.01)
    constant = torch.full((10, 3), 0.3, dtype=torch.float64)
    layer.update_grid(constant)
    assert torch.isfinite(layer(constant)).all()
    with pytest.raises(UserError, match="finite"):
        layer.update_grid(constant * math.nan)


def test_adaptive_grids_have_quantiles_for_knots():
    torch.manual_seed(0)
    layer = KANLinear(2, 3, grid_size=8, grid_eps=0.0, init="lecun-numerical", dtype=torch.float64)
    x = rows(401, 2, torch.float64) ** 3
    y = layer(x)
    layer.update_grid(x)
    assert layer.domain is None
    quantiles = np.quantile(x.numpy(), np.linspace(0, 1, 9), axis=0, method="lower").T
    np.testing.assert_allclose(layer.grid[:, 3:-3].numpy(), quantiles, atol=1e-12)
    np.testing.assert_allclose(layer(x[:-1]).detach(), expected(layer, x[:-1]), atol=1e-12)
    same(layer(x), y, 0.3)
    layer.update_grid(torch.full((10, 2), 0.3, dtype=torch.float64))
    assert torch.isfinite(layer(x)).all()


def test_forward_with_update_grid():
    torch.manual_seed(0)
    model, x = KAN([3, 4, 2]), 5 * rows(100)
    model(x, update_grid=True)
    assert model.layers[0].domain == pytest.approx((x.min().item() - 0.01, x.max().item() + 0.01))
    hidden = model.layers[0](x)
    assert model.layers[1].domain[1] == pytest.approx(hidden.max().item() + 0.01, rel=1e-4)


# ---- other things that modules do ----------------------------------------------------------------


def test_regularization_loss_is_its_formula():
    torch.manual_seed(0)
    layer, x = KANLinear(3, 4, init="lecun-numerical", dtype=torch.float64), rows(50).double()
    phi = np.zeros((50, 4, 3))
    for i in range(3):
        only = copy.deepcopy(layer)
        with torch.no_grad():
            for other in {0, 1, 2} - {i}:
                only.spline_weight[:, other] = 0
                only.base_weight[:, other] = 0
            only.bias.zero_()
        phi[:, :, i] = only(x).detach().numpy()
    with_data = np.abs(phi).mean(0)
    weights = np.abs(layer.scaled_spline_weight.detach().numpy()).mean(-1)
    for A, given in ((with_data, x), (weights, None)):
        p = A / A.sum()
        value = 0.3 * A.sum() - 0.7 * (p * np.log(p)).sum()
        assert layer.regularization_loss(0.3, 0.7, given).item() == pytest.approx(value, rel=1e-9)
    quiet = KAN([3, 4, 2], init="quiet")
    loss = quiet.regularization_loss()
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in quiet.parameters() if p.grad is not None)


def test_normalized_layers_standardize_their_basis():
    torch.manual_seed(0)
    model = KAN([3, 4, 2], init="lecun-normalized", dtype=torch.float64)
    x = rows(100, dtype=torch.float64)
    layer = model.layers[0]
    B = layer._functions(x)
    standard = (B - B.mean(0)) / torch.sqrt(B.var(0, unbiased=False) + 1e-5)
    spline = torch.einsum("nim,oim->no", standard, layer.spline_weight)
    same(layer(x), spline + torch.nn.functional.silu(x) @ layer.base_weight.T, 1e-10)
    y = model(x)
    model.freeze(x)
    same(model(x[:3]), y[:3], 1e-10)
    other = KAN([3, 4, 2], init="lecun-normalized", dtype=torch.float64)
    other.load_state_dict(model.state_dict())
    same(other(x[:3]), y[:3], 1e-10)


def test_representation_informs():
    text = repr(KAN([3, 4, 2], grid_size=7, init="glorot", residual=None))
    assert "3, 4, grid_size=7, spline_order=3, domain=(-1, 1)" in text
    assert "residual=None" in text
    assert "Glorot" in text


def test_initialize_knows_these_layers():
    model = KAN([30, 40, 2], init="quiet")
    torch.nn.init.ones_(model.layers[0].bias)
    report = kandle.torch.initialize_(model, init.Glorot(), seed=0)
    assert len(report.layers) == 2
    assert not report.unknown
    sigma_r, _ = init.Glorot().scales(30, 40, grid=5)
    assert model.layers[0].base_weight.std().item() == pytest.approx(sigma_r, rel=0.1)
    assert (model.layers[0].bias == 0).all()
