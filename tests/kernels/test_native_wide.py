"""Wide layers and few rows: tiles of features and outputs, tasks over outputs instead of samples.

The C functions take the number of threads as an argument, so that a test can ask for any.
"""

import ctypes
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kandle import kernels
from kandle._native import open_library
from kandle.bases import BSpline

pytestmark = pytest.mark.skipif(
    kernels.default_backend() != "native", reason="the native backend is not available here"
)

# (n, n_in, n_out, grid, degree): outputs that fill tiles and that do not, fewer features than a
# tile and more, one block of samples and several, one output, one vector of them, few cells and
# many.
SHAPES = [
    (1, 40, 300, 5, 3),
    (100, 35, 521, 5, 3),
    (1030, 3, 320, 4, 3),
    (90, 20, 257, 3, 2),
    (2600, 33, 70, 5, 3),
    (130, 300, 1, 5, 3),
    (130, 300, 8, 5, 3),
    (30, 17, 272, 90, 3),
    (300, 40, 24, 8, 3),
    (1500, 20, 50, 60, 3),
]
LO, HI = -1.0, 1.0


def example(n, n_in, n_out, grid, degree, dtype=np.float32, models=()):
    rng = np.random.default_rng(n_out)
    shapes = (n, n_in), (n_out, n_in), (n_out, n_in), (n_out, n_in, grid + degree), (n_out,)
    arrays = [rng.uniform(-1.2, 1.2, (*models, *shape)).astype(dtype) for shape in shapes]
    return *arrays, rng.normal(size=(*models, n, n_out)).astype(dtype)


def pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)


def layer_and_gradients(arrays, grid, degree, threads, batched=0):
    """Value and all gradients by the C functions, on so many threads."""
    x, r, c, b, bias, g = arrays
    *models, n, n_in = x.shape
    n_out = r.shape[-2]
    library = open_library()
    outputs = [np.full_like(a, np.nan) for a in (g, x, r, c, b, bias)]
    sizes = [ctypes.c_int64(size) for size in (*(models or [1]), n, n_in, n_out)]
    spline = [ctypes.c_int64(grid), degree, ctypes.c_double(LO), ctypes.c_double(HI), 1]
    rest = (*sizes, batched, *spline, ctypes.c_int64(threads))
    bits = 8 * x.itemsize
    forward = getattr(library, f"kandle_c_layer_f{bits}")
    backward = getattr(library, f"kandle_c_layer_backward_f{bits}")
    assert forward(*map(pointer, (x, r, c, b, bias)), pointer(outputs[0]), *rest) == 0
    assert backward(*map(pointer, (x, r, c, b, g)), *map(pointer, outputs[1:]), *rest) == 0
    return outputs


@pytest.mark.parametrize("shape", SHAPES)
def test_bits_do_not_depend_on_threads(shape):
    arrays, spline = example(*shape), shape[3:]
    alone = layer_and_gradients(arrays, *spline, threads=1)
    assert all(np.isfinite(a).all() for a in alone)
    for threads in (2, 3, 7):
        shared = layer_and_gradients(arrays, *spline, threads=threads)
        for a, b in zip(alone, shared, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("shape", [SHAPES[1], SHAPES[3], SHAPES[5]])
def test_bits_do_not_depend_on_the_batch_and_the_slot(shape):
    batch, spline = example(*shape, models=(3,)), shape[3:]
    together = layer_and_gradients(batch, *spline, threads=2, batched=0b11111)
    for slot in range(3):
        own = [np.ascontiguousarray(a[slot]) for a in batch]
        for a, b in zip(layer_and_gradients(own, *spline, threads=1), together, strict=True):
            np.testing.assert_array_equal(a, b[slot])


@pytest.mark.parametrize("shape", [SHAPES[1], SHAPES[4], SHAPES[9]])
def test_a_row_does_not_depend_on_the_other_rows(shape):
    x, *weights, g = example(*shape)
    n, _, _, *spline = shape
    y, dx, *_ = layer_and_gradients((x, *weights, g), *spline, threads=2)
    for row in (0, n // 2, n - 1):
        one = [np.ascontiguousarray(a[row : row + 1]) for a in (x, g)]
        alone, dx_alone, *_ = layer_and_gradients((one[0], *weights, one[1]), *spline, threads=1)
        np.testing.assert_array_equal(alone[0], y[row])
        np.testing.assert_array_equal(dx_alone[0], dx[row])


@functools.partial(jax.jit, static_argnames=("basis", "backend", "first", "second"))
def jet_and_gradients(x, r, c, b, bias, g, *, basis, backend, first, second):
    options = {"first": first, "second": second, "basis": basis, "residual": jax.nn.silu}
    f = functools.partial(kernels.jet, **options, backend=backend)
    y, pullback = jax.vjp(f, x, r, c, b, bias)
    return y, *pullback(g)


@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_gradients_are_those_of_the_reference(shape):
    with jax.enable_x64(True):
        basis = BSpline(grid=shape[3], degree=shape[4])
        x, *weights, g = example(*shape, dtype=np.float64)
        options = {"basis": basis, "first": 0, "second": 0}
        wanted = jet_and_gradients(
            x[None], *weights, g[None], **options, backend="reference" if x.size < 4000 else "dense"
        )
        for threads in (1, 2):
            got = layer_and_gradients((x, *weights, g), *shape[3:], threads=threads)
            for a, b in zip(got, wanted, strict=True):
                b = np.reshape(b, a.shape)
                np.testing.assert_allclose(a, b, atol=1e-12 * max(1.0, np.abs(b).max()))


@pytest.mark.parametrize(("first", "second"), [(1, 1), (2, 1), (2, 2)])
def test_jets_of_wide_layers_are_those_of_dense(first, second):
    with jax.enable_x64(True):
        basis = BSpline(grid=5)
        rng = np.random.default_rng(first)
        (_, *weights, _), components = example(9, 21, 275, 5, 3, np.float64), 1 + first + second
        x, g = rng.uniform(-1, 1, (components, 9, 21)), rng.normal(size=(components, 9, 275))
        options = {"basis": basis, "first": first, "second": second}
        got, wanted = (
            jet_and_gradients(x, *weights, g, **options, backend=backend)
            for backend in ("native", "dense")
        )
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-11 * max(1.0, float(jnp.abs(b).max())))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("n_out", [1, 300])
def test_a_non_finite_input_reaches_its_row_and_its_feature_alone(n_out, bad):
    shape = (50, 20, n_out, 5, 3)
    x, *rest = example(*shape)
    x[7, 18] = bad
    y, dx, dr, dc, db, dbias = layer_and_gradients((x, *rest), 5, 3, threads=2)
    row, feature = np.arange(50) == 7, np.arange(20) == 18
    np.testing.assert_array_equal(np.isnan(y), np.broadcast_to(row[:, None], y.shape))
    np.testing.assert_array_equal(np.isnan(dx), row[:, None] & feature)
    for edges in (np.isnan(dr), np.isnan(dc), np.isnan(db).any(-1)):
        np.testing.assert_array_equal(edges, np.broadcast_to(feature, dr.shape))
    assert np.isfinite(dbias).all()


@pytest.mark.parametrize("shape", [*SHAPES, (0, 70, 300, 5, 3), (513, 40, 300, 5, 3)])
def test_gradients_of_the_weights_or_inputs_alone_have_the_same_bits(shape):
    x, *weights, g = example(*shape)
    options = {"basis": BSpline(grid=shape[3], degree=shape[4]), "residual": jax.nn.silu}

    @jax.jit
    def gradients(x, *weights):
        def value(x, *weights):
            return kernels.jet(x[None], *weights, **options, first=0, second=0, backend="native")[0]

        _, both = jax.vjp(value, x, *weights)
        _, of_weights = jax.vjp(functools.partial(value, x), *weights)
        _, of_inputs = jax.vjp(lambda x: value(x, *weights), x)
        return both(g), (*of_inputs(g), *of_weights(g))

    for a, b in zip(*gradients(x, *weights), strict=True):
        np.testing.assert_array_equal(a, b)
        assert shape[0] > 0 or not np.any(a)
