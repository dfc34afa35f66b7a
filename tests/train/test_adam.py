"""`kandle.train.adam` is Optax's Adam to rounding, on every path, in any batch."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from kandle import KAN, init, kernels
from kandle.train import (
    Architecture,
    Fit,
    Optimizer,
    Population,
    _adam,
    adam,
    method_of,
    shared,
    train,
)

SIZE = _adam.NATIVE_SIZE


def weights(dtype=np.float32):
    rng = np.random.default_rng(0)
    shapes = {"large": (SIZE // 4, 5), "small": (7, 3), "scalar": (), "empty": (0, 3)}
    return {name: jnp.asarray(rng.normal(size=shape), dtype) for name, shape in shapes.items()}


def gradients(params, step):
    return jax.tree.map(lambda w: jnp.sin(37 * w + step) * 10.0 ** (step % 3), params)


def trajectory(optimizer, params, steps=4):
    @jax.jit
    def run(params):
        state = optimizer.init(params)
        for step in range(steps):
            updates, state = optimizer.update(gradients(params, step), state, params)
            params = optax.apply_updates(params, updates)
        return params

    return run(params)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("rate", "options"),
    [
        (1e-2, {}),
        (optax.exponential_decay(1e-2, 2, 0.5), {"b1": 0.8, "b2": 0.99}),
        (1e-2, {"eps": 1e-3, "eps_root": 1e-4}),
    ],
)
def test_updates_are_those_of_optax(dtype, rate, options):
    with jax.enable_x64(dtype is np.float64):
        params = weights(dtype)
        got = trajectory(adam(rate, **options), params)
        wanted = trajectory(optax.adam(rate, **options), params)
        for name in params:
            assert got[name].dtype == dtype
            tolerance = 20 * np.finfo(dtype).eps
            np.testing.assert_allclose(got[name], wanted[name], rtol=tolerance, atol=tolerance)
            assert name == "empty" or np.abs(got[name] - params[name]).max() > 1e-3


def applied(optimizer, params, steps=4):
    @jax.jit
    def run(params):
        state = optimizer.init(params)
        for step in range(steps):
            params, state = optimizer.apply(gradients(params, step), state, params)
        return params, state

    return run(params)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weights_are_updated_in_one_pass_as_by_optax(dtype):
    with jax.enable_x64(dtype is np.float64):
        params, options = weights(dtype), {"b1": 0.8, "eps": 1e-3, "eps_root": 1e-4}
        before = jax.tree.map(np.asarray, params)
        got, state = applied(adam(1e-2, **options), params)
        wanted = trajectory(optax.adam(1e-2, **options), params)
        tolerance = 20 * np.finfo(dtype).eps
        for name in params:
            np.testing.assert_allclose(got[name], wanted[name], rtol=tolerance, atol=tolerance)
            assert name == "empty" or np.abs(got[name] - before[name]).max() > 1e-3
            np.testing.assert_array_equal(params[name], before[name])  # not the caller's arrays
        assert state.count == 4


def test_one_pass_over_a_batch_has_the_bits_of_its_models():
    params = weights()
    batch = jax.tree.map(lambda w: jnp.stack([w, 2 * w, -w, w + 1]).reshape(2, 2, *w.shape), params)
    together, _ = jax.vmap(jax.vmap(lambda p: applied(adam(1e-2), p)))(batch)
    for i, j in ((0, 1), (1, 0)):
        alone, _ = applied(adam(1e-2), {name: leaf[i, j] for name, leaf in batch.items()})
        for name in params:
            np.testing.assert_array_equal(alone[name], together[name][i, j])


def test_a_batch_of_models_has_the_bits_of_its_models():
    params = weights()
    batch = jax.tree.map(lambda w: jnp.stack([w, 2 * w, -w]), params)
    together = jax.vmap(lambda p: trajectory(adam(1e-2), p))(batch)
    for slot in range(3):
        own = {name: leaf[slot] for name, leaf in batch.items()}
        alone = trajectory(adam(1e-2), own)
        for name in params:
            np.testing.assert_array_equal(alone[name], together[name][slot])


def test_what_is_not_a_number_stays_so():
    params = weights()
    g = gradients(params, 0)
    g["large"] = g["large"].at[5, 2].set(jnp.nan)
    optimizer = adam(1e-2)
    updates, state = jax.jit(optimizer.update)(g, optimizer.init(params))
    for result in (updates, state.mu, state.nu):
        np.testing.assert_array_equal(np.argwhere(np.isnan(result["large"])), [[5, 2]])


def test_arrays_of_other_types_are_updated_beside():
    params = {**weights(), "half": jnp.ones(5, jnp.bfloat16)}
    got, _ = applied(adam(1e-2), params)
    alone, _ = applied(adam(1e-2), weights())
    assert got["half"].dtype == jnp.bfloat16
    assert (got["half"] != 1).all()
    np.testing.assert_allclose(got["large"], alone["large"], rtol=1e-5, atol=1e-5)


def test_train_takes_it():
    shape = Architecture(width=2, depth=1, grid=3)
    own, optaxs = (
        train("f1", shape, [("glorot", 0)], optimizer=optimizer, steps=3)[0].loss
        for optimizer in (adam(1e-3), optax.adam(1e-3))
    )
    assert own == pytest.approx(optaxs, rel=1e-5)


SCHEDULE = {"name": "cosine_decay", "decay_steps": 100}
LONG, SHORT = Architecture(width=26, depth=2, grid=20), Architecture(width=8, depth=2, grid=5)


@pytest.mark.skipif(kernels.default_backend() != "native", reason="no native kernels")
def test_train_uses_it_for_long_vectors_of_weights():
    def is_own(shape, optimizer, backend="native"):
        model = shape.network(2, 1, init.Glorot(), 0, backend=backend)
        data = shared({"x": np.zeros((4, 2), "f4"), "y": np.zeros((4, 1), "f4")})
        population = Population([model], data, Fit(), method_of(optimizer, Fit(), backend))
        # Optax updates one flat vector per model.
        return isinstance(population.state.weights, KAN)

    assert is_own(LONG, Optimizer())
    assert is_own(LONG, Optimizer("adam", schedule=SCHEDULE, arguments={"b1": 0.8}))
    assert not is_own(SHORT, Optimizer())
    assert not is_own(LONG, Optimizer("adamw"))
    assert not is_own(LONG, Optimizer("adam", arguments={"nesterov": True}))
    assert not is_own(LONG, Optimizer(), backend="dense")


def test_long_vectors_are_trained_as_by_optax_and_alike_in_every_batch():
    members = [("glorot", 0), ("baseline", 1), ("power-law", 2)]
    options = {"steps": 20, "curve": "all"}
    together = train("f1", LONG, members, optimizer="adam", **options)
    optaxs = train("f1", LONG, members, optimizer=optax.adam(1e-3), **options)
    for member, own, other in zip(members, together, optaxs, strict=True):
        assert own.loss == pytest.approx(other.loss, rel=1e-4)
        assert train("f1", LONG, [member], optimizer="adam", **options)[0].loss == own.loss
