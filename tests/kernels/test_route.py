"""`kernels.route`: its paths are those of compiled calls, and every reason can be reached."""

import dataclasses
import os
import pickle
import re
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kandle import KAN, UserError, bases, kernels
from kandle.kernels import Route, route
from kandle.nn import KANLayer
from kandle.train import Fit

needs_native = pytest.mark.skipif(
    kernels.default_backend() != "native", reason="the native backend is not available here"
)

KNOTS = bases.Knots((-1.0, 0.2, 1.0))


def network(widths=(2, 8, 1), **options):
    return KAN(widths, key=jax.random.key(0), **options)


def data(model, n=7):
    n_in, *_, n_out = model.widths
    return jnp.linspace(-0.9, 0.8, n * n_in).reshape(n, n_in), jnp.ones((n, n_out))


def step_route(**options):
    model = network(**options)
    return route(model, *data(model))


SPLINE_STEPS = "AVX-512" not in str(step_route())  # whether this processor has them


def called_path(function, *arguments):
    """The path that the compiled program takes, from the native calls in it."""
    text = jax.jit(function).lower(*arguments).as_text()
    calls = set(re.findall(r"@kandle_(\w+)_f(?:32|64)_v\d", text))
    if calls & {"network", "fit", "fit_global"}:
        assert not any(call.startswith(("jet", "global")) for call in calls)
        return "one call"
    layers = any(call.startswith(("jet", "global", "trilinear")) for call in calls)
    return "per layer" if layers else "plain"


# Options of a network, the paths of its values and of its squared error, and a part of the first
# reason against one call of either.
ONE, EACH, PLAIN = "one call", "per layer", "plain"
NETWORKS = [
    ({}, ONE, ONE, None, None),
    ({"dtype": "float64"}, ONE, ONE, None, None),
    ({"residual": None, "bias": False}, ONE, ONE, None, None),
    ({"widths": (2, 255, 1)}, ONE, EACH, None, "255 outputs, the call takes up to 64"),
    ({"widths": (2, 256, 1)}, EACH, EACH, "256 outputs, the call takes up to 255", "256 outputs"),
    ({"widths": (65, 1)}, ONE, EACH, None, "65 inputs, the call takes up to 64"),
    ({"grid": 506}, ONE, EACH, None, "G = 506, the call takes up to 505"),
    ({"widths": (64, 64, 1), "grid": 90}, ONE, EACH, None, "its weights take more than 1.5 MiB"),
    ({"degree": 2}, ONE, EACH, None, "splines of degree 2, the call takes cubic ones"),
    ({"residual": jnp.tanh}, EACH, EACH, "residual function is not SiLU", "is not SiLU"),
    ({"init": "lecun-normalized"}, EACH, EACH, "standardized over the batch", "standardized"),
    ({"basis": "chebyshev"}, EACH, ONE, "takes uniform B-splines, not Chebyshev", None),
    ({"basis": bases.Legendre(9)}, EACH, ONE, "not Legendre", None),
    ({"basis": bases.Fourier(5)}, EACH, ONE, "not Fourier", None),
    ({"basis": bases.RBF(8)}, EACH, ONE, "not RBF", None),
    ({"basis": bases.RBF(129)}, EACH, EACH, "not RBF", "258 functions over all inputs"),
    (
        {"basis": bases.RBF(64), "widths": (2, 33, 1)},
        EACH,
        EACH,
        "not RBF",
        "4224 basis weights, the call takes up to 4096",
    ),
    ({"basis": bases.RBF(1025)}, PLAIN, PLAIN, "1025 basis functions", "take up to 1024"),
    ({"basis": KNOTS}, PLAIN, PLAIN, "need equal intervals", "need equal intervals"),
    ({"basis": ("bspline", KNOTS)}, EACH, EACH, r"layers[1]: the kernels for splines", "layers[1]"),
    ({"basis": ("bspline", "chebyshev")}, EACH, EACH, "layers[1]", "B-splines and others are not"),
    ({"dtype": "float16"}, PLAIN, PLAIN, "not in float16", "float32 and float64"),
    ({"backend": "dense"}, PLAIN, PLAIN, "'dense' was asked for", "'dense' was asked for"),
    ({"backend": "reference"}, PLAIN, PLAIN, "'reference' was asked for", "was asked for"),
]


@needs_native
@pytest.mark.parametrize(("options", "values", "step", "reason", "step_reason"), NETWORKS)
def test_the_path_is_that_of_the_compiled_call(options, values, step, reason, step_reason):
    with jax.enable_x64(options.get("dtype") == "float64"):
        model = network(**options)
        x, y = (array.astype(model.dtype) for array in data(model))
        got, got_step = route(model, x), route(model, x, y)

        def loss(model):
            return Fit().loss(model, {"x": x, "y": y}, {}, "dense")[0]

        assert called_path(lambda model: model(x), model) == got.path == values
        assert called_path(jax.value_and_grad(loss), model) == got_step.path
        spline_step = isinstance(model.layers[0].basis, bases.BSpline)
        if step == "one call" and spline_step and not SPLINE_STEPS:
            step, step_reason = "per layer", "AVX-512"
        assert got_step.path == step
        for each, wanted in ((got, reason), (got_step, step_reason)):
            assert (wanted is None) == (each.path == "one call")
            assert wanted is None or wanted in each.reasons["one call"]


@needs_native
@pytest.mark.parametrize(
    ("options", "name", "largest"),
    [
        ({"widths": "inputs"}, "inputs", 64),
        ({"widths": "outputs"}, "outputs", 64),
        ({}, "grid", 505),
        ({"widths": (64, 64)}, "grid", 89),
        ({"basis": bases.Chebyshev, "widths": (2, 1)}, "degree", 128),
        ({"basis": bases.Chebyshev, "widths": (2, 40)}, "degree", 51),
    ],
)
def test_limits_are_those_of_the_compiled_kernels(options, name, largest):
    """Words about a limit repeat what the kernels check: one more is refused, for that reason."""

    def result(size):
        if name == "inputs":
            return step_route(widths=(size, 1))
        if name == "outputs":
            return step_route(widths=(1, size))
        if name == "degree":
            return step_route(widths=options["widths"], basis=options["basis"](degree=size))
        return step_route(**options, grid=size)

    if name != "degree" and not SPLINE_STEPS:
        pytest.skip("no kernels for the squared error of splines on this processor")
    if options == {"widths": (64, 64)}:  # in float32: 64 · cells · 64 · 4 bytes ≤ 1.5 MiB
        assert (largest + 7) * 64 * 64 * 4 <= 3 << 19 < (largest + 8) * 64 * 64 * 4
    assert result(largest).path == "one call"
    refused = result(largest + 1)
    assert refused.path == "per layer"
    limit = re.search(r"up to (\d+)$", refused.reasons["one call"])
    assert limit is None or int(limit[1]) in (largest, 256, 4096)


class Doubled(KANLayer):
    def __call__(self, x):
        return 2.0 * super().__call__(x)


class Shifted(KAN):
    def __call__(self, x):
        return 1.0 + super().__call__(x)


class Named(KAN):
    pass


@needs_native
def test_subclasses_may_compute_something_else():
    model = network()
    x, y = data(model)
    fields = [{f.name: getattr(l, f.name) for f in dataclasses.fields(l)} for l in model.layers]
    doubled = KAN.from_layers([model.layers[0], Doubled(**fields[1])])
    shifted, named = Shifted.from_layers(model.layers), Named.from_layers(model.layers)
    for targets in ((), (y,)):
        got = route(doubled, x, *targets)
        assert got.path == "per layer"
        assert got.reasons["one call"].startswith("layers[1]: a Doubled may compute")
        got = route(shifted, x, *targets)
        assert got.path == "per layer"
        assert got.reasons["one call"] == "a Shifted may compute something else than a KAN"
    assert called_path(lambda x: doubled(x), x) == "per layer"
    assert called_path(lambda x: named(x), x) == route(named, x).path == "one call"
    for other in (doubled, shifted, named):
        loss, _ = Fit().loss(other, {"x": x, "y": y}, {}, "native")
        np.testing.assert_allclose(loss, np.mean((other(x) - y) ** 2), rtol=1e-5)


@needs_native
def test_weights_of_several_types_are_no_one_call():
    with jax.enable_x64(True):
        model = network(dtype="float32")
        model = eqx.tree_at(lambda m: m.layers[1].bias, model, replace_fn=lambda b: b.astype(float))
        x, _ = data(model)
        got = route(model, x)
        assert got.reasons == {"one call": "the weights are of several types: float32, float64"}
        assert called_path(lambda x: model(x), x) == got.path == "per layer"


@needs_native
def test_targets_of_another_shape_are_no_one_call():
    model = network()
    x, y = data(model)
    assert "not (7, 2) and (7,)" in route(model, x, y[:, 0]).reasons["one call"]
    assert route(model, x, jax.ShapeDtypeStruct(y.shape, y.dtype)) == route(model, x, y)


@needs_native
def test_other_platforms_have_no_native_kernels(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    for backend in (None, "native"):
        model = network().with_backend("dense")
        model = KAN.from_layers(dataclasses.replace(l, backend=backend) for l in model.layers)
        got = route(model, data(model)[0])
        assert got.path == "plain"
        assert set(got.reasons.values()) == {"layers[0]: JAX computes on the platform 'gpu'"}


def test_without_the_compiled_kernels_all_is_plain():
    program = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "import jax, kandle\n"
        "model = kandle.KAN([2, 3, 1], key=jax.random.key(0))\n"
        "print(kandle.kernels.route(model, jax.numpy.zeros((4, 2))))"
    )
    paths = {"PYTHONPATH": os.pathsep.join(sys.path), "KANDLE_DISABLE_NATIVE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **paths},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    wanted = "plain (not one call, not per layer: layers[0]: the native kernels are not available)"
    assert done.stdout.strip() == wanted


@needs_native
def test_a_traced_call_has_a_route_too():
    paths = []

    def evaluate(model, x):
        paths.append(route(model, x).path)
        return model(x)

    model = network()
    x, _ = data(model)
    jax.jit(evaluate)(model, x)
    jax.vmap(evaluate, in_axes=(None, 0))(model, x)
    jax.grad(lambda x: evaluate(model, x).sum())(x)
    assert paths == ["one call"] * 3


def test_other_models_are_errors():
    for model in (None, 3, network().layers[0], lambda x: x):
        with pytest.raises(UserError, match=r"'model' of route must be a kandle\.KAN"):
            route(model, jnp.zeros((3, 2)))


def test_a_route_is_a_value():
    reasons = {"one call": "65 inputs", "per layer": "a GPU"}
    got = Route("plain", reasons)
    assert str(got) == "plain (not one call: 65 inputs; not per layer: a GPU)"
    assert str(Route("one call")) == "one call"
    assert list(got.reasons) == ["one call", "per layer"]
    assert pickle.loads(pickle.dumps(got)) == got != Route("plain")
    assert len({got, Route("plain", dict(reasons))}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        got.path = "one call"
