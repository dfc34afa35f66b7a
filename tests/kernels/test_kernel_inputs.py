"""Inputs at the edge: nothing to add, numbers of NumPy, numbers that are not real."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kandle
from kandle import UserError, bases, kernels


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4), (2, 0, 5)])
def test_the_total_of_nothing_is_zero(shape):
    for backend in kernels.BACKENDS:
        found = kernels.total(jnp.ones(shape), backend)
        np.testing.assert_array_equal(found, np.ones(shape).sum(-1))


def test_counts_of_a_jet_may_be_numbers_of_numpy():
    layer = kandle.KAN([2, 3], grid=3, key=jax.random.key(0)).layers[0]
    x = jax.random.uniform(jax.random.key(1), (2, 5, 2))
    expected = layer.jet(x, first=1, second=0)
    found = layer.jet(x, first=np.int64(1), second=np.int32(0))
    np.testing.assert_array_equal(found, expected)
    for wrong in (True, 1.0, "1"):
        with pytest.raises(UserError, match="'first' of jet must be a whole number"):
            layer.jet(x, first=wrong, second=0)


def test_complex_inputs_are_refused():
    with pytest.raises(UserError, match="must be real"):
        kernels.total(np.ones(3) * 1j)
    model = kandle.KAN([2, 3, 1], grid=3, key=jax.random.key(0))
    with pytest.raises(UserError, match="must be real"):
        model(np.ones((4, 2)) * 1j)


def test_truth_values_are_no_dimensions():
    model = kandle.KAN([2, 3, 1], grid=3, key=jax.random.key(0))
    with pytest.raises(UserError, match="'first' of derivatives must be distinct integers"):
        model.derivatives(jnp.ones((4, 2)), first=(True,))
    with pytest.raises(UserError, match="'further' of derivatives must be a sequence of tuples"):
        model.derivatives(jnp.ones((4, 2)), further=[(0, True)])
    for wrong in (0, None, (0.0,), ("0",)):
        with pytest.raises(UserError, match="'first' of derivatives must be distinct integers"):
            model.derivatives(jnp.ones((4, 2)), first=wrong)


def test_dimensions_may_be_numbers_of_numpy():
    model = kandle.KAN([2, 1], grid=3, key=jax.random.key(0))
    x = jax.random.uniform(jax.random.key(1), (3, 2))
    given = model.derivatives(x, first=np.array([1, 0]), second=(np.int32(1),))
    expected = model.derivatives(x, first=(1, 0), second=(1,))
    for index in ((0,), (1,), (1, 1)):
        np.testing.assert_array_equal(given[index], expected[index])


@pytest.mark.parametrize("backend", ["dense", None])
@pytest.mark.parametrize("shape", [(0, 2), (3, 0, 2)])
def test_no_rows_have_no_values(backend, shape):
    model = kandle.KAN([2, 3, 1], grid=3, key=jax.random.key(0), backend=backend)
    x = jnp.ones(shape)
    assert model(x).shape == (*shape[:-1], 1)
    assert model.derivatives(x, first=(0,))[0].shape == (*shape[:-1], 1)


@pytest.mark.parametrize("basis", [bases.BSpline(3, 2), bases.Chebyshev(3), bases.RBF(3)])
def test_points_are_real_and_orders_have_a_bound(basis):
    for xp in (np, jnp):
        with pytest.raises(UserError, match="'x' of a basis must be real"):
            basis.values(xp.ones(2) * 1j, xp=xp)
    for order in (2**31, -1, True, 1.0):
        with pytest.raises(UserError, match="'order' must be an integer from 0 to 100"):
            basis.values(np.ones(2), order)
