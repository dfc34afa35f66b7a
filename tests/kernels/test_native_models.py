"""A batch of models is its models one by one, however the axes lie and whatever they share."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kandle import kernels
from kandle.bases import BSpline

pytestmark = pytest.mark.skipif(
    kernels.default_backend() != "native", reason="the native backend is not available here"
)

BASIS = BSpline(grid=5)
P, N, N_IN = 3, 70, 2


def layer(*arguments):
    options = {"basis": BASIS, "residual": jax.nn.silu, "backend": "native"}
    return kernels.layer(*arguments, **options)


@jax.jit
def value_and_gradients(*arguments):
    gradient = jax.grad(lambda *a: jnp.sum(layer(*a) ** 2), argnums=range(5))
    return layer(*arguments), *gradient(*arguments)


def example(n_out, models=(P,)):
    rng = np.random.default_rng(n_out)
    shapes = [(N, N_IN), *[(n_out, N_IN)] * 2, (n_out, N_IN, BASIS.n_basis), (n_out,)]
    return [jnp.asarray(rng.uniform(-1.2, 1.2, (*models, *s)), jnp.float32) for s in shapes]


@pytest.mark.parametrize("n_out", [1, 8, 11])
def test_every_choice_of_shared_arguments_equals_single_models_to_the_bit(n_out):
    arguments = example(n_out)
    for batched in itertools.product([True, False], repeat=3):
        x_batched, edges_batched, b_batched = batched
        if not any(batched):
            continue
        flags = (x_batched, edges_batched, edges_batched, b_batched, edges_batched)
        axes = tuple(0 if flag else None for flag in flags)
        chosen = [a if flag else a[0] for a, flag in zip(arguments, flags, strict=True)]
        together = jax.vmap(value_and_gradients, axes)(*chosen)
        for p in range(P):
            alone = value_and_gradients(
                *(a[p] if flag else a for a, flag in zip(chosen, flags, strict=True))
            )
            for got, wanted in zip(together, alone, strict=True):
                np.testing.assert_array_equal(got[p], wanted)


@pytest.mark.parametrize("n_out", [1, 8])
def test_gradient_of_what_models_share_is_the_sum_over_models(n_out):
    x, *weights = example(n_out)

    def loss(x, b):
        y = jax.vmap(layer, (None, 0, 0, None, 0))(x, *weights[:2], b, weights[3])
        return jnp.sum(y**2)

    def looped(x, b):
        r, c, _, bias = weights
        return sum(jnp.sum(layer(x, r[p], c[p], b, bias[p]) ** 2) for p in range(P))

    arguments = x[0], weights[2][0]
    got, wanted = (jax.grad(f, argnums=(0, 1))(*arguments) for f in (loss, looped))
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-4)


def test_nested_vmap_is_a_double_loop():
    """Inner models share x, outer ones do not."""
    x, *weights = example(5, models=(2, P))
    x = x[:, 0]
    inner = jax.vmap(value_and_gradients, (None, 0, 0, 0, 0))
    together = jax.vmap(inner)(x, *weights)
    for i, j in itertools.product(range(2), range(P)):
        alone = value_and_gradients(x[i], *(w[i, j] for w in weights))
        for got, wanted in zip(together, alone, strict=True):
            np.testing.assert_array_equal(got[i, j], wanted)


def test_axes_in_and_out_may_lie_anywhere():
    arguments = example(5)
    wanted = jax.vmap(layer)(*arguments)
    axes = (1, 2, 1, 3, 1)
    moved = [jnp.moveaxis(a, 0, axis) for a, axis in zip(arguments, axes, strict=True)]
    got = jax.vmap(layer, axes, out_axes=2)(*moved)
    np.testing.assert_array_equal(jnp.moveaxis(got, 2, 0), wanted)


@pytest.mark.parametrize(("first", "second"), [(1, 0), (2, 1)])
@pytest.mark.parametrize("n_out", [1, 8])
def test_jets_of_a_batch_equal_single_models(n_out, first, second):
    _, *weights = example(n_out)
    components = 1 + first + second
    jets = jnp.asarray(np.random.default_rng(0).normal(size=(components, N, N_IN)), jnp.float32)
    options = {"first": first, "second": second, "basis": BASIS, "residual": jax.nn.silu}
    f = functools.partial(kernels.jet, **options, backend="native")

    @jax.jit
    def both(*arguments):
        return f(*arguments), jax.grad(lambda *a: jnp.sum(f(*a) ** 2), argnums=(0, 3))(*arguments)

    together = jax.vmap(both, (None, 0, 0, 0, 0))(jets, *weights)
    for p in range(P):
        alone = both(jets, *(w[p] for w in weights))
        for got, wanted in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(got[p], wanted, rtol=1e-4, atol=1e-4)


def test_no_models_at_all_give_empty_results():
    arguments = [a[:0] for a in example(4)]
    y, *gradients = jax.vmap(value_and_gradients)(*arguments)
    assert y.shape == (0, N, 4)
    assert [g.shape for g in gradients] == [a.shape for a in arguments]
    shared = jax.vmap(layer, (None, 0, 0, 0, 0))(example(4)[0][0], *arguments[1:])
    assert shared.shape == (0, N, 4)


@pytest.mark.parametrize("n_out", [1, 4, 20])
@pytest.mark.parametrize("models", [1, 2, 9])
def test_gradients_summed_in_chunks_of_samples_are_those_of_all_samples(models, n_out):
    """Layers with short rows and many samples are cut into chunks of samples."""
    rng = np.random.default_rng(models)
    rows = 1501  # chunks of different length
    shapes = [(n_out, N_IN), (n_out, N_IN), (n_out, N_IN, BASIS.n_basis), (n_out,)]
    weights = [rng.uniform(-1, 1, (models, *shape)).astype(np.float32) for shape in shapes]
    x = rng.uniform(-1.2, 1.2, (rows, N_IN)).astype(np.float32)
    g = rng.normal(size=(rows, n_out)).astype(np.float32)

    def gradients(backend, x, *weights):
        options = {"basis": BASIS, "residual": jax.nn.silu, "backend": backend}
        f = functools.partial(kernels.layer, **options)
        return jax.vjp(f, x, *weights)[1](g.astype(x.dtype))

    run = jax.jit(jax.vmap(functools.partial(gradients, "native"), (None, 0, 0, 0, 0)))
    got = run(x, *weights)
    with jax.enable_x64(True):
        exact = jax.jit(jax.vmap(functools.partial(gradients, "dense"), (None, 0, 0, 0, 0)))
        wanted = exact(*(np.asarray(a, np.float64) for a in (x, *weights)))
    for found, reference in zip(got, wanted, strict=True):
        scale = np.abs(reference).max()
        np.testing.assert_allclose(found, reference, rtol=0, atol=3e-5 * scale)
