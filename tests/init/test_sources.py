"""Weights from any source of random numbers: JAX keys, NumPy, PyTorch."""

import subprocess
import sys

import jax
import numpy as np
import pytest

from kandle import KAN, KANRegressor, UserError, init
from kandle.bases import BSpline

RNG = np.random.default_rng(0)


class Recorded:
    """A source that returns known numbers and records what was asked for."""

    def __init__(self):
        self.calls = []

    def _numbers(self, law, shape):
        numbers = np.random.default_rng(len(self.calls)).normal(size=shape)
        self.calls.append((law, shape, numbers))
        return numbers

    def normal(self, shape):
        return self._numbers("normal", shape)

    def uniform(self, shape):
        return self._numbers("uniform", shape)

    def ones(self, shape):
        return np.ones(shape)


@pytest.mark.parametrize("law", ["normal", "uniform"])
@pytest.mark.parametrize("shape_r", [(), (3,)])
@pytest.mark.parametrize("shape_b", [(), (5,), (3, 1), (3, 5)])
def test_weights_are_deviations_times_the_numbers_of_the_source(law, shape_r, shape_b):
    source = Recorded()
    sigma_r, sigma_b = RNG.uniform(1, 2, shape_r), RNG.uniform(1, 2, shape_b)
    r, c, b = init.draw_weights((2, 3, 5), sigma_r, sigma_b, law=law, sources=(source, source))
    (law_r, edges, u_r), (law_b, shape, u_b) = source.calls
    assert (law_r, edges, law_b, shape) == (law, (2, 3), "normal", (2, 3, 5))
    np.testing.assert_array_equal(c, np.ones((2, 3)))
    per_input = np.broadcast_to(sigma_r, 3)
    per_function = np.broadcast_to(sigma_b, (3, 5))
    for j in range(2):
        for i in range(3):
            assert r[j, i] == per_input[i] * u_r[j, i]
            np.testing.assert_array_equal(b[j, i], per_function[i] * u_b[j, i])


def test_each_array_has_its_source():
    first, second = Recorded(), Recorded()
    init.draw_weights((2, 3, 5), 1.0, 1.0, law="uniform", sources=(first, second))
    assert [call[:2] for call in first.calls] == [("uniform", (2, 3))]
    assert [call[:2] for call in second.calls] == [("normal", (2, 3, 5))]
    r, _, b = init.draw_weights((2, 3, 5), None, 1.0, law="normal", sources=(first, second))
    assert r is None
    assert b.shape == (2, 3, 5)
    assert len(first.calls) == 1


def test_unknown_distributions_are_refused():
    source = init.NumPySource(np.random.default_rng(0))
    with pytest.raises(UserError, match="Unknown distribution of residual weights 'cauchy'"):
        init.draw_weights((2, 3, 5), 1.0, 1.0, law="cauchy", sources=(source, source))
    with pytest.raises(UserError, match="Unknown distribution of residual weights 'cauchy'"):
        init.draw_scaled(jax.random.key(0), 1.0, 1.0, n_in=2, n_out=3, n_basis=4, law="cauchy")


def drawn_by_jax(scheme, n_in, n_out, basis):
    return scheme.draw(jax.random.key(0), n_in, n_out, basis)


def drawn_by_an_estimator(scheme, n_in, n_out, basis):
    """The network before its first update, which moves no weight by more than the rate."""
    x = np.random.default_rng(1).uniform(-1, 1, (20, n_in))
    y = np.random.default_rng(2).normal(size=(20, n_out))
    options = {"init": scheme, "grid": basis.grid, "n_networks": 1, "max_iter": 1}
    quiet = {"early_stopping": False, "smoothness": 0.0, "learning_rate": 1e-9}
    model = KANRegressor((), random_state=0, **options, **quiet).fit(x, y)
    [layer] = model.model_.layers
    return layer.r, layer.c, layer.b


def drawn_by_torch(scheme, n_in, n_out, basis):
    torch = pytest.importorskip("torch")
    from kandle.torch import KANLinear

    torch.manual_seed(0)
    layer = KANLinear(n_in, n_out, grid_size=basis.grid, init=scheme)
    r, b = (w.detach().numpy() for w in (layer.base_weight, layer.spline_weight))
    return r, np.ones_like(r), b


def drawn_into_jaxkan(scheme, n_in, n_out, basis):
    models = pytest.importorskip("jaxkan.models.KAN")
    from kandle import jaxkan

    model = models.KAN([n_in, n_out], "spline", {"k": 3, "G": basis.grid}, seed=0)
    jaxkan.initialize(model, scheme, 0)
    [layer] = jaxkan.to_kandle(model).layers
    return layer.r, layer.c, layer.b


@pytest.mark.parametrize(
    "draw", [drawn_by_jax, drawn_by_an_estimator, drawn_by_torch, drawn_into_jaxkan]
)
@pytest.mark.parametrize("name", ["baseline", "glorot-fine", "power-law"])
def test_every_front_end_draws_what_the_scheme_says(draw, name):
    """Deviations (per basis function, where a scheme has them), and which weights are uniform."""
    scheme, basis, n_in, n_out = init.get(name), BSpline(5), 40, 50
    sigma_r, sigma_b = scheme.scales(n_in, n_out, basis=basis)
    r, c, b = (np.asarray(w, np.float64) for w in draw(scheme, n_in, n_out, basis))
    assert (c == 1).all()
    # 2,000 numbers each: five standard errors of a deviation are 0.08, of a mean 0.11.
    np.testing.assert_allclose(np.std(b, axis=(0, 1)), sigma_b, rtol=0.08)
    assert np.std(r) == pytest.approx(sigma_r, rel=0.08)
    assert np.all(np.abs(np.mean(b, axis=(0, 1))) < 0.11 * np.asarray(sigma_b))
    assert abs(np.mean(r)) < 0.11 * sigma_r
    largest = np.abs(r).max() / sigma_r
    if name == "baseline":
        assert 1.7 < largest <= np.sqrt(3) * (1 + 1e-6)
    else:
        assert largest > 2.5
    assert np.abs(b / np.asarray(sigma_b)).max() > 3.5


def test_torch_draws_r_and_then_b_from_one_generator():
    """The numbers of a seed stay what they are."""
    torch = pytest.importorskip("torch")
    from kandle.torch import KANLinear

    layer = KANLinear(3, 4, init="glorot", dtype=torch.float64)
    layer.reset_parameters(generator=torch.Generator().manual_seed(7))
    generator = torch.Generator().manual_seed(7)
    sigma_r, sigma_b = init.Glorot().scales(3, 4, 5)
    for weights, sigma in ((layer.base_weight, sigma_r), (layer.spline_weight, sigma_b)):
        unit = torch.randn(weights.shape, generator=generator, dtype=torch.float64)
        torch.testing.assert_close(weights.detach(), sigma * unit, rtol=1e-12, atol=0)


def test_a_scheme_with_a_draw_of_its_own_is_asked_for_it():
    """`KAN` and estimators take the weights that it returns."""

    class Ramp(init.PowerLaw):
        def draw(self, key, n_in, n_out, basis, **options):
            r, c, b = super().draw(key, n_in, n_out, basis, **options)
            return 0 * r, c, 0 * b + np.linspace(0, 0.1, basis.n_basis, dtype=np.float32)

    wanted = np.broadcast_to(np.linspace(0, 0.1, 8), (2, 3, 8))
    own = KAN([3, 2], init=Ramp(), key=jax.random.key(0), dtype="float32").layers[0].b
    np.testing.assert_allclose(own, wanted, atol=1e-6)
    _, _, b = drawn_by_an_estimator(Ramp(), 3, 2, BSpline(5))
    np.testing.assert_allclose(b, wanted, atol=1e-6)


@pytest.mark.parametrize(
    ("sigmas", "message"),
    [
        ((np.ones(2), 1.0), r"'sigma_r' must be .*, a number or shape \(3,\)"),
        ((1.0, np.ones(3)), r"'sigma_b' must be .*, a number or shape \(5,\) or shape \(3, 1\)"),
        ((1.0, np.full((3, 1), -1.0)), "'sigma_b' must be at least 0 and finite in float32"),
    ],
)
def test_deviations_of_another_shape_or_sign_are_refused(sigmas, message):
    with pytest.raises(UserError, match=message):
        init.draw_scaled(jax.random.key(0), *sigmas, n_in=3, n_out=2, n_basis=5)


def test_numpy_draws_need_no_jax():
    program = """
import sys
sys.modules["jax"] = sys.modules["jaxlib"] = None
import numpy as np
from kandle import init
source = init.NumPySource(np.random.default_rng(0))
sigmas = init.Glorot().scales(3, 2, 5)
r, c, b = init.draw_weights((2, 3, 8), *sigmas, law="normal", sources=(source, source))
assert (r.shape, c.shape, b.shape) == ((2, 3), (2, 3), (2, 3, 8))
"""
    subprocess.run([sys.executable, "-c", program], check=True)
