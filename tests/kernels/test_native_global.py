"""The native kernels of bases without local support, against `reference` and NumPy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kandle import bases, kernels

pytestmark = pytest.mark.skipif(
    kernels.default_backend() != "native", reason="the native backend is not available here"
)

BASES = [
    bases.Chebyshev(7),
    bases.Chebyshev(4, domain=(-2.0, 1.0), squash="clip", constant=True),
    bases.Legendre(9, constant=True),
    bases.Fourier(3, frequency=2.5),
    bases.RBF(6),
    bases.RBF(3, domain=(0.0, 3.0), width=0.4),
]
every_basis = pytest.mark.parametrize("basis", BASES, ids=lambda basis: basis.name)


def example(basis, n, n_in, n_out, dtype=np.float64, components=1, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.4, 1.4, (components, n, n_in))
    shapes = (n_out, n_in), (n_out, n_in), (n_out, n_in, basis.n_basis), (n_out,)
    weights = [rng.normal(size=shape) for shape in shapes]
    return [a.astype(dtype) for a in (x, *weights)], rng.normal(size=(components, n, n_out))


@functools.partial(
    jax.jit, static_argnames=("backend", "basis", "first", "second", "residual", "dtype")
)
def value_and_gradients(arguments, g, *, dtype="float64", backend, **options):
    def jet(x, r, c, b, bias):
        r = r if options["residual"] else None
        return kernels.jet(x, r, c, b, bias, backend=backend, **options)

    y, pullback = jax.vjp(jet, *(jnp.asarray(a, dtype) for a in arguments))
    return y, pullback(jnp.asarray(g, dtype))


def assert_close(got, wanted, digits):
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        scale = float(jnp.max(jnp.abs(b))) if b.size else 0.0
        np.testing.assert_allclose(a, b, rtol=0, atol=10.0**-digits * max(scale, 1e-3))


# More samples than one block, none of the extents a multiple of a vector, and one of everything.
@every_basis
@pytest.mark.parametrize(("n", "n_in", "n_out"), [(211, 3, 11), (1, 1, 1)])
def test_values_and_gradients_are_those_of_the_reference(basis, n, n_in, n_out):
    arguments, g = example(basis, n, n_in, n_out)
    options = {"basis": basis, "first": 0, "second": 0, "residual": jax.nn.silu}
    with jax.enable_x64(True):
        wanted = value_and_gradients(arguments, g, backend="reference", **options)
        double = value_and_gradients(arguments, g, backend="native", **options)
        assert_close(double, wanted, digits=12)
        single = value_and_gradients(arguments, g, dtype="float32", backend="native", **options)
        assert {a.dtype.name for a in jax.tree.leaves(single)} == {"float32"}
        assert_close(single, wanted, digits=5)


@every_basis
def test_jets_without_a_residual_are_those_of_the_reference(basis):
    options = {"basis": basis, "first": 2, "second": 2, "residual": None}
    with jax.enable_x64(True):
        arguments, g = example(basis, 37, 2, 5, components=5)
        wanted = value_and_gradients(arguments, g, backend="reference", **options)
        got = value_and_gradients(arguments, g, backend="native", **options)
        assert_close(got, wanted, digits=11)


@pytest.mark.parametrize("basis", [BASES[0], BASES[4]], ids=lambda basis: basis.name)
def test_derivatives_of_gradients_are_those_of_the_reference(basis):
    """The gradient of a squared derivative, as a PINN nests them, and a third derivative."""

    @functools.partial(jax.jit, static_argnames="backend")
    def nested(x, weights, backend):
        layer = functools.partial(kernels.layer, basis=basis, residual=jax.nn.silu, backend=backend)

        def slope(x, weights):
            return jax.grad(lambda x: jnp.sum(layer(x, *weights) ** 2))(x)

        loss = jax.grad(lambda weights: jnp.sum(slope(x, weights) ** 2))(weights)
        along = (jnp.ones_like(x),)
        third = jax.jvp(lambda x: jax.jvp(lambda x: slope(x, weights), (x,), along)[1], (x,), along)
        return loss, third

    with jax.enable_x64(True):
        (x, *weights), _ = example(basis, 5, 2, 3)
        assert_close(nested(x[0], weights, "native"), nested(x[0], weights, "reference"), digits=11)


@every_basis
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_rows_are_nan_and_no_others(basis, bad):
    arguments, g = example(basis, 20, 2, 3, np.float32)
    arguments[0][0, 4, 1] = bad
    options = {"basis": basis, "first": 0, "second": 0, "residual": None}
    call = functools.partial(value_and_gradients, dtype="float32", backend="native", **options)
    y, (dx, _, dc, db, _) = call(arguments, g)
    rows = np.isnan(y[0]).any(-1)
    assert np.isnan(y[0, 4]).all()
    assert rows.sum() == 1
    assert np.isnan(dx[0, 4, 1])
    assert np.isnan(dx).sum() == 1
    assert np.isnan(db[:, 1]).all()
    assert np.isnan(dc[:, 1]).all()
    assert not np.isnan(db[:, 0]).any()


@every_basis
def test_models_in_a_batch_have_the_bits_of_single_ones(basis):
    options = {"basis": basis, "first": 0, "second": 0, "residual": jax.nn.silu}
    call = functools.partial(value_and_gradients, dtype="float32", backend="native", **options)
    models = [example(basis, 210, 2, 9, np.float32, seed=seed) for seed in range(3)]
    single = [jax.tree.leaves(call(*model)) for model in models]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *models)
    batch = jax.tree.leaves(jax.jit(jax.vmap(call))(*stacked))
    for p, own in enumerate(single):
        for a, b in zip(batch, own, strict=True):
            np.testing.assert_array_equal(a[p], b)


def test_a_sample_has_the_same_bits_wherever_it_stands():
    basis = BASES[0]
    (x, *weights), _ = example(basis, 400, 2, 5, np.float32)
    options = {"basis": basis, "residual": jax.nn.silu, "backend": "native"}
    whole = kernels.layer(x[0], *weights, **options)
    np.testing.assert_array_equal(kernels.layer(x[0, 5:14], *weights, **options), whole[5:14])


@pytest.mark.parametrize(("dtype", "digits"), [("float32", 6), ("float64", 14)])
def test_waves_at_large_angles(dtype, digits):
    """Angles beyond those that are reduced in vectors, among small ones."""
    x = np.array([[0.3], [9e3], [-2e4], [3e6], [1e-4], [-7.9e3]], dtype)
    one, b = np.ones((2, 1)), np.eye(2)[:, None]
    with jax.enable_x64(True):
        y = kernels.layer(
            x,
            None,
            one.astype(dtype),
            b.astype(dtype),
            None,
            basis=bases.Fourier(1),
            residual=None,
            backend="native",
        )
    exact = np.concatenate([np.cos(x.astype(np.float64)), np.sin(x.astype(np.float64))], axis=1)
    np.testing.assert_allclose(y, exact, rtol=0, atol=10.0**-digits)


def test_far_from_all_centers_gaussians_and_their_derivatives_are_zero():
    basis = bases.RBF(4, width=0.01)
    arguments, g = example(basis, 3, 1, 2, np.float32, components=3)
    arguments[0][0] = np.array([[1e4], [1e18], [-1e30]])
    options = {"basis": basis, "first": 1, "second": 1, "residual": None}
    y, (dx, *_) = value_and_gradients(arguments, g, dtype="float32", backend="native", **options)
    np.testing.assert_array_equal(y[1:], 0.0)
    np.testing.assert_array_equal(y[0], np.broadcast_to(arguments[4], (3, 2)))
    np.testing.assert_array_equal(dx, 0.0)


def test_more_functions_than_the_kernels_accept_are_left_to_dense():
    assert kernels.default_backend(bases.Chebyshev(1024)) == "native"
    assert kernels.default_backend(bases.Chebyshev(1024, constant=True)) == "dense"
    assert kernels.default_backend(bases.Fourier(513)) == "dense"
