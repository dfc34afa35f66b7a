"""Derivatives of any order against nested forward-mode autodiff, with and without a transform."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kandle import KAN, UserError
from kandle.nn import Derivatives, field_derivatives

SECOND = [(0,), (1, 1), (0, 1), (1, 2)]
HIGHER = [(0,), (0, 1), (0, 0, 1), (2, 2, 2), (0, 1, 2), (1, 1, 1, 1)]


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def network(**options):
    options = {"grid": 4, "degree": 5, "key": jax.random.key(0), "dtype": jnp.float64} | options
    return KAN([3, 4, 2], **options)


def points():
    return jax.random.uniform(jax.random.key(1), (5, 3), jnp.float64, -1, 1)


def nested(u, index):
    """∂^α u at the points, one jvp per order."""
    for i in index:
        direction = jnp.eye(3)[i]
        u = functools.partial(lambda u, e, z: jax.jvp(u, (z,), (e,))[1], u, direction)
    return jax.jit(jax.vmap(u))(points())


def transform(x, v):
    return jnp.sin(x[..., :1] * v) + x[..., 1:2] ** 2 * (1 - x[..., 2:]) * v * v[..., ::-1]


@pytest.mark.parametrize("backend", ["native", "dense"])
@pytest.mark.parametrize("wanted", [SECOND, HIGHER], ids=["second", "higher"])
@pytest.mark.parametrize("hard", [False, True], ids=["plain", "transformed"])
def test_all_orders_agree_with_nested_autodiff(backend, wanted, hard):
    model = network(backend=backend)
    g = transform if hard else None
    d = jax.jit(lambda model: field_derivatives(model, points(), wanted, g))(model)
    u = (lambda z: transform(z, model(z))) if hard else model
    np.testing.assert_allclose(d.value, jax.vmap(u)(points()), rtol=1e-12)
    for index in wanted:
        exact = nested(u, index)
        np.testing.assert_allclose(d[index], exact, atol=1e-11 * np.abs(exact).max())


def test_weights_are_differentiated_through_higher_derivatives():
    def by_series(model):
        d = model.derivatives(points(), (), (), [(1, 1, 1), (0, 2)])
        return jnp.mean((d[1, 1, 1] + d[0, 2] * d.value) ** 2)

    def by_autodiff(model):
        return jnp.mean((nested(model, (1, 1, 1)) + nested(model, (0, 2)) * model(points())) ** 2)

    model = network(backend="dense")
    got, exact = (jax.tree.leaves(jax.jit(jax.grad(f))(model)) for f in (by_series, by_autodiff))
    for a, b in zip(got, exact, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10 * np.abs(b).max())


def test_third_derivatives_of_cubic_splines_are_defined_and_fourth_are_refused():
    model = network(degree=3, backend="dense")
    exact = nested(model, (1, 1, 1))
    d = model.derivatives(points(), (), (), [(1, 1, 1)])
    np.testing.assert_allclose(d[1, 1, 1], exact, rtol=1e-10)
    with pytest.raises(UserError, match=r"order 4 .*degree=3 .*Use degree=5"):
        model.derivatives(points(), (), (), [(1, 1, 1, 1)])


def test_reading_derivatives():
    value, along = jnp.arange(6.0).reshape(3, 2), jnp.ones((3, 2))
    d = Derivatives(value, {0: along}, {1: 2 * along}, {(1, 0): 3 * along}, inputs=("t", "x"))
    assert d["t"] is d[0] is d.first[0] is d.first["t"]
    assert d["x", "x"] is d.second[1]
    assert d["x", "t"] is d["t", "x"] is d[0, 1]
    assert set(d.first) == {0}
    assert set(d.second) == {1}
    u, v = d.outputs
    np.testing.assert_array_equal(v.value, value[:, 1])
    np.testing.assert_array_equal(u["t", "x"], [3, 3, 3])
    scaled = d.rescaled((2.0, 10.0))
    np.testing.assert_array_equal(scaled["t"], 2 * along)
    np.testing.assert_array_equal(scaled["x", "x"], 200 * along)
    np.testing.assert_array_equal(scaled["t", "x"], 60 * along)
    assert jax.tree.structure(d) == jax.tree.structure(jax.jit(lambda d: d)(d))
    with pytest.raises(UserError, match=r"Unknown input of a derivative 'y'. Known: t, x"):
        d["y"]
    with pytest.raises(UserError, match=r"reads d\[x\].* input 1 that is not declared"):
        d["x"]
    with pytest.raises(UserError, match="its index or its name"):
        d[1.5]


def test_multi_indices_are_checked():
    with pytest.raises(UserError, match="'further' of derivatives must be"):
        network().derivatives(points(), (), (), [(0, 3)])
    with pytest.raises(UserError, match="'further' of derivatives must be"):
        network().derivatives(points(), (), (), [1])
