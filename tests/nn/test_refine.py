"""Finer grids: the same function, to rounding, with its derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import BSpline as ScipyBSpline

from kandle import KAN, UserError, bases
from kandle.nn._refine import refinement


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def inside(n_in=2, n=60):
    return jnp.asarray(np.random.default_rng(0).uniform(-1, 1, (n, n_in)))


@pytest.mark.parametrize("factor", [1, 2, 3, 5])
@pytest.mark.parametrize("degree", [1, 2, 3, 5])
@pytest.mark.parametrize("grid", [1, 4])
def test_multiples_give_the_same_spline_as_scipy(grid, degree, factor):
    old = bases.BSpline(grid, degree, (-1.5, 2.0))
    new = bases.BSpline(factor * grid, degree, (-1.5, 2.0))
    b = np.random.default_rng(degree).normal(size=old.n_basis)
    coarse = ScipyBSpline(old.knots, b, degree)
    fine = ScipyBSpline(new.knots, b @ refinement(old, new), degree)
    x = np.linspace(-1.5, 2.0, 201)
    for order in range(degree):
        wanted = coarse(x, order)
        np.testing.assert_allclose(fine(x, order), wanted, atol=1e-12 * factor**order * 50)


@pytest.mark.parametrize("scheme", ["glorot", "lecun-normalized"])
def test_a_refined_network_is_the_same_function(scheme):
    """Values and derivatives, with hidden values inside the domain."""
    x = inside()
    model = KAN([2, 4, 1], grid=3, init=scheme, key=jax.random.key(0), dtype="float64").freeze(x)
    model = KAN.from_layers([*model.adapt(x, 0.2).layers])
    assert model.outside(x)[1] == 0
    fine = model.refine(grid=9)
    np.testing.assert_allclose(fine(x), model(x), rtol=1e-12, atol=1e-13)
    got, wanted = (m.derivatives(x, (0, 1), (0, 1)) for m in (fine, model))
    for i in (0, 1):
        np.testing.assert_allclose(got.first[i], wanted.first[i], rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(got.second[i], wanted.second[i], rtol=1e-8, atol=1e-9)


def test_other_grids_are_the_best_fit_in_the_mean_square():
    """The distance to the projection is orthogonal to every fine function."""
    old, new = bases.BSpline(4, 3), bases.BSpline(6, 3)
    b = np.random.default_rng(0).normal(size=old.n_basis)
    projected = b @ refinement(old, new)
    x = np.linspace(-1, 1, 20_001)
    error = old.values(x) @ b - new.values(x) @ projected
    moments = np.trapezoid(new.values(x) * error[:, None], x, axis=0)
    np.testing.assert_allclose(moments, 0, atol=1e-6 * np.abs(b).max())
    assert 1e-4 < np.sqrt(np.mean(error**2)) < 0.2 * np.sqrt(np.mean((old.values(x) @ b) ** 2))


def test_cubics_survive_any_grid():
    """A polynomial of the spline's degree lies in every spline space."""
    old, new = bases.BSpline(4, 3), bases.BSpline(7, 3)
    x = np.linspace(-1, 1, 50)
    b, *_ = np.linalg.lstsq(old.values(x), x**3 - x, rcond=None)
    np.testing.assert_allclose(new.values(x) @ (b @ refinement(old, new)), x**3 - x, atol=1e-12)


def test_grids_per_layer_and_shares_outside():
    model = KAN([2, 3, 1], grid=3, key=jax.random.key(1), dtype="float64")
    fine = model.refine(grid=[6, 3])
    assert [layer.basis.grid for layer in fine.layers] == [6, 3]
    x = np.array([[0.0, 0.5], [2.0, 0.0], [0.0, -1.5], [1.0, -1.0]])
    hidden = np.asarray(model.layers[0](jnp.asarray(x)))
    assert model.outside(x) == (0.25, np.mean(np.abs(hidden) > 1))


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (2, "'grid' of KAN.refine must be an integer of at least 3"),
        (3, "'grid' of KAN.refine must be larger than the present 3"),
        (6.0, "'grid' of KAN.refine must be an integer"),
        (True, "'grid' of KAN.refine must be an integer"),
        ([6], "'grid' of KAN must be one integer, or 2, one per layer"),
    ],
)
def test_bad_grids(grid, message):
    model = KAN([2, 3, 1], grid=3, key=jax.random.key(1), dtype="float64")
    with pytest.raises(UserError, match=message):
        model.refine(grid=grid)


def test_what_cannot_be_refined():
    model = KAN([2, 3, 1], init="lecun-normalized", key=jax.random.key(1), dtype="float64")
    with pytest.raises(UserError, match="freeze"):
        model.refine(grid=10)
    other = KAN([2, 3, 1], basis=bases.Chebyshev(4), key=jax.random.key(1), dtype="float64")
    with pytest.raises(UserError, match=r"Layer 0 .* must be of uniform B-splines"):
        other.refine(grid=10)


@pytest.mark.parametrize("scheme", ["glorot", "lecun-normalized"])
def test_a_widened_network_is_the_same_function_everywhere_its_inputs_are(scheme):
    """Inputs reach two intervals to the left of the domain and beyond all splines on the right."""
    x = jnp.asarray(np.linspace(-1.9, 9.0, 40)[:, None] * [1.0, 0.5])
    model = KAN([2, 3, 1], grid=4, init=scheme, key=jax.random.key(1), dtype="float64").freeze(x)
    wide = model.widen(x)
    assert wide.layers[0].basis == bases.BSpline(4 + 2 + 3, 3, (-2.0, 2.5))
    np.testing.assert_allclose(wide(x), model(x), rtol=1e-12, atol=1e-13)
    # Refined after that, it is still the same function outside the old domains.
    assert max(model.outside(x)) > 0
    fine = wide.refine([2 * layer.basis.grid for layer in wide.layers])
    np.testing.assert_allclose(fine(x), model(x), rtol=1e-11, atol=1e-12)
    d, e = (m.derivatives(x, (0,), (1,)) for m in (model, fine))
    np.testing.assert_allclose(d.first[0], e.first[0], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(d.second[1], e.second[1], rtol=1e-8, atol=1e-8)


def test_inputs_inside_need_no_wider_domain():
    x = inside(1)
    model = KAN([1, 1], grid=4, key=jax.random.key(0))
    assert model.widen(x).layers[0].basis == model.layers[0].basis
    with pytest.raises(UserError, match="must be finite"):
        model.widen(jnp.array([[jnp.nan]]))
    with pytest.raises(UserError, match="of uniform B-splines"):
        KAN([1, 1], bases.Chebyshev(4), key=jax.random.key(0)).widen(x)
