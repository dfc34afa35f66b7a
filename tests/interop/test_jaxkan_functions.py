"""jaxKAN's layers of functions other than splines: outputs equal, weights drawn alike."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("jaxkan")

from flax import nnx
from jaxkan.models.KAN import KAN as JaxKAN

import kandle.jaxkan
from kandle import KAN, UserError, bases

X = np.random.default_rng(0).uniform(-1.5, 1.5, (40, 2))
MODELS = {
    "chebyshev": ("chebyshev", {"D": 5, "flavor": "modified"}),
    "chebyshev, no bias": ("chebyshev", {"D": 4, "flavor": "exact", "add_bias": False}),
    "chebyshev, residual": (
        "chebyshev",
        {"D": 5, "flavor": "exact", "residual": jax.nn.silu, "external_weights": True},
    ),
    "legendre": ("legendre", {"D": 5, "flavor": "default", "residual": jax.nn.silu}),
    "fourier": ("fourier", {"D": 4}),
    "rbf": ("rbf", {"D": 6, "kernel": {"type": "gaussian", "std": 0.7}, "residual": jnp.tanh}),
    "rbf, external": ("rbf", {"D": 5, "grid_range": (-1.0, 1.0), "external_weights": True}),
}
every_model = pytest.mark.parametrize("name", MODELS)


def outputs(model, x=X):
    """What jaxKAN's network computes, compiled as one program."""
    return nnx.jit(lambda model, x: model(x))(model, x)


def jax_model(name):
    layer_type, parameters = MODELS[name]
    return JaxKAN([2, 4, 3], layer_type, parameters, seed=1)


@every_model
def test_outputs_are_equal_to_rounding(name):
    with jax.enable_x64(True):
        model = jax_model(name)
        converted = kandle.jaxkan.to_kandle(model)
        assert converted.dtype == jnp.float64
        theirs = outputs(model)
        np.testing.assert_allclose(converted(X), theirs, rtol=1e-5, atol=2e-6)
        back = kandle.jaxkan.from_kandle(converted)
        np.testing.assert_allclose(outputs(back), converted(X), rtol=1e-9, atol=1e-9)
        assert [type(layer) for layer in back.layers] == [type(layer) for layer in model.layers]
    single = jax_model(name)
    x = X.astype(np.float32)
    np.testing.assert_allclose(kandle.jaxkan.to_kandle(single)(x), outputs(single, x), atol=2e-5)


@every_model
@pytest.mark.parametrize("scheme", ["glorot", "glorot-fine", "power-law"])
def test_weights_are_those_of_a_kandle_network(name, scheme):
    model, key = jax_model(name), jax.random.key(5)
    report = kandle.jaxkan.initialize(model, scheme, key)
    assert len(report.layers) == 2
    found = kandle.jaxkan.to_kandle(model)
    layer = found.layers[0]
    expected = KAN(
        [2, 4, 3],
        layer.basis,
        residual=layer.residual,
        bias=layer.bias is not None,
        init=scheme,
        key=key,
    )
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_a_basis_without_its_constant_gets_one_of_weight_zero():
    model = KAN([2, 3], bases.Legendre(4), bias=False, key=jax.random.key(0))
    back = kandle.jaxkan.from_kandle(model)
    np.testing.assert_allclose(outputs(back), model(X), atol=1e-5)


@pytest.mark.parametrize(
    ("basis", "options", "message"),
    [
        (bases.Chebyshev(4, squash="clip"), {}, "squash='tanh' and domain"),
        (bases.Chebyshev(4, (0.0, 1.0)), {}, "squash='tanh' and domain"),
        (bases.Legendre(4, constant=True), {}, "no constant function where the layer has a bias"),
        (bases.Fourier(3), {}, "frequency 1 and no residual function"),
        (bases.Fourier(3, frequency=2.0), {"residual": None}, "frequency 1"),
    ],
    ids=str,
)
def test_what_jaxkan_cannot_compute_is_refused(basis, options, message):
    model = KAN([2, 3], basis, key=jax.random.key(0), **options)
    with pytest.raises(UserError, match=message):
        kandle.jaxkan.from_kandle(model)


@pytest.mark.parametrize("family", [bases.BSpline, bases.Chebyshev, bases.Fourier, bases.RBF])
def test_a_basis_that_inherits_from_another_is_refused(family):
    class Own(family):
        def table(self, x, order, xp):
            return 2.0 * super().table(x, order, xp)

    model = KAN([2, 3], Own(4), residual=None, key=jax.random.key(0))
    with pytest.raises(UserError, match="'model' of from_kandle must be of bases that jaxKAN has"):
        kandle.jaxkan.from_kandle(model)


def test_what_kandle_cannot_compute_is_refused():
    sine = JaxKAN([2, 3], "sine", {"D": 4}, seed=0)
    with pytest.raises(UserError, match="KAN of SineLayer"):
        kandle.jaxkan.to_kandle(sine)
    adapted = jax_model("rbf")
    item = adapted.layers[1].grid.item
    adapted.layers[1].grid.item = item.at[0, 1].add(0.3)
    with pytest.raises(UserError, match="Layer 1 cannot be converted: its centres are not equally"):
        kandle.jaxkan.to_kandle(adapted)
    with pytest.raises(UserError, match=r"Layer 'layers\.1' cannot be initialized: its centres"):
        kandle.jaxkan.initialize(adapted, "glorot")
