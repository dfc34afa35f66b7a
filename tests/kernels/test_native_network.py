"""The values of a network in one call, and a few rows: bits, derivatives, batches, NaN, errors."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kandle import KAN, kernels
from kandle._route import LayerSpec
from kandle.kernels import _library, _network

pytestmark = pytest.mark.skipif(
    kernels.default_backend() != "native", reason="the native backend is not available here"
)

# Widths, G, degree, residual, bias: every layout of a layer, whole vectors and parts of them, one
# and two registers of cells, and more.
NETWORKS = [
    ((2, 32, 32, 32, 1), 20, 3, "silu", True),
    ((3, 40, 17, 33), 5, 3, None, False),
    ((20, 130, 200), 8, 3, "silu", True),
    ((33, 1), 30, 3, "silu", True),
    ((40, 1), 5, 3, None, True),
    ((7, 8, 1), 4, 3, "silu", False),
    ((3, 20, 2), 6, 2, "silu", True),
]


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    with jax.enable_x64(request.param == "float64"):
        yield request.param


def network(widths, grid, degree, residual, bias, dtype="float32", seed=0, backend="native"):
    options = {"grid": grid, "degree": degree, "residual": residual, "bias": bias, "dtype": dtype}
    return KAN(widths, key=jax.random.key(seed), backend=backend, **options)


def points(n, n_in, dtype="float32"):
    """Points inside, at the ends of the domain, outside, and not finite."""
    x = np.random.default_rng(5).normal(size=(n, n_in)).astype(dtype)
    x[1], x[2], x[3] = -1.0, 1.0, 50.0
    x[4, 0], x[5, -1] = np.nan, np.inf
    return jnp.asarray(x)


def by_layers(model, x):
    for layer in model.layers:
        x = layer(x)
    return x


@pytest.mark.parametrize("case", NETWORKS)
def test_values_have_the_bits_of_the_layers(case, dtype):
    model, x = network(*case, dtype), points(50, case[0][0], dtype)
    got = jax.jit(lambda model, x: model(x))(model, x)
    assert kernels.route(model, x).path == "one call"
    np.testing.assert_array_equal(got, jax.jit(by_layers)(model, x))
    assert np.isnan(got[4:6]).all()
    finite = np.r_[0:4, 6:50]
    tolerance = 2e-5 if dtype == "float32" else 1e-12
    wanted = by_layers(model.with_backend("reference"), x)[finite]
    np.testing.assert_allclose(got[finite], wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("case", NETWORKS)
def test_a_row_has_the_same_bits_among_few_and_among_many(case, dtype):
    """A few rows are evaluated without packing the weights, by the same operations."""
    model, x = network(*case, dtype), points(40, case[0][0], dtype)
    evaluate = jax.jit(lambda model, x: model(x))
    every = np.asarray(evaluate(model, x))
    for size in (1, 2, 3, 4, 5):
        for start in range(0, 40 - size, 3):
            few = evaluate(model, x[start : start + size])
            np.testing.assert_array_equal(few, every[start : start + size])


def test_large_inputs_are_cut_into_blocks():
    model, x = network((2, 64, 3), 5, 3, "silu", True), points(20_011, 2)
    got = np.asarray(model(x))
    np.testing.assert_array_equal(got, jax.jit(by_layers)(model, x))
    np.testing.assert_array_equal(got[12_345:12_400], model(x[12_345:12_400]))


def test_no_rows():
    model = network((2, 8, 3), 5, 3, "silu", True)
    assert model(jnp.zeros((0, 2))).shape == (0, 3)
    assert model(jnp.zeros((4, 0, 2))).shape == (4, 0, 3)


def test_derivatives_are_those_of_the_layers():
    with jax.enable_x64(True):
        model = network((2, 9, 1), 5, 3, "silu", True, "float64")
        x = jnp.asarray(np.random.default_rng(0).uniform(-1, 1, (30, 2)))
        reference = model.with_backend("dense")

        def loss(model, x):
            return jnp.sum(jnp.sin(model(x)))

        def hessian(model):
            return jax.hessian(lambda x: loss(model, x[None]))(x[0])

        for got, wanted in (
            (jax.grad(loss)(model, x), jax.grad(loss)(reference, x)),
            (jax.grad(loss, argnums=1)(model, x), jax.grad(loss, argnums=1)(reference, x)),
            (hessian(model), hessian(reference)),
            (jax.jacfwd(loss, argnums=1)(model, x), jax.jacfwd(loss, argnums=1)(reference, x)),
        ):
            for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


def test_the_gradient_in_the_weights_has_none_in_the_inputs():
    """Gradients that nobody asked for would cost a third of a step."""
    model, x = network((2, 9, 1), 5, 3, "silu", True), points(30, 2)

    def loss(model):
        return jnp.sum(model(x))

    traced = jax.make_jaxpr(jax.grad(loss))(model)
    calls = [e for e in traced.eqns if e.primitive.name == "kandle_jet_backward"]
    assert [call.params["want_x"] for call in calls] == [True, False]


def test_vmap_over_points_and_over_models():
    case = ((2, 20, 1), 5, 3, "silu", True)
    model, x = network(*case), points(60, 2)
    wanted = np.asarray(model(x))
    np.testing.assert_array_equal(jax.vmap(model)(x), wanted)
    nested = jax.vmap(jax.vmap(model))(x.reshape(6, 10, 2))
    np.testing.assert_array_equal(nested.reshape(60, 1), wanted)
    models = [network(*case, seed=seed) for seed in range(3)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *models)
    together = jax.vmap(lambda model: model(x))(stacked)
    for one, values in zip(models, together, strict=True):
        np.testing.assert_array_equal(values, one(x))
    each = jax.vmap(lambda model, x: model(x))(stacked, x.reshape(3, 20, 2))
    for one, values, rows in zip(models, each, x.reshape(3, 20, 2), strict=True):
        np.testing.assert_array_equal(values, one(rows))


def test_the_composed_form_is_the_same():
    """What other platforms run."""
    model, x = network((2, 9, 3), 5, 3, "silu", True), points(30, 2)
    weights = [(l.r, l.c, l.b, l.bias) for l in model.layers]
    flat = [w[None] for layer in weights for w in layer]
    layers = tuple(LayerSpec(l.n_in, l.n_out, l.basis, "silu") for l in model.layers)
    composed = jax.jit(lambda *operands: _network._network_composed(*operands, layers=layers))
    got = composed(x[None], *flat)
    np.testing.assert_array_equal(got[0], model(x))


def test_wrong_arguments_are_errors():
    """The handler called directly: every wrong shape or number is named."""
    widths, grid, n = (2, 3, 1), 5, 4
    shapes = [(1, n, 2)]
    for n_in, n_out in itertools.pairwise(widths):
        shapes += [(1, n_out, n_in), (1, n_out, n_in), (1, n_out, n_in, grid + 3), (1, n_out)]
    attributes = {
        "grid": np.array([grid, grid]),
        "degree": np.array([3, 3]),
        "lo": np.array([-1.0, -1.0]),
        "hi": np.array([1.0, 1.0]),
        "residual": np.array([1, 1]),
    }

    def call(shapes=shapes, result=(1, n, 1), **changed):
        target = _library.target("network", np.dtype("float32"))
        run = jax.ffi.ffi_call(target, jax.ShapeDtypeStruct(result, "float32"))
        return run(*(jnp.zeros(s, "float32") for s in shapes), **attributes | changed)

    call()
    for position, wanted in enumerate(["x", *("r", "c", "b", "bias") * 2]):
        for axis in (-1, 0):
            wrong = [list(s) for s in shapes]
            wrong[position][axis] += 1
            with pytest.raises(Exception, match=r"kandle: .* must be") as caught:
                call(shapes=wrong)
            assert wanted in str(caught.value) or wanted in ("x", "c")
    for changed in (
        {"grid": np.array([grid, 2**40])},
        {"grid": np.array([grid])},
        {"degree": np.array([3, 9])},
        {"degree": np.array([3, 2])},
        {"lo": np.array([-1.0, 2.0])},
        {"hi": np.array([1.0, np.nan])},
        {"residual": np.array([1])},
    ):
        with pytest.raises(Exception, match=r"kandle: .* must be"):
            call(**changed)
    for kept in (shapes[:-1], shapes[:1]):
        with pytest.raises(Exception, match="number of weights must be"):
            call(shapes=kept)
    for result in ((2, n, 2), (1, n + 1, 1), (1, n)):
        with pytest.raises(Exception, match="kandle: y must be"):
            call(result=result)
