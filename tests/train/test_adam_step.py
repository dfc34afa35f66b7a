"""`step` of `kandle.train.adam`: the gradient and Adam's step in one are those two to rounding."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kandle import KAN, kernels
from kandle.train import _adam_step, adam

native = pytest.mark.skipif(
    kernels.default_backend() != "native", reason="the native backend is not available here"
)

# Adam's step is discontinuous where a gradient is zero: eps keeps tiny ones from mattering.
OPTIMIZER = adam(1e-2, b1=0.8, b2=0.99, eps=1e-3, eps_root=1e-6)
# Layers that advance in their backward pass, without and with a gradient of their inputs, and two
# that do not.
WIDTHS = (70, 130, 67, 3, 1)


def example(widths=WIDTHS, dtype: type = np.float32, rows: int = 41, **options: Any):
    model = KAN(widths, grid=4, init="glorot", key=jax.random.key(0), **options)
    model = jax.tree.map(lambda a: a.astype(dtype) if eqx.is_inexact_array(a) else a, model)
    weights, static = eqx.partition(model, eqx.is_inexact_array)
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.uniform(-1.1, 1.1, (rows, widths[0])), dtype)
    y = jnp.asarray(rng.normal(size=(rows, widths[-1])), dtype)

    def loss(weights, x, y):
        return jnp.mean((eqx.combine(weights, static)(x) - y) ** 2)

    return weights, loss, (x, y)


def advanced(step, weights, steps=3):
    """The last loss, the weights and the state after some steps of (state, weights)."""

    @jax.jit
    def run(weights):
        def body(_, carry):
            _, weights, state = carry
            return step(state, weights)

        zero = jnp.zeros((), jax.tree.leaves(weights)[0].dtype)
        return jax.lax.fori_loop(0, steps, body, (zero, weights, OPTIMIZER.init(weights)))

    return run(weights)


def fused(loss, *data):
    return lambda state, weights: OPTIMIZER.step(loss, state, weights, *data)


def separate(loss, *data):
    def step(state, weights):
        value, gradient = jax.value_and_grad(loss)(weights, *data)
        return value, *OPTIMIZER.apply(gradient, state, weights)

    return step


def fused_layers(loss, weights, *data):
    step = fused(loss, *data)
    return str(jax.make_jaxpr(step)(OPTIMIZER.init(weights), weights)).count("jet_step")


def assert_close(got, wanted, tolerance):
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        assert a.dtype == b.dtype
        scale = max(1.0, float(np.abs(b).max()))
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * scale)


@native
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [41, 700])
def test_a_step_is_the_gradient_and_then_adam(dtype, rows):
    with jax.enable_x64(dtype is np.float64):
        weights, loss, data = example(dtype=dtype, rows=rows)
        assert fused_layers(loss, weights, *data) == 2
        got = advanced(fused(loss, *data), weights)
        wanted = advanced(separate(loss, *data), weights)
        assert_close(got, wanted, 200 * np.finfo(dtype).eps)
        moved = jax.tree.map(lambda a, b: float(jnp.abs(a - b).max()), got[1], weights)
        assert min(jax.tree.leaves(moved)) > 1e-3


@native
@pytest.mark.parametrize(
    ("widths", "degree"), [((64, 64, 1), 2), ((300, 1000, 1), 3), ((1000, 90, 1), 3)]
)
def test_wide_layers_of_any_degree(widths, degree):
    with jax.enable_x64(True):
        weights, loss, data = example(widths, np.float64, degree=degree)
        assert fused_layers(loss, weights, *data) == 1
        got, wanted = (advanced(way(loss, *data), weights) for way in (fused, separate))
        assert_close(got, wanted, 1e-12)


@native
def test_calls_within_the_loss_are_looked_into():
    weights, loss, data = example()
    inner = jax.jit(loss)
    assert fused_layers(inner, weights, *data) == 2
    got, wanted = (advanced(fused(f, *data), weights) for f in (inner, loss))
    assert_close(got, wanted, 1e-5)


def penalty(weights):
    return sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(weights))


@pytest.mark.parametrize(
    "change",
    [
        lambda loss: lambda w, *data: loss(w, *data) + 1e-3 * penalty(w),
        lambda loss: lambda w, *data: loss(w, *data) + loss(w, *(-a for a in data)),
        lambda loss: lambda w, *data: loss(jax.tree.map(lambda a: 0.5 * a, w), *data),
        lambda loss: jax.checkpoint(loss),
    ],
)
def test_weights_that_are_used_otherwise_take_two_steps(change):
    weights, loss, data = example()
    changed = change(loss)
    assert fused_layers(changed, weights, *data) == 0
    got, wanted = (advanced(way(changed, *data), weights) for way in (fused, separate))
    assert_close(got, wanted, 1e-5)


def test_other_layers_take_two_steps():
    choices: list[dict[str, Any]] = [{"backend": "dense"}, {"residual": None}]
    for options in choices:
        weights, loss, data = example(**options)
        assert fused_layers(loss, weights, *data) == 0
        got, wanted = (advanced(way(loss, *data), weights) for way in (fused, separate))
        assert_close(got, wanted, 1e-5)


@native
def test_a_batch_has_the_bits_of_its_models():
    weights, loss, (x, y) = example((64, 70, 1))
    factors = jnp.asarray([1.0, 0.5, -1.0, 2.0]).reshape(2, 2)
    batch = jax.tree.map(lambda a: factors.reshape(2, 2, *[1] * a.ndim) * a, weights)
    points = jnp.stack([x, 0.9 * x])  # shared by the inner axis of models

    def run(weights, x):
        return advanced(fused(loss, x, y), weights)

    inner = jax.vmap(run, in_axes=(0, None))
    together = jax.vmap(inner, in_axes=(0, 0))(batch, points)
    for i, j in ((0, 1), (1, 0)):
        alone = run(jax.tree.map(lambda a, i=i, j=j: a[i, j], batch), points[i])
        wide = {(70, 64), (70, 64, 7)}  # the others are XLA's
        for a, b in zip(jax.tree.leaves(alone), jax.tree.leaves(together), strict=True):
            if a.shape in wide:
                np.testing.assert_allclose(a, b[i, j], rtol=0, atol=1e-6)
    one_step = jax.vmap(lambda w: OPTIMIZER.step(loss, OPTIMIZER.init(w), w, x, y)[1])
    flat = jax.tree.map(lambda a: a.reshape(4, *a.shape[2:]), batch)
    first, slots = one_step(jax.tree.map(lambda a: a[2:3], flat)), one_step(flat)
    np.testing.assert_array_equal(first.layers[0].b[0], slots.layers[0].b[2])


@native
def test_the_arrays_of_the_caller_stay_as_they_are():
    weights, loss, data = example((64, 70, 1))
    before = jax.tree.map(np.array, weights)
    state = OPTIMIZER.init(weights)
    jax.jit(fused(loss, *data))(state, weights)
    for a, b in zip(jax.tree.leaves(weights), jax.tree.leaves(before), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(state.mu))


@native
def test_what_is_not_a_number_stays_so():
    weights, loss, (x, y) = example((64, 70, 1))
    x = x.at[3, 5].set(jnp.nan)
    value, after, _ = jax.jit(fused(loss, x, y))(OPTIMIZER.init(weights), weights)
    assert np.isnan(value)
    assert np.isnan(after.layers[0].b).any()


def test_without_the_kernels_all_take_two_steps(monkeypatch):
    weights, loss, data = example()
    monkeypatch.setattr(_adam_step, "has_step", lambda *args, **options: False)
    assert fused_layers(loss, weights, *data) == 0
