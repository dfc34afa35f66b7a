"""Grids from data: the function is kept, no grid collapses, nothing becomes NaN."""

import jax
import numpy as np
import pytest

from kandle import KAN, UserError, bases, kernels

X = np.random.default_rng(0).uniform(-0.5, 0.8, (200, 2))


def model(basis=None, init="glorot", **options):
    return KAN([2, 4, 1], basis, init=init, key=jax.random.key(1), dtype="float64", **options)


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("knots", ["uniform", "quantile"])
def test_grids_span_what_each_layer_receives(knots):
    before = model()
    after = before.regrid(X, knots=knots)
    hidden = np.asarray(before.layers[0](jax.numpy.asarray(X)))
    for layer, rows in zip(after.layers, (X, hidden), strict=True):
        assert layer.basis.domain == pytest.approx((rows.min(), rows.max()))
        assert layer.basis.n_basis == 8
        assert isinstance(layer.basis, bases.BSpline if knots == "uniform" else bases.Knots)
    if knots == "uniform" and kernels.default_backend() == "native":
        assert kernels.accelerates(after.layers[0].basis)
    # The second layer's inputs change by what the first one's fit changes.
    np.testing.assert_allclose(after(X), before(X), atol=0.05 * np.std(before(X)))


def test_a_finer_grid_comes_closer():
    before = model()
    exact = np.asarray(before(X))
    errors = [np.abs(before.regrid(X, grid=grid)(X) - exact).max() for grid in (4, 16, 64)]
    assert errors[2] < errors[1] / 10 < errors[0] / 100


def test_functions_that_both_grids_represent_are_kept_exactly():
    ends = np.array([[-1.0, -1.0], [1.0, 1.0], [0.3, -0.2]])
    network = KAN([2, 1], bases.BSpline(4), key=jax.random.key(0), dtype="float64", init="glorot")
    np.testing.assert_allclose(network.regrid(ends, grid=8)(ends), network(ends), atol=1e-12)


@pytest.mark.parametrize("knots", ["uniform", "quantile"])
def test_the_error_is_orthogonal_to_the_new_functions(knots):
    """The normal equations of the L² projection, integrated by a fine midpoint rule."""
    before = model().layers[0]
    after = model().regrid(X, knots=knots).layers[0]
    lo, hi = after.basis.domain
    x = lo + (hi - lo) * (np.arange(20_000) + 0.5) / 20_000
    old, new = (np.asarray(layer.b) @ layer.basis.values(x).T for layer in (before, after))
    error = new - old
    assert np.sqrt(np.mean(error**2)) > 1e-3 * np.sqrt(np.mean(old**2))
    moments = error @ after.basis.values(x) / len(x)
    np.testing.assert_allclose(moments, 0, atol=1e-8 * np.abs(old).max())


def test_torch_updates_its_grid_to_the_same_functions():
    torch = pytest.importorskip("torch")
    from kandle.torch import KANLinear

    rng = np.random.default_rng(3)
    own = KAN([2, 4], grid=5, init="glorot", key=jax.random.key(1), dtype="float64", bias=False)
    x = rng.uniform(-0.6, 1.4, (200, 2))
    layer = KANLinear(2, 4, grid_size=5, dtype=torch.float64)
    with torch.no_grad():
        layer.spline_weight.copy_(torch.from_numpy(np.array(own.layers[0].b)))
    layer.update_grid(torch.from_numpy(x), margin=0.0)
    after = own.regrid(x).layers[0]
    assert layer.domain == after.basis.domain
    np.testing.assert_allclose(
        layer.spline_weight.detach().numpy(), after.b, rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("knots", ["uniform", "quantile"])
@pytest.mark.parametrize("value", [0.0, 0.3, -2000.0])
def test_constant_and_collapsed_inputs_get_an_interval(knots, value):
    x = np.full((20, 2), value)
    after = model().regrid(x, knots=knots)
    lo, hi = after.layers[0].basis.domain
    assert lo < value < hi
    for weights in jax.tree.leaves(after):
        assert np.isfinite(weights).all()
    assert np.isfinite(after(x)).all()


def test_values_that_hardly_differ_count_as_equal():
    assert bases.BSpline.from_sample([2e-7, -2e-7]).domain == pytest.approx((-0.5, 0.5))
    assert bases.BSpline.from_sample([1e4, 1e4 + 1e-3]).domain == pytest.approx((5e3, 1.5e4))
    assert bases.BSpline.from_sample([0.0, 2e-6]).domain == (0.0, 2e-6)


def test_repeated_values_leave_quantile_knots_apart():
    x = np.concatenate([np.zeros(500), [1.0, 2.0]])
    basis = bases.Knots.from_sample(x, grid=6)
    assert np.diff(basis.knots).min() >= 0.02 * 2 / 6 * 0.999
    even = np.linspace(0, 1, 601) ** 2
    shares = np.histogram(even, bases.Knots.from_sample(even, grid=4).knots)[0]
    assert shares.min() > 0.9 * shares.max()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: model().regrid(np.full((3, 2), np.nan)), "finite values in every layer"),
        (lambda: model(bases.Chebyshev(4)).regrid(X), "Layer 0 of KAN.regrid must be of B-splines"),
        (lambda: model(init="lecun-normalized").regrid(X), "cannot refit standardised"),
        (lambda: model().regrid(X, knots="random"), "Unknown knots of KAN.regrid 'random'"),
        (lambda: model().regrid(X, grid=0), "'grid' must be an integer of at least 1"),
        (lambda: model().regrid(X[:0]), "'x' of KAN.regrid must be at least one point"),
        (lambda: bases.BSpline.from_sample([]), "'x' of from_sample must be at least one number"),
        (lambda: bases.BSpline.from_sample(["a"]), "'x' of from_sample must be an array of real"),
        (lambda: bases.Knots.from_sample([[1, 2], [3]]), "'x' of from_sample must be an array of"),
        (lambda: bases.Knots.from_sample([1j]), "'x' of from_sample must be an array of real"),
        (lambda: bases.Knots.from_sample([-1e308, 1e308]), "'x' of from_sample must be of a range"),
    ],
)
def test_refuses(make, message):
    with pytest.raises(UserError, match=message):
        make()
