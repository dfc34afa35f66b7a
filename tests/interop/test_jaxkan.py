"""jaxKAN's models themselves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("jaxkan")

from flax import nnx
from jaxkan.layers import BaseLayer, SplineLayer
from jaxkan.models.KAN import KAN as JaxKAN

import kandle
from kandle import UserError, init

X = np.random.default_rng(0).uniform(-1.4, 1.4, (100, 2)).astype(np.float32)


def outputs(model, x=X):
    """What jaxKAN's network computes, compiled as one program."""
    return nnx.jit(lambda model, x: model(x))(model, x)


def jax_model(layer_type="spline", widths=(2, 5, 3), **options):
    return JaxKAN(list(widths), layer_type, {"k": 3, "G": 5, **options}, seed=0)


@pytest.mark.parametrize("layer_type", ["spline", "base"])
@pytest.mark.parametrize("scheme", ["baseline", "glorot", "power-law"])
def test_initialized_as_a_kandle_network_of_the_same_key(layer_type, scheme):
    model, key = jax_model(layer_type), jax.random.key(1)
    report = kandle.jaxkan.initialize(model, scheme, key)
    own = kandle.KAN([2, 5, 3], grid=5, init=scheme, key=key)
    assert len(report.layers) == 2
    assert report.unknown == ()
    converted = kandle.jaxkan.to_kandle(model)
    for ours, theirs in zip(own.layers, converted.layers, strict=True):
        np.testing.assert_allclose(theirs.b, ours.b, rtol=1e-6)
        np.testing.assert_allclose(theirs.r, ours.r, rtol=1e-6)
        assert (theirs.c == 1).all()
        assert (theirs.bias == 0).all()
    np.testing.assert_allclose(outputs(model), own(X), atol=1e-6)


@pytest.mark.parametrize("layer_type", ["spline", "base"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"residual": None},
        {"external_weights": False},
        {"add_bias": False},
        {"k": 2, "G": 7},
        {"grid_range": (0.0, 2.5)},
        {"grid_range": (-np.pi, np.pi)},
        {"grid_range": (-1 / 3, 1 / 3)},
        {"G": 20},
    ],
    ids=str,
)
def test_there_and_back(layer_type, options):
    model = jax_model(layer_type, **options)
    for layer in model.layers:  # away from ones and zeros
        for name in ("c_spl", "bias"):
            if (parameter := getattr(layer, name)) is not None:
                parameter[...] = jnp.linspace(0.5, 1.5, parameter[...].size).reshape(
                    parameter.shape
                )
    converted = kandle.jaxkan.to_kandle(model)
    theirs = outputs(model)
    tolerance = 1e-6 * max(1.0, float(np.abs(theirs).max()))
    np.testing.assert_allclose(converted(X), theirs, atol=tolerance, rtol=0)
    assert converted.layers[0].basis.domain == options.get("grid_range", (-1.0, 1.0))
    for back_type in ("spline", "base"):
        back = kandle.jaxkan.from_kandle(converted, back_type)
        np.testing.assert_allclose(outputs(back), theirs, atol=tolerance, rtol=0)
    again = kandle.jaxkan.to_kandle(back)
    for ours, theirs in zip(converted.layers, again.layers, strict=True):
        np.testing.assert_array_equal(ours.b, theirs.b)


@pytest.mark.parametrize("ends", [(-1, 1), (-1 / 3, 1 / 3)], ids=str)
def test_there_and_back_on_a_fine_grid(ends):
    """jaxKAN rounds its knots to float32: functions must not be steep for 1e-6 to be met."""
    model = jax_model(G=100, grid_range=ends)
    kandle.jaxkan.initialize(model, "glorot")
    converted = kandle.jaxkan.to_kandle(model)
    theirs = outputs(model)
    tolerance = 1e-6 * max(1.0, float(np.abs(theirs).max()))
    np.testing.assert_allclose(converted(X), theirs, atol=tolerance, rtol=0)
    back = kandle.jaxkan.from_kandle(converted)
    np.testing.assert_allclose(outputs(back), theirs, atol=tolerance, rtol=0)


@pytest.mark.parametrize("ends", [(-1 / 3, 1 / 3), (100, 101), (-1e-7, 1e-7), (0, 1000)], ids=str)
@pytest.mark.parametrize("G", [5, 20, 100])
def test_a_uniform_grid_in_float32_is_one(ends, G):
    model = jax_model(G=G, grid_range=ends)
    assert kandle.jaxkan.to_kandle(model).layers[0].basis.domain == ends
    # Without what it was built with, as after an update, the ends are those of the knots.
    for layer in model.layers:
        layer.grid.grid_range = (-9, 9)
    lo, hi = kandle.jaxkan.to_kandle(model).layers[0].basis.domain
    np.testing.assert_allclose((lo, hi), ends, rtol=1e-6, atol=1e-6 * (ends[1] - ends[0]))


def test_keys_and_seeds():
    def weights(*key, **seed):
        model = jax_model()
        kandle.jaxkan.initialize(model, "glorot", *key, **seed)
        return np.asarray(model.layers[0].c_basis[...])

    default = weights()
    for same in ((0,), (np.int64(0),), (jax.random.key(0),), (jax.random.PRNGKey(0),)):
        np.testing.assert_array_equal(weights(*same), default)
    np.testing.assert_array_equal(weights(seed=3), weights(3))
    assert not np.array_equal(weights(seed=3), default)
    for wrong in ("0", 0.5, 2**70, True, jax.random.split(jax.random.key(0))):
        with pytest.raises(UserError, match="'key' of initialize"):
            weights(wrong)
    for end in (2**63 - 1, -1, -(2**63)):
        weights(seed=end)
    for wrong in (2**63, -(2**63) - 1, True):
        with pytest.raises(UserError, match=r"'seed'.* from -2\*\*63 to 2\*\*63 - 1"):
            weights(seed=wrong)
    with pytest.raises(UserError, match="both"):
        weights(0, seed=0)
    with pytest.raises(UserError, match="'inputs'"):
        kandle.jaxkan.initialize(jax_model(), "glorot", inputs=3)


def test_parameters_keep_their_precision():
    with jax.enable_x64(True):
        model = jax_model(widths=(2, 3))
        layer = model.layers[0]
        before = {name: getattr(layer, name)[...].dtype for name in ("c_res", "c_spl", "bias")}
        layer.c_basis = nnx.Param(layer.c_basis[...].astype(jnp.float64))
        kandle.jaxkan.initialize(model, "glorot")
        assert {name: getattr(layer, name)[...].dtype for name in before} == before
        assert layer.c_basis[...].dtype == jnp.float64
        own = kandle.KAN([2, 3], init="glorot", key=jax.random.key(0), dtype=jnp.float64)
        np.testing.assert_allclose(
            layer.c_basis[...].reshape(own.layers[0].b.shape), own.layers[0].b, rtol=1e-6
        )


def test_different_grids_a_layer_survive():
    own = kandle.KAN([2, 4, 1], grid=[5, 9], key=jax.random.key(0))
    model = kandle.jaxkan.from_kandle(own)
    np.testing.assert_allclose(outputs(model), own(X), atol=1e-6)
    graph, state = nnx.split(model)  # still a module that nnx can work with
    np.testing.assert_array_equal(outputs(nnx.merge(graph, state)), outputs(model))


def test_adapted_grids_are_initialized_and_not_converted():
    model = jax_model(grid_e=0.05)
    sample = np.random.default_rng(0).normal(0, 0.4, (300, 2)).astype(np.float32)
    model.update_grids(sample, 6)
    report = kandle.jaxkan.initialize(model, init.LeCun(), jax.random.key(0))
    uniform = init.LeCun().scales(2, 5, grid=6)[1]
    assert abs(report.layers[0].sigma_b / uniform - 1) > 0.05
    assert model.layers[0].c_basis.shape == (5, 2, 9)
    with pytest.raises(UserError, match="not uniform"):
        kandle.jaxkan.to_kandle(model)


def test_what_it_does_not_know():
    class Mixed(nnx.Module):
        def __init__(self):
            self.kan = jax_model()
            self.head = nnx.Linear(3, 1, rngs=nnx.Rngs(0))

    with pytest.warns(UserWarning, match=r"head \(Linear\)"):
        report = kandle.jaxkan.initialize(Mixed(), "glorot", jax.random.key(0))
    assert report.unknown == ("head (Linear)",)


class Plain(SplineLayer):
    """Another name for the same thing."""


class OwnBasis(SplineLayer):
    def basis(self, x):
        return 2 * super().basis(x)


class OwnSum(BaseLayer):
    def __call__(self, x):
        return jnp.tanh(super().__call__(x))


class PlainKAN(JaxKAN):
    pass


class Skipping(JaxKAN):
    def __call__(self, x):
        return x[:, :1] + super().__call__(x)


class Stack(nnx.Module):
    """Layers under the name that jaxKAN's network has them, and another use of them."""

    def __init__(self, layers):
        self.layers = nnx.List(layers)


def of_layers(*kinds):
    model = jax_model()
    widths = zip((2, 5), (5, 3), kinds, strict=True)
    model.layers = nnx.List([kind(n_in=m, n_out=n, k=3, G=5) for m, n, kind in widths])
    return model


def test_a_model_that_computes_something_else_is_not_converted():
    options = {"k": 3, "G": 5}
    for wrong, name in (
        (of_layers(SplineLayer, OwnBasis), "KAN of OwnBasis"),
        (of_layers(OwnSum, SplineLayer), "KAN of OwnSum"),
        (Skipping([2, 3], "spline", options), "Skipping"),
        (Stack(jax_model().layers), "Stack"),
        (of_layers(SplineLayer, SplineLayer).layers[0], "SplineLayer"),
        (kandle.KAN([2, 1], key=jax.random.key(0)), "KAN"),
        (3, "int"),
    ):
        with pytest.raises(UserError, match=f"'model' of to_kandle .*Got '{name}'"):
            kandle.jaxkan.to_kandle(wrong)
    for same in (of_layers(Plain, BaseLayer), PlainKAN([2, 3], "spline", options)):
        np.testing.assert_allclose(kandle.jaxkan.to_kandle(same)(X), outputs(same), atol=1e-5)


@pytest.mark.parametrize("wrong", [jax_model, lambda: jax_model().layers[0], lambda: 3])
def test_only_a_kandle_network_is_converted_back(wrong):
    with pytest.raises(UserError, match=r"'model' of from_kandle must be a Kandle KAN"):
        kandle.jaxkan.from_kandle(wrong())


def test_a_layer_with_a_basis_of_its_own_is_not_known():
    model = of_layers(SplineLayer, OwnBasis)
    before = np.asarray(model.layers[1].c_basis[...])
    with pytest.warns(UserWarning, match=r"layers\.1 \(OwnBasis\)"):
        report = kandle.jaxkan.initialize(model, "glorot")
    assert [layer.name for layer in report.layers] == ["layers.0"]
    np.testing.assert_array_equal(model.layers[1].c_basis[...], before)


def test_an_error_names_the_layer():
    model = jax_model()
    grid = model.layers[1].grid
    grid.item = grid.item.at[2].set(0.25)
    with pytest.raises(UserError, match=r"'layers\.1'.*input 2 .*0\.25"):
        kandle.jaxkan.initialize(model, "glorot")


def test_normalized_is_refused():
    with pytest.raises(UserError, match="standardises"):
        kandle.jaxkan.initialize(jax_model(), "lecun-normalized", jax.random.key(0))
    own = kandle.KAN([2, 1], init="lecun-normalized", key=jax.random.key(0))
    with pytest.raises(UserError, match="standardised"):
        kandle.jaxkan.from_kandle(own)
