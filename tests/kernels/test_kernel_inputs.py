"""Inputs at the edge: nothing to add, numbers of NumPy, numbers that are not real."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kandle
from kandle import kernels
from kandle._errors import UserError


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
