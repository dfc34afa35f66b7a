"""Whatever the inputs hold, the native code answers with numbers, NaN or an error, and lives."""

import functools

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from kandle import kernels
from kandle.bases import BSpline
from kandle.kernels._native import backward_p, jet_p

pytestmark = pytest.mark.skipif(
    kernels.default_backend() != "native", reason="the native backend is not available here"
)


def example(n, n_in, n_out, basis, dtype=np.float32):
    rng = np.random.default_rng(n_out)
    shapes = (n, n_in), (n_out, n_in), (n_out, n_in), (n_out, n_in, basis.n_basis), (n_out,)
    return [jnp.asarray(rng.uniform(-1, 1, shape), dtype) for shape in shapes]


@functools.partial(jax.jit, static_argnames=("basis", "backend"))
def value_and_gradients(*arguments, basis, backend="native"):
    options = {"basis": basis, "residual": jax.nn.silu, "backend": backend}
    y, pullback = jax.vjp(functools.partial(kernels.layer, **options), *arguments)
    return y, *pullback(jnp.ones_like(y))


def assert_close(got, wanted):
    for a, b in zip(got, wanted, strict=True):
        scale = max(1.0, float(np.max(np.abs(b), initial=0.0, where=np.isfinite(b))))
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5 * scale)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("n_out", [1, 3, 8, 17])
def test_non_finite_inputs_give_nan_in_values_and_gradients(n_out, bad):
    basis = BSpline(grid=5)
    x, *weights = example(40, 2, n_out, basis)
    y, dx, dr, dc, db, dbias = value_and_gradients(x.at[7, 1].set(bad), *weights, basis=basis)
    rows = np.arange(40) == 7
    np.testing.assert_array_equal(np.isnan(y), np.broadcast_to(rows[:, None], y.shape))
    np.testing.assert_array_equal(np.isnan(dx), rows[:, None] & np.array([False, True]))
    for gradient in (dr, dc):
        assert np.isnan(gradient[:, 1]).all()
        assert np.isfinite(gradient[:, 0]).all()
    assert np.isnan(db[:, 1]).any(-1).all()
    assert np.isfinite(db[:, 0]).all()
    assert np.isfinite(dbias).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_out", [1, 8])
def test_all_kinds_of_numbers_agree_with_dense(n_out, dtype):
    """Knots, their neighbours, denormals, both zeros, far outside, largest and smallest."""
    with jax.enable_x64(True):
        basis = BSpline(grid=5)
        tiny, largest = np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max
        knots = basis.knots.astype(dtype)[3:-3]
        inputs = np.concatenate(
            [
                [0.0, -0.0, tiny, -tiny, 50 * tiny, np.finfo(dtype).tiny],
                *([s * v for s in (1, -1)] for v in (1.0, 3.7, 80.0, 700.0, 1e4, 1e30, largest)),
                knots,
                np.nextafter(knots, dtype(2)),
                np.nextafter(knots, dtype(-2)),
            ]
        )
        _, *weights = example(1, 1, n_out, basis, dtype)
        x = jnp.asarray(inputs, dtype)[:, None]
        # Gradients of r times a huge number are huge: only the splines' share is compared there.
        moderate = jnp.clip(x, -1e4, 1e4)
        got, wanted = (
            value_and_gradients(moderate, *weights, basis=basis, backend=name)
            for name in ("native", "dense")
        )
        assert_close(got, wanted)
        y, dx, *_ = value_and_gradients(x, 0 * weights[0], *weights[1:], basis=basis)
        assert np.isfinite(y).all()
        outside = np.abs(x[:, 0]) > 3
        np.testing.assert_array_equal(y[outside], np.broadcast_to(weights[3], y[outside].shape))
        np.testing.assert_array_equal(dx[outside], 0.0)


@pytest.mark.parametrize(
    ("n", "n_in", "n_out", "grid"),
    [
        (0, 2, 8, 5),
        (0, 2, 1, 5),
        (1, 1, 1, 1),
        (1, 1, 8, 1),
        (3, 1, 9, 2),
        (5, 7, 1, 3),
        (4, 2, 0, 5),
        (2, 1, 2, 1000),
        (600, 1, 1, 3000),
    ],
)
def test_extreme_shapes_agree_with_dense(n, n_in, n_out, grid):
    basis = BSpline(grid=grid)
    arguments = example(n, n_in, n_out, basis)
    got = value_and_gradients(*arguments, basis=basis)
    with jax.enable_x64(True):
        # In float32 `dense` rounds a position among all cells, `native` the position in one.
        double = (jnp.asarray(np.asarray(a), np.float64) for a in arguments)
        wanted = value_and_gradients(*double, basis=basis, backend="dense")
    # A derivative grows with the number of intervals, and so does its rounding.
    np.testing.assert_allclose(got[1], wanted[1], atol=1e-3 * max(grid, 10), rtol=1e-3)
    assert_close((got[0], *got[2:]), (wanted[0], *wanted[2:]))


def test_a_layer_without_inputs_is_its_bias():
    basis = BSpline(grid=5)
    y, *_, dbias = value_and_gradients(*example(4, 0, 8, basis), basis=basis)
    np.testing.assert_array_equal(y, jnp.tile(example(4, 0, 8, basis)[-1], (4, 1)))
    np.testing.assert_array_equal(dbias, 4.0)


def test_many_thousand_intervals():
    """Far more functions than points: one interval's weights are found among all."""
    basis = BSpline(grid=100_000)
    x, r, c, b, bias = example(50, 1, 2, basis)
    y, *_ = value_and_gradients(x, 0 * r, 0 * c + 1, 0 * b + 1, 0 * bias, basis=basis)
    np.testing.assert_allclose(y, 1.0, atol=1e-3)  # partition of unity


def test_a_grid_too_fine_for_float32_is_an_error_and_not_a_crash():
    basis = BSpline(grid=2**24)
    zeros = jnp.zeros((1, 1), jnp.float32)
    b = jnp.zeros((1, 1, basis.n_basis), jnp.float32)
    with pytest.raises(Exception, match="grid must be between 1 and"):
        jax.block_until_ready(
            kernels.layer(zeros, zeros, zeros, b, None, basis=basis, residual=jax.nn.silu)
        )


@pytest.mark.parametrize("wrong", range(5))
def test_shapes_that_do_not_fit_are_errors_of_the_native_call(wrong):
    """Past the public checks: the compiled code looks again before it reads anything."""
    basis = BSpline(grid=5)
    params = {"basis": basis, "first": 0, "second": 0, "residual": True}
    x, r, c, b, bias = example(6, 2, 8, basis)
    operands = [x[None, None], r[None], c[None], b[None], bias[None]]
    shapes = [list(a.shape) for a in operands]
    shapes[wrong][-1] += 1
    operands = [jnp.ones(shape, jnp.float32) for shape in shapes]
    with pytest.raises(Exception, match=r"kandle: \w+ must be of shape"):
        jax.block_until_ready(jet_p.bind(*operands, **params))
    if wrong < 4:
        g = jnp.ones((1, 1, 6, 8), jnp.float32)
        with pytest.raises(Exception, match=r"kandle: \w+ must be of shape"):
            jax.block_until_ready(
                backward_p.bind(*operands[:4], g, want_x=True, want_w=True, **params)
            )


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
def test_batches_and_second_derivatives_lower_for_accelerators_without_native_calls(platform):
    basis = BSpline(grid=5)
    x, *weights = example(6, 2, 8, basis)

    def loss(*arguments):
        options = {"basis": basis, "residual": jax.nn.silu, "backend": "native"}
        return kernels.total(jnp.ravel(kernels.layer(*arguments, **options)), "native")

    def step(x, *weights):
        hessian = jax.jvp(jax.grad(loss), (x, *weights), (x, *weights))[1]
        return jax.grad(loss, argnums=range(5))(x, *weights), hessian

    batch = [jnp.stack([w, w]) for w in weights]
    program = jax.jit(jax.vmap(step, (None, 0, 0, 0, 0)))
    module = jax.export.export(program, platforms=[platform])(x, *batch).mlir_module()
    assert "custom_call" not in module
