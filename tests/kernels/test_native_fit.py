"""The squared error of a network in one call: values, derivatives, bits, NaN, wrong arguments."""

import hashlib
import itertools
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kandle import KAN, kernels
from kandle._route import LayerSpec
from kandle.kernels import _library, _network
from kandle.nn import squared_error
from kandle.train import Fit, FitRows

SMALL = kernels.route(KAN([2, 8, 1], key=jax.random.key(0)), np.zeros((1, 2)), np.zeros((1, 1)))
pytestmark = pytest.mark.skipif(
    SMALL.path != "one call",
    reason="no kernels for the squared error on this processor",
)

# Widths, G, rows, residual, bias: one output or two, one register of cells or two, parts of
# vectors, of blocks and of chunks.
NETWORKS = [
    ((2, 8, 8, 1), 5, 2100, "silu", True),
    ((3, 5, 7, 2), 4, 777, "silu", False),
    ((1, 1), 5, 3, None, True),
    ((4, 3, 2, 6, 1), 3, 256, None, True),
    ((2, 8, 1), 9, 1030, "silu", True),
    # More than one vector of outputs, in strips of one and two vectors, whole and in part.
    ((2, 17, 32, 1), 9, 1300, "silu", True),
    ((3, 64, 33, 18), 5, 700, None, True),
    ((2, 40, 20, 40, 2), 3, 257, "silu", False),
    # More cells than two registers hold, with one output, a few and more than a vector of them.
    ((2, 32, 20, 1), 80, 2100, "silu", True),
    ((3, 5, 17, 2), 60, 1500, None, False),
    ((2, 9, 1), 300, 40, "silu", True),
    # Fine and coarse grids in one network, more than one chunk.
    ((2, 8, 20, 9, 1), (5, 80, 4, 5), 2500, "silu", True),
]


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    with jax.enable_x64(request.param == "float64"):
        yield request.param


def network(widths, grid, residual, bias, dtype, seed=0):
    options = {"grid": grid, "residual": residual, "bias": bias, "dtype": dtype}
    return KAN(widths, key=jax.random.key(seed), backend="native", **options)


def data(widths, n, dtype):
    rng = np.random.default_rng(7)
    x, y = rng.uniform(-1.2, 1.2, (n, widths[0])), rng.normal(size=(n, widths[-1]))
    return {
        "x": jnp.asarray(x, dtype),
        "y": jnp.asarray(y, dtype),
        "weight": jnp.asarray(rng.uniform(size=n), dtype),
    }


def loss(model, arrays):
    found = squared_error(model, arrays["x"], arrays["y"], arrays["weight"])
    assert found is not None
    return found


def plain_loss(model, arrays):
    error = model(arrays["x"]) - arrays["y"]
    return jnp.sum(arrays["weight"][:, None] * error**2)


def assert_close(got, wanted, dtype):
    tolerance = 2e-5 if dtype == "float32" else 1e-12
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * np.abs(b).max())


@pytest.mark.parametrize(("widths", "grid", "n", "residual", "bias"), NETWORKS)
def test_value_and_gradient_are_those_of_the_layers(widths, grid, n, residual, bias, dtype):
    model, arrays = network(widths, grid, residual, bias, dtype), data(widths, n, dtype)
    reference = model.with_backend("dense")
    got = jax.jit(jax.value_and_grad(loss))(model, arrays)
    assert_close(got, jax.jit(jax.value_and_grad(plain_loss))(reference, arrays), dtype)
    # The value has the same bits with and without the gradient: line searches compare the two.
    np.testing.assert_array_equal(got[0], jax.jit(loss)(model, arrays))


def test_objectives_use_it():
    arrays = data((2, 8, 1), 300, "float32")
    model = network((2, 8, 1), 5, "silu", True, "float32")
    for objective in (Fit(), FitRows()):
        traced = jax.make_jaxpr(lambda m: objective.loss(m, arrays, {}, "native")[0])(model)  # noqa: B023
        assert "kandle_fit" in str(traced)
    mean = jnp.mean((model(arrays["x"]) - arrays["y"]) ** 2)
    np.testing.assert_allclose(Fit().loss(model, arrays, {}, "native")[0], mean, rtol=1e-5)


def test_derivatives_in_data_and_second_derivatives():
    with jax.enable_x64(True):
        model, arrays = (
            network((2, 4, 1), 5, "silu", True, "float64"),
            data((2, 4, 1), 40, "float64"),
        )
        reference = model.with_backend("dense")
        assert_close(
            jax.grad(loss, argnums=1)(model, arrays),
            jax.grad(plain_loss, argnums=1)(reference, arrays),
            "float64",
        )
        direction = jax.tree.map(jnp.ones_like, model)

        def curvature(loss, model, direction):
            return jax.jvp(lambda m: jax.grad(loss)(m, arrays), (model,), (direction,))[1]

        wanted = curvature(plain_loss, reference, direction.with_backend("dense"))
        assert_close(curvature(loss, model, direction), wanted, "float64")
        slope = jax.jvp(lambda m: loss(m, arrays), (model,), (direction,))[1]
        total = sum(jnp.sum(leaf) for leaf in jax.tree.leaves(jax.grad(loss)(model, arrays)))
        np.testing.assert_allclose(slope, total, rtol=1e-12)


BITS = [((2, 8, 8, 1), 5, 2500), ((2, 32, 24, 1), 5, 2500), ((2, 8, 17, 9, 1), (5, 80, 4, 5), 4500)]


@pytest.mark.optimized
@pytest.mark.parametrize(("widths", "grid", "n"), BITS)
def test_bits_do_not_depend_on_the_batch_or_the_slot(widths, grid, n):
    """One model alone is cut into chunks of samples, sixteen are not."""
    arrays = data(widths, n, "float32")
    models = [network(widths, grid, "silu", True, "float32", seed) for seed in range(16)]
    alone = [jax.jit(jax.value_and_grad(loss))(model, arrays) for model in models[:3]]
    for order in (range(16), reversed(range(16)), range(3)):
        order = list(order)
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(models[i] for i in order))
        batch = jax.jit(jax.vmap(jax.value_and_grad(loss), in_axes=(0, None)))(stacked, arrays)
        for i in range(3):
            mine = jax.tree.map(lambda leaf: leaf[order.index(i)], batch)  # noqa: B023
            for a, b in zip(jax.tree.leaves(mine), jax.tree.leaves(alone[i]), strict=True):
                np.testing.assert_array_equal(a, b)


def digest():
    """A hash of losses and gradients, for another process."""
    found = hashlib.sha256()
    for widths, grid, n in BITS:
        arrays = data(widths, n, "float32")
        model = network(widths, grid, "silu", True, "float32")
        got = jax.jit(jax.value_and_grad(loss))(model, arrays)
        found.update(b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(got)))
    return found.hexdigest()


def digest_elsewhere(module, threads):
    """What `digest` of a test module returns in a process with so many threads."""
    folder = os.path.dirname(__file__)
    program = f"import sys; sys.path.insert(0, {folder!r}); import {module} as t; print(t.digest())"
    paths = {"PYTHONPATH": os.pathsep.join(sys.path), "PJRT_NPROC": str(threads)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **paths},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert len(done.stdout) > 60
    return done.stdout


@pytest.mark.optimized
def test_bits_do_not_depend_on_threads():
    """Threads share models, chunks or pieces of chunks, whichever keeps all of them busy."""
    assert len({digest_elsewhere(__name__, threads) for threads in (1, 2, 3, 5)}) == 1


@pytest.mark.parametrize("name", ["x", "y", "weight"])
@pytest.mark.parametrize("row", [0, 255, 1500])
@pytest.mark.parametrize("widths", [(2, 8, 1), (2, 32, 1)])
def test_a_nan_reaches_loss_and_gradients(name, row, widths):
    model, arrays = network(widths, 5, "silu", True, "float32"), data(widths, 1501, "float32")
    arrays[name] = arrays[name].at[row].set(jnp.nan)
    value, gradient = jax.value_and_grad(loss)(model, arrays)
    assert np.isnan(value)
    for layer in gradient.layers:
        for leaf in (layer.r, layer.c, layer.bias):
            assert np.isnan(leaf).all()


def test_infinite_points_are_nan_and_no_rows_are_zero():
    widths = (2, 8, 1)
    model, arrays = network(widths, 5, "silu", True, "float32"), data(widths, 20, "float32")
    infinite = {**arrays, "x": arrays["x"].at[3, 1].set(jnp.inf)}
    assert np.isnan(loss(model, infinite))
    empty = {name: array[:0] for name, array in arrays.items()}
    value, gradient = jax.value_and_grad(loss)(model, empty)
    assert value == 0
    assert all((np.asarray(leaf) == 0).all() for leaf in jax.tree.leaves(gradient))


def test_wrong_arguments_are_errors():
    """The handler called directly: every wrong shape or number is named."""
    widths, grid, n = (2, 3, 1), 5, 4
    shapes = [(1, n, 2), (1, n, 1), (1, n)]
    for n_in, n_out in itertools.pairwise(widths):
        shapes += [(1, n_out, n_in), (1, n_out, n_in), (1, n_out, n_in, grid + 3), (1, n_out)]
    attributes = {
        "grid": np.array([grid, grid]),
        "lo": np.array([-1.0, -1.0]),
        "hi": np.array([1.0, 1.0]),
        "residual": np.array([1, 1]),
    }
    results = [jax.ShapeDtypeStruct((1, *s[1:]), "float32") for s in [(1,), *shapes[3:]]]

    def call(shapes=shapes, results=results, **changed):
        target = _library.target("fit", np.dtype("float32"))
        run = jax.ffi.ffi_call(target, results)
        return run(*(jnp.zeros(s, "float32") for s in shapes), **attributes | changed)

    call()
    call(results=results[:1])
    for position, wanted in enumerate(["x", "y", "weight", *("r", "c", "b", "bias") * 2]):
        wrong = [s if i != position else (*s[:-1], s[-1] + 1) for i, s in enumerate(shapes)]
        with pytest.raises(Exception, match=r"kandle: .* must be") as caught:
            call(shapes=wrong)
        assert wanted in str(caught.value) or wanted in ("x", "c")
    for changed in (
        {"grid": np.array([grid, 2**40])},
        {"grid": np.array([grid, 100])},
        {"grid": np.array([grid])},
        {"lo": np.array([-1.0, 2.0])},
        {"hi": np.array([1.0, np.nan])},
        {"residual": np.array([1])},
    ):
        with pytest.raises(Exception, match=r"kandle: .* must be"):
            call(**changed)
    for kept in (shapes[:-1], shapes[:3]):
        with pytest.raises(Exception, match="number of weights must be"):
            call(shapes=kept)
    with pytest.raises(Exception, match="number of gradients must be"):
        call(results=results[:-1])


def test_the_composed_form_is_the_same():
    """What other platforms run."""
    arrays = data((2, 8, 1), 50, "float32")
    model = network((2, 8, 1), 5, "silu", True, "float32")
    flat = [w for layer in model.layers for w in (layer.r, layer.c, layer.b, layer.bias)]
    operands = [a[None] for a in (arrays["x"], arrays["y"], arrays["weight"], *flat)]
    static = tuple(LayerSpec(l.n_in, l.n_out, l.basis, "silu") for l in model.layers)
    for want_w in (False, True):
        got = _network.fit_p.bind(*operands, layers=static, want_w=want_w)
        wanted = _network._fit_composed(*operands, layers=static, want_w=want_w)
        assert_close(got, wanted, "float32")
