"""How near a converted network is to jaxKAN's, beside what rounding alone does to either."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import BSpline

pytest.importorskip("jaxkan")

from flax import nnx
from jaxkan.models.KAN import KAN as JaxKAN

import kandle
from kandle import UserError

X = np.random.default_rng(0).uniform(-1, 1, (400, 2))
LARGE, SMALL = (2, 32, 32, 32, 1), (2, 8, 1)


def outputs(model, x=X):
    """What jaxKAN's network computes, compiled as one program."""
    return nnx.jit(lambda model, x: model(x))(model, x)


def jax_model(layer_type="spline", start="default", widths=LARGE):
    options = {"k": 3, "G": 20, "init_scheme": {"type": start}}
    return JaxKAN(list(widths), layer_type, options, seed=0)


def exact(model, x, *, rounded):
    """The function in float64 by SciPy, on jaxKAN's rounded knots or on those they stand for."""
    for layer in model.layers:
        knots = (np.arange(-3, 24) - 10) / 10
        if rounded:
            knots = np.asarray(layer.grid.item, np.float64)[0]
        B = np.stack(
            [BSpline.basis_element(knots[m : m + 5], extrapolate=False)(x) for m in range(23)], -1
        )
        edges = (layer.n_out, layer.n_in)
        c, b, r, bias = (
            np.asarray(getattr(layer, name)[...], np.float64)
            for name in ("c_spl", "c_basis", "c_res", "bias")
        )
        splines = np.einsum("oi,oim,nim->no", c, b.reshape(*edges, 23), np.nan_to_num(B))
        x = splines + (x / (1 + np.exp(-x))) @ r.reshape(edges).T + bias
    return x


def distance(a, b):
    return np.sqrt(np.mean((np.asarray(a, np.float64) - np.asarray(b, np.float64)) ** 2))


@pytest.mark.parametrize("start", ["default", "lecun"])
def test_in_float32_outputs_differ_as_jaxkan_does_from_the_exact_function(start):
    model, x = jax_model(start=start), X.astype(np.float32)
    theirs, truth = outputs(model, x), exact(model, x.astype(np.float64), rounded=False)
    rounding = distance(theirs, truth)
    assert 1e-6 < rounding < 1e-3  # what no evaluation in float32 can be asked to do better

    converted = kandle.jaxkan.to_kandle(model)
    assert distance(converted(x), theirs) < 4 * rounding
    assert distance(converted(x), truth) < 4 * rounding
    kept = kandle.jaxkan.to_kandle(model, knots="kept")
    assert distance(kept(x), theirs) < 0.6 * rounding
    back = kandle.jaxkan.from_kandle(converted)
    returned = outputs(back, x)
    assert distance(returned, converted(x)) < 4 * rounding
    assert distance(returned, truth) < 0.8 * rounding


@pytest.mark.parametrize(("layer_type", "widths"), [("spline", LARGE), ("base", SMALL)])
def test_in_double_precision_outputs_are_the_same(layer_type, widths):
    with jax.enable_x64(True):
        model = jax_model(layer_type, widths=widths)
        theirs = outputs(model)
        assert theirs.dtype == jnp.float64
        np.testing.assert_allclose(theirs, exact(model, X, rounded=True), atol=1e-10)

        kept = kandle.jaxkan.to_kandle(model, knots="kept")
        assert kept.dtype == jnp.float64
        np.testing.assert_allclose(kept(X), theirs, atol=1e-10)
        back = kandle.jaxkan.from_kandle(kept, layer_type)
        np.testing.assert_allclose(outputs(back), theirs, atol=1e-10)

        # On exact knots it is the function that jaxKAN's were meant for.
        converted = kandle.jaxkan.to_kandle(model)
        np.testing.assert_allclose(converted(X), exact(model, X, rounded=False), atol=1e-10)
        back = kandle.jaxkan.from_kandle(converted, layer_type)
        np.testing.assert_allclose(outputs(back), converted(X), atol=1e-10)
        again = kandle.jaxkan.to_kandle(back)
        np.testing.assert_allclose(again(X), converted(X), atol=1e-10)


def test_kept_knots_have_derivatives_and_a_file(tmp_path):
    model = JaxKAN([2, 3, 1], "spline", {"k": 3, "G": 5}, seed=0)
    uniform, kept = (kandle.jaxkan.to_kandle(model, knots=knots) for knots in ("uniform", "kept"))
    x = X.astype(np.float32)
    a, b = kept.derivatives(x), uniform.derivatives(x)
    np.testing.assert_allclose(a.value, b.value, atol=1e-5)
    np.testing.assert_allclose(a.first[0], b.first[0], atol=1e-4)
    kandle.nn.save(kept, tmp_path / "kept.safetensors")
    loaded = kandle.nn.load(tmp_path / "kept.safetensors")
    np.testing.assert_array_equal(loaded(x), kept(x))
    with pytest.raises(UserError, match=r"'exact'.*uniform"):
        kandle.jaxkan.to_kandle(model, knots="exact")


def test_knots_of_a_kind_that_differ_by_input():
    model = JaxKAN([2, 3], "spline", {"k": 3, "G": 5}, seed=0)
    grid = model.layers[0].grid
    grid.item = grid.item.at[1, 4].add(1e-7)
    kandle.jaxkan.to_kandle(model)
    with pytest.raises(UserError, match="knots='uniform'"):
        kandle.jaxkan.to_kandle(model, knots="kept")
    grid.item = grid.item.at[1, 4].add(1e-5)
    with pytest.raises(UserError, match="not uniform"):
        kandle.jaxkan.to_kandle(model)
