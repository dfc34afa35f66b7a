"""The layer and the network: values, shapes, derivatives, statistics, bad input."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kandle import KAN, UserError, init, kernels
from kandle._compat import enable_x64
from kandle.bases import BSpline, evaluate
from kandle.nn import KANLayer

X = np.random.default_rng(0).uniform(-1, 1, (12, 2))


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@pytest.fixture(params=["dense", "native"])
def backend(request):
    try:
        return kernels.check_backend(request.param)
    except UserError:
        pytest.skip(f"the {request.param} backend is not available here")


def network(widths=(2, 3, 3, 1), scheme="glorot", seed=0, **options):
    options = {"grid": 5, "dtype": jnp.float64, "backend": "dense", **options}
    return KAN(widths, init=scheme, key=jax.random.key(seed), **options)


def by_hand(model, x):
    """Eq. 1 layer by layer, with the normalization of Eq. 4 where the layer asks for it."""
    for layer in model.layers:
        B = np.asarray(evaluate(x, layer.basis))  # (N, n_in, n_basis)
        if layer.normalized:
            B = (B - B.mean(0)) / np.sqrt(B.var(0) + 1e-5)
        y = np.einsum("oi,oim,nim->no", layer.c, layer.b, B)
        if layer.residual is not None:
            y += np.asarray(layer.residual(x)) @ layer.r.T
        x = y if layer.bias is None else y + layer.bias
    return x


@pytest.mark.parametrize("scheme", ["glorot", "lecun-normalized"])
def test_value_is_the_equation_layer_by_layer(backend, scheme):
    model = network(scheme=scheme, backend=backend)
    np.testing.assert_allclose(model(X), by_hand(model, X), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    "options",
    [
        {"residual": None},
        {"residual": "tanh"},
        {"bias": False},
        {"grid": [5, 10, 3]},
        {"degree": 2, "domain": (-2.0, 2.0)},
    ],
)
def test_options_reach_the_layers(options):
    model = network(**options)
    np.testing.assert_allclose(model(X), by_hand(model, X), rtol=1e-11, atol=1e-11)
    assert [layer.basis.grid for layer in model.layers] == list(options.get("grid", [5, 5, 5]))
    assert all((layer.bias is None) == (options.get("bias") is False) for layer in model.layers)
    assert all((layer.r is None) == (layer.residual is None) for layer in model.layers)


@pytest.mark.parametrize("leading", [(), (12,), (3, 4), (2, 2, 3)])
def test_any_leading_axes(leading):
    model = network()
    x = X[: int(np.prod(leading))].reshape(*leading, 2)
    assert model(x).shape == (*leading, 1)
    np.testing.assert_allclose(model(x).ravel(), model(X)[: max(1, x.size // 2)].ravel())


def test_weights_have_the_documented_shapes_and_layers_differ():
    model = network((2, 3, 3, 3, 1))
    assert model.widths == (2, 3, 3, 3, 1)
    first = model.layers[0]
    shapes = [a.shape for a in (first.r, first.c, first.b, first.bias)]
    assert shapes == [(3, 2), (3, 2), (3, 2, 8), (3,)]
    assert not np.allclose(model.layers[1].b, model.layers[2].b)
    np.testing.assert_array_equal(first.bias, 0)
    np.testing.assert_array_equal(first.c, 1)


def test_same_key_same_network():
    a, b, other = network(seed=0), network(seed=0), network(seed=1)
    assert eqx.tree_equal(a, b)
    assert not np.allclose(a.layers[0].b, other.layers[0].b)


def test_network_is_a_pytree_under_transformations():
    models = [network(seed=s) for s in range(3)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *models)
    values = jax.jit(jax.vmap(lambda m: m(X)))(stacked)
    gradient = jax.jit(jax.grad(lambda m: jnp.sum(m(X) ** 2)))
    gradients = jax.jit(jax.vmap(gradient))(stacked)
    for i, model in enumerate(models):
        np.testing.assert_allclose(values[i], model(X), rtol=1e-12)
        alone = gradient(model)
        np.testing.assert_allclose(gradients.layers[1].b[i], alone.layers[1].b, rtol=1e-10)


def test_inputs_take_the_weights_type():
    model = network(dtype=jnp.float32)
    assert model(X).dtype == jnp.float32
    assert model(np.zeros((3, 2), int)).dtype == jnp.float32


# --- derivatives -------------------------------------------------------------------------------


@functools.cache
def nested_derivatives():
    """Value, gradient and Hessian of the network by autodiff, at every point."""
    model = network()
    u = lambda point: model(point)[0]  # noqa: E731
    return jax.jit(jax.vmap(lambda x: (u(x), jax.grad(u)(x), jax.hessian(u)(x))))(X)


@pytest.mark.parametrize(
    ("first", "second"),
    [((0, 1), (1,)), ((0, 1), (0, 1)), ((1,), ()), ((0,), (1,)), ((1, 0), (0,))],
)
def test_derivatives_agree_with_nested_autodiff(backend, first, second):
    model = network(backend=backend)
    got = jax.jit(lambda m, x: m.derivatives(x, first, second))(model, X)
    value, gradient, hessian = nested_derivatives()
    np.testing.assert_allclose(got.value[:, 0], value, rtol=1e-12)
    assert set(got.first) == set(first)
    assert set(got.second) == set(second)
    for i in first:
        np.testing.assert_allclose(got.first[i][:, 0], gradient[:, i], rtol=1e-9, atol=1e-11)
    for i in second:
        np.testing.assert_allclose(got.second[i][:, 0], hessian[:, i, i], rtol=1e-9, atol=1e-11)


@functools.cache
def nested_gradient(residual):
    """∂/∂weights of a mean squared PDE residual whose derivatives autodiff takes."""

    def loss(model):
        u = lambda point: model(point)[0]  # noqa: E731

        def equation(point):
            g, bent = jax.jvp(jax.grad(u), (point,), (jnp.array([0.0, 1.0]),))
            return g[0] - bent[1] * u(point) + g[1] ** 2

        return jnp.mean(jax.vmap(equation)(X) ** 2)

    return jax.jit(jax.grad(loss))(network(residual=residual))


@pytest.mark.parametrize("residual", [jax.nn.silu, jnp.sin, None])
def test_derivatives_are_differentiable_in_the_weights(backend, residual):
    """A PDE loss through the jet and through nested autodiff has the same gradient."""

    def from_jet(model):
        d = model.derivatives(X)
        return jnp.mean((d.first[0] - d.second[1] * d.value + d.first[1] ** 2) ** 2)

    got = jax.jit(jax.grad(from_jet))(network(backend=backend, residual=residual))
    wanted = nested_gradient(residual)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


def test_derivatives_keep_leading_axes():
    d = network().derivatives(X.reshape(3, 4, 2))
    assert d.value.shape == d.first[0].shape == d.second[1].shape == (3, 4, 1)


# --- LeCun-normalized --------------------------------------------------------------------------


def test_frozen_statistics_predict_a_row_alone_as_in_the_batch():
    model = network(scheme="lecun-normalized")
    frozen = model.freeze(X)
    np.testing.assert_allclose(frozen(X), model(X), rtol=1e-12)
    np.testing.assert_allclose([frozen(x) for x in X], model(X), rtol=1e-10)
    assert not np.allclose(model(X[:2]), model(X)[:2], rtol=1e-3)


def test_freezing_many_rows_is_freezing_them_at_once(monkeypatch):
    model = network(scheme="lecun-normalized")
    whole = model.freeze(X)
    monkeypatch.setattr("kandle.nn._layer.BLOCK", 5)
    for a, b in zip(jax.tree.leaves(model.freeze(X)), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


def test_freezing_leaves_other_schemes_as_they_are():
    model = network()
    assert eqx.tree_equal(model.freeze(X), model)


def test_batch_statistics_are_constants_under_the_derivatives():
    """∂/∂x of the network frozen with the same batch."""
    model = network(scheme="lecun-normalized")
    got, frozen = model.derivatives(X), model.freeze(X)
    u = lambda point: frozen(point)[0]  # noqa: E731
    gradient, hessian = jax.jit(jax.vmap(lambda x: (jax.grad(u)(x), jax.hessian(u)(x))))(X)
    np.testing.assert_allclose(got.first[0][:, 0], gradient[:, 0], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(got.second[1][:, 0], hessian[:, 1, 1], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("way", ["value", "derivatives"])
def test_weights_are_differentiated_through_the_statistics(way):
    """Against finite differences; and frozen statistics give another gradient."""
    model = network(scheme="lecun-normalized")

    def loss(model):
        if way == "value":
            return jnp.mean(model(X) ** 2)
        d = model.derivatives(X)
        return jnp.mean((d.first[0] - 0.1 * d.second[1]) ** 2)

    gradient = jax.jit(jax.grad(loss))(model)
    leaves, structure = jax.tree.flatten(model)
    # Steps of a size with the weights, so that no unit leaves its spline interval for another.
    steps = [1e-6 * jnp.cos(jnp.arange(a.size, dtype=float)).reshape(a.shape) for a in leaves]
    loss_of = jax.jit(loss)
    moved = [
        loss_of(
            jax.tree.unflatten(structure, [a + s * d for a, d in zip(leaves, steps, strict=True)])
        )
        for s in (1, -1)
    ]
    along = sum(jnp.vdot(g, d) for g, d in zip(jax.tree.leaves(gradient), steps, strict=True))
    np.testing.assert_allclose(2 * along, moved[0] - moved[1], rtol=1e-5)
    constant = jax.jit(jax.grad(loss))(model.freeze(X))
    assert not np.allclose(gradient.layers[0].b, constant.layers[0].b, rtol=1e-2)
    np.testing.assert_array_equal(constant.layers[0].mean, 0)


# --- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"widths": [2]}, "'widths' of KAN must be"),
        ({"widths": [2, 0, 1]}, "'widths' of KAN must be"),
        ({"widths": [2, 2.5, 1]}, "'widths' of KAN must be"),
        ({"widths": 3}, "'widths' of KAN must be"),
        ({"grid": 0}, "'grid' must be"),
        ({"grid": [5, 5]}, "'grid' of KAN must be one integer, or 1, one per layer"),
        ({"degree": 9}, "'degree' must be"),
        ({"domain": (1.0, -1.0)}, "'domain' must be"),
        ({"residual": "silo"}, "Did you mean 'silu'"),
        ({"residual": 3}, "'residual' must be"),
        ({"bias": 1}, "'bias' of KAN must be"),
        ({"sampler": "same"}, "'sampler' of KAN must be a kandle.init.Sampler"),
        ({"init": "glorott"}, "Did you mean 'glorot'"),
        ({"backend": "cuda"}, "Unknown backend 'cuda'"),
        ({"key": 0}, r"'key' of KAN must be .* jax.random.key\(0\)"),
        ({"dtype": "int32"}, "'dtype' must be"),
    ],
)
def test_constructor_errors_name_the_argument(options, message):
    arguments = {"widths": [2, 1], "key": jax.random.key(0), **options}
    with pytest.raises(UserError, match=message):
        KAN(arguments.pop("widths"), **arguments)


def test_key_is_required_and_keyword_only():
    with pytest.raises(TypeError, match="key"):
        KAN([2, 1])  # pyright: ignore
    with pytest.raises(TypeError):
        KAN([2, 1], jax.random.key(0))  # pyright: ignore


def test_inputs_of_another_width_are_refused():
    with pytest.raises(UserError, match=r"last axis has 2 components. Got \(12, 3\)"):
        network()(np.zeros((12, 3)))
    with pytest.raises(UserError, match="'second' of derivatives"):
        network().derivatives(X, first=(0,), second=(2,))
    with pytest.raises(UserError, match="'first' of derivatives"):
        network().derivatives(X, first=(0, 0), second=())


def test_layers_that_do_not_fit_are_refused():
    draw = {"residual": None, "bias": False, "init": init.Baseline(), "key": jax.random.key(0)}
    a, b = (KANLayer.draw(2, 3, basis=BSpline(4), **draw) for _ in range(2))
    with pytest.raises(UserError, match=r"'layers\[1\]' must be a layer of 3 inputs"):
        KAN.from_layers([a, b])


def test_non_finite_inputs_give_nan_rows():
    x = X.copy()
    x[3, 0], x[5, 1] = np.inf, np.nan
    y = network()(x)
    np.testing.assert_array_equal(np.isnan(y[:, 0]), np.isin(np.arange(12), [3, 5]))


# --- adapting to data ----------------------------------------------------------------------------


@pytest.mark.parametrize("domain", [(-1.0, 1.0), (0.0, 4.0)])
@pytest.mark.parametrize("scheme", ["quiet", "glorot", "lecun-normalized"])
def test_adapted_hidden_values_have_the_chosen_spread(scheme, domain):
    key, (lo, hi) = jax.random.key(3), domain
    model = KAN([2, 6, 7, 1], domain=domain, init=scheme, key=key)
    x = jax.random.uniform(key, (500, 2), minval=lo, maxval=hi)
    adapted = model.adapt(x, spread=0.3)
    rows = x
    for layer in adapted.layers[:-1]:
        rows = layer(rows)
        assert np.std(rows) == pytest.approx(0.3 * (hi - lo) / 2, rel=1e-4)
    for name in ("r", "c", "b"):
        last, given = (getattr(m.layers[-1], name) for m in (adapted, model))
        np.testing.assert_array_equal(last, given)
    ratio = adapted.layers[0].r / model.layers[0].r
    np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-6)


@pytest.mark.parametrize(
    ("x", "spread", "message"),
    [
        (np.zeros((3, 2)), 0.0, "'spread' of KAN.adapt must be a positive finite number"),
        (np.zeros((3, 2)), 0.5, "'x' of KAN.adapt must be points on which hidden values differ"),
        (np.full((3, 2), np.nan), 0.5, "'x' of KAN.adapt must be points"),
        (np.zeros((3, 3)), 0.5, "'x' of KAN must be an array whose last axis has 2"),
    ],
)
def test_what_cannot_be_adapted(x, spread, message):
    with pytest.raises(UserError, match=message):
        KAN([2, 3, 1], init="quiet", key=jax.random.key(0)).adapt(x, spread)


def test_weights_have_jaxs_default_precision_unless_a_dtype_is_given():
    assert network(dtype=None).dtype == np.float64
    assert network(dtype=jnp.float32).dtype == np.float32
    with enable_x64(False):
        assert network(dtype=None).dtype == np.float32


def test_layers_are_pytrees_that_inherit():
    """A class that inherits is rebuilt without its constructor, and keeps fields of its own."""

    class Scaled(KANLayer):
        factor: jax.Array = 1.0
        label: str = dataclasses.field(default="", kw_only=True, metadata={"static": True})

        def __init__(self, layer, factor):
            for field in dataclasses.fields(layer):
                object.__setattr__(self, field.name, getattr(layer, field.name))
            object.__setattr__(self, "factor", factor)
            object.__setattr__(self, "label", "scaled")

        def __call__(self, x):
            return self.factor * super().__call__(x)

    model = KAN([2, 3, 1], key=jax.random.key(0))
    layer, x = model.layers[0], jnp.full((4, 2), 0.3)
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(model)]
    assert paths[:5] == [f".layers[0].{n}" for n in ("r", "c", "b", "bias")] + [".layers[1].r"]
    assert layer == jax.tree.map(jnp.copy, layer)
    assert layer != jax.tree.map(lambda leaf: leaf + 1, layer)
    with pytest.raises(TypeError, match="unhashable"):
        hash(layer)
    with pytest.raises(dataclasses.FrozenInstanceError):
        layer.r = layer.c
    assert "[3,2,8]" in repr(layer)
    scaled = Scaled(layer, jnp.array(3.0))
    doubled = jax.tree.map(lambda leaf: 2 * leaf, scaled)
    assert type(doubled) is Scaled
    assert (doubled.label, float(doubled.factor)) == ("scaled", 6.0)
    np.testing.assert_allclose(jax.jit(lambda l, x: l(x))(scaled, x), 3 * layer(x), rtol=1e-6)
