"""The tests check the shapes in annotations, of functions, methods and dataclasses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import TypeCheckError

from kandle import KAN
from kandle.bases import BSpline
from kandle.kernels import layer
from kandle.store import RunSpec
from kandle.tabular._rows import Block

BASIS = BSpline(grid=2, degree=1)


def layer_of(r_shape):
    weights = jnp.ones(r_shape), jnp.ones((4, 2)), jnp.ones((4, 2, BASIS.n_basis)), jnp.ones(4)
    return layer(jnp.ones((3, 2)), *weights, basis=BASIS, residual=jax.nn.silu)


def in_a_network(x):
    return KAN([2, 1], BASIS, key=jax.random.key(0)).layers[0](x)


def block_of(rows):
    return Block(np.ones((3, 2)), np.ones((3, 1)), np.ones(rows))


@pytest.mark.parametrize(
    ("call", "right", "wrong"),
    [
        (layer_of, (4, 2), (4, 3)),
        (in_a_network, jnp.ones((3, 2)), jnp.ones((3, 2), bool)),
        (block_of, 3, 4),
    ],
)
def test_a_wrong_shape_or_type_is_an_error(call, right, wrong):
    call(right)
    try:  # `pytest.raises` leaves the annotations unchecked
        call(wrong)
    except TypeCheckError:
        return
    pytest.fail("accepted")


def test_what_no_array_concerns_is_not_wrapped():
    assert hasattr(Block.__init__, "__wrapped__")
    assert not hasattr(RunSpec.__init__, "__wrapped__")
