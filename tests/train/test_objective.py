"""Losses and residual-based attention against their equations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kandle import init
from kandle.train import Fit, Solve, attend, objective

GAMMA, ETA = 0.999, 0.01


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def residuals(n=20, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=n))


def test_weights_follow_equation_c13():
    r, alpha = residuals(), jnp.linspace(0.5, 2.0, 20)
    for variant in ("text", "published"):
        _, updated = attend(r, alpha, variant, "dense")
        wanted = [GAMMA * a + ETA * abs(x) / np.abs(r).max() for a, x in zip(alpha, r, strict=True)]
        np.testing.assert_allclose(updated, wanted, rtol=1e-14)


def test_text_weights_with_the_old_alpha_as_constants():
    r, alpha = residuals(), jnp.linspace(0.5, 2.0, 20)
    loss = lambda r: attend(r, alpha, "text", "dense")[0]  # noqa: E731
    np.testing.assert_allclose(loss(r), np.mean((alpha * r) ** 2), rtol=1e-14)
    np.testing.assert_allclose(jax.grad(loss)(r), 2 * alpha**2 * r / 20, rtol=1e-13)


def test_published_weights_with_the_new_alpha_and_differentiates_it():
    r, alpha = residuals(), jnp.linspace(0.5, 2.0, 20)
    loss = lambda r: attend(r, alpha, "published", "dense")[0]  # noqa: E731

    def plain(r):
        updated = GAMMA * alpha + ETA * jnp.abs(r) / jnp.max(jnp.abs(r))
        return jnp.mean((updated * r) ** 2)

    np.testing.assert_allclose(loss(r), plain(r), rtol=1e-14)
    np.testing.assert_allclose(jax.grad(loss)(r), jax.grad(plain)(r), rtol=1e-12)
    # The part of the gradient that flows through the weights is there, and is small.
    new = GAMMA * alpha + ETA * jnp.abs(r) / jnp.max(jnp.abs(r))
    assert not np.allclose(jax.grad(loss)(r), 2 * new**2 * r / 20, rtol=1e-3)


def test_off_is_the_plain_mean_square():
    loss, weights = attend(residuals(), None, "off", "dense")
    np.testing.assert_allclose(loss, np.mean(np.square(residuals())), rtol=1e-14)
    assert weights is None


def test_ties_in_the_maximum_share_its_derivative():
    r, alpha = jnp.array([2.0, -2.0, 1.0]), jnp.ones(3)

    def plain(r):
        updated = GAMMA * alpha + ETA * jnp.abs(r) / jnp.max(jnp.abs(r))
        return jnp.mean((updated * r) ** 2)

    got = jax.grad(lambda r: attend(r, alpha, "published", "dense")[0])(r)
    np.testing.assert_allclose(got, jax.grad(plain)(r), rtol=1e-12)


def test_a_solved_equation_is_no_division_by_zero():
    loss, updated = attend(jnp.zeros(4), jnp.ones(4), "published", "dense")
    gradient = jax.grad(lambda r: attend(r, jnp.ones(4), "published", "dense")[0])(jnp.zeros(4))
    assert loss == 0
    np.testing.assert_allclose(updated, GAMMA)
    np.testing.assert_array_equal(gradient, 0)


def test_a_nan_among_residuals_is_seen():
    loss, updated = attend(jnp.array([1.0, jnp.nan]), jnp.ones(2), "published", "dense")
    assert np.isnan(loss)
    assert np.isnan(updated).all()


def test_fit_is_the_mean_squared_error(tiny, small):
    data = {k: jnp.asarray(v) for k, v in tiny.arrays("float64").items()}
    model = small.network(2, 1, init.Glorot(), 0, dtype="float64", backend="dense")
    loss, weights = objective(tiny, "published").loss(model, data, {}, "dense")
    np.testing.assert_allclose(loss, np.mean((model(data["x"]) - data["y"]) ** 2), rtol=1e-13)
    assert weights == {}


def test_objectives_are_equal_when_their_programs_are(tiny, poisson):
    assert objective(tiny, "text") == objective(tiny, "off") == Fit()
    assert objective(poisson, "text") == objective(poisson, "text")
    assert objective(poisson, "text") != objective(poisson, "off")
    assert len({objective(poisson, "text"), objective(poisson, "text")}) == 1


@pytest.mark.parametrize("variant", ["published", "text", "off"])
def test_solve_is_equation_c12(poisson, small, variant):
    """The residual by nested autodiff; conditions share one mean and one maximum."""
    data = {k: jnp.asarray(v) for k, v in poisson.arrays("float64").items()}
    model = small.network(2, 1, init.Glorot(), 0, dtype="float64", backend="dense")
    u = lambda point: model(point)[0]  # noqa: E731
    x = data["collocation"]
    value, hessian = jax.vmap(u)(x), jax.vmap(jax.hessian(u))(x)
    source = (1 - 2 * np.pi**2) * np.prod(np.sin(np.pi * np.asarray(x)), axis=1)
    pde = np.asarray(hessian[:, 0, 0] + hessian[:, 1, 1] + value - source)
    bc = np.asarray(model(data["points"]) - data["values"])[:, 0]
    assert len(pde) == 36
    assert len(bc) == 12

    solve = objective(poisson, variant)
    assert isinstance(solve, Solve)
    start = {k: 1.0 + jnp.arange(len(a)) / 10 for k, a in solve.start(data).items()}
    loss, updated = solve.loss(model, data, start, "dense")

    wanted = 0.0
    for kind, r in (("pde", pde), ("bc", bc)):
        if variant == "off":
            wanted += np.mean(r**2)
            continue
        new = GAMMA * start[kind] + ETA * np.abs(r) / np.abs(r).max()
        np.testing.assert_allclose(updated[kind], new, rtol=1e-9)
        wanted += np.mean(((new if variant == "published" else start[kind]) * r) ** 2)
    np.testing.assert_allclose(loss, wanted, rtol=1e-9)
    if variant == "off":
        assert solve.start(data) == updated == {}
