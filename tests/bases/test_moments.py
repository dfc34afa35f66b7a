"""Moments: closed-form values, SciPy's adaptive quadrature, Monte Carlo, precision, caching."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.interpolate import BSpline as ScipySpline
from scipy.stats import norm

from kandle import UserError
from kandle.bases import (
    BSpline,
    Knots,
    Normal,
    Sample,
    Uniform,
    moments,
    residual_moment,
)
from kandle.nn import RESIDUALS

UNIFORM, NORMAL = Uniform(-1.0, 1.0), Normal(0.2, 0.6)


def silu(x, order):
    s = 1 / (1 + np.exp(-x))
    return x * s if order == 0 else s * (1 + x * (1 - s))


def density(inputs, x):
    if isinstance(inputs, Normal):
        return norm.pdf(x, inputs.mean, inputs.std)
    return (inputs.low <= x) * (x <= inputs.high) / (inputs.high - inputs.low)


def by_quad(f, inputs, edges):
    """E[f] by adaptive quadrature, piece by piece."""
    lo, hi = (
        (inputs.low, inputs.high)
        if isinstance(inputs, Uniform)
        else (inputs.mean - 12 * inputs.std, inputs.mean + 12 * inputs.std)
    )
    edges = [lo, *(e for e in edges if lo < e < hi), hi]
    return sum(
        quad(lambda x: f(x) * density(inputs, x), a, b, epsabs=1e-13, epsrel=1e-12)[0]
        for a, b in itertools.pairwise(edges)
    )


@pytest.mark.parametrize(
    "inputs", [UNIFORM, Uniform(-0.3, 4.0), NORMAL, Normal(0.9, 0.01)], ids=str
)
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("uniform_knots", [True, False])
def test_basis_moments_against_quad(inputs, order, uniform_knots):
    degree = 3
    t = (
        BSpline(3, degree).knots
        if uniform_knots
        else np.array([-1.6, -1.5, -1.1, -0.9, -0.4, 0.7, 1.0, 1.3, 1.4])
    )
    basis = Knots.from_full(t, degree)
    second, first = basis.moments(inputs, order), basis.means(inputs, order)
    assert second.shape == first.shape == (len(t) - degree - 1,)
    for m in range(len(second)):
        element = ScipySpline.basis_element(t[m : m + degree + 2], extrapolate=False).derivative(
            order
        )

        def f(x, element=element):
            return np.nan_to_num(element(x))

        edges = [*np.unique(t), *(inputs.mean + inputs.std * np.arange(-11, 12))]
        edges = np.unique(edges)
        assert second[m] == pytest.approx(
            by_quad(lambda x, f=f: f(x) ** 2, inputs, edges), rel=1e-11, abs=1e-13
        )
        assert first[m] == pytest.approx(by_quad(f, inputs, edges), rel=1e-11, abs=1e-13)


@pytest.mark.parametrize(
    "inputs", [UNIFORM, Uniform(0.0, 9.0), NORMAL, Normal(-3.0, 20.0)], ids=str
)
@pytest.mark.parametrize("order", [0, 1])
def test_residual_moments_against_quad(inputs, order):
    expected = by_quad(lambda x: silu(x, order) ** 2, inputs, np.linspace(-12, 12, 25))
    assert residual_moment(jax.nn.silu, inputs, order) == pytest.approx(expected, rel=1e-12)


def test_known_values():
    # A linear hat of unit step: ∫ B² = 2h/3 and ∫ B'² = 2/h inside, half of each at the ends.
    G = 4
    h = 2 / G
    second, slope = (BSpline(G, 1).moments(UNIFORM, order) for order in (0, 1))
    whole = np.array([0.5, 1, 1, 1, 0.5]) / 2
    np.testing.assert_allclose(second, whole * 2 * h / 3, rtol=1e-14)
    np.testing.assert_allclose(slope, whole * 2 / h, rtol=1e-14)
    assert residual_moment(jnp.sin, UNIFORM) == pytest.approx(0.5 - np.sin(2) / 4, rel=1e-14)
    assert residual_moment(jnp.exp, Normal(0, 0.5), 1) == pytest.approx(np.exp(0.5), rel=1e-13)


def test_a_kinked_residual_is_resolved():
    inputs = Uniform(-0.3, 1.0)
    assert residual_moment(jax.nn.relu, inputs) == pytest.approx(1 / 3.9, rel=1e-13)
    assert residual_moment(jax.nn.relu, inputs, 1) == pytest.approx(1 / 1.3, rel=1e-13)


@pytest.mark.parametrize("inputs", [UNIFORM, NORMAL], ids=str)
def test_layer_moments_against_monte_carlo(inputs):
    basis = BSpline(5)
    n = 200_000
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, n) if inputs is UNIFORM else rng.normal(inputs.mean, inputs.std, n)
    exact, sampled = (moments(basis, jax.nn.silu, i) for i in (inputs, Sample(x)))
    for name in ("mu_B0", "mu_B1", "mu_R0", "mu_R1", "std"):
        assert getattr(sampled, name) == pytest.approx(getattr(exact, name), rel=0.015), name
    assert exact.terms == sampled.terms == 9


def test_sample_is_the_mean_over_its_values():
    x = np.random.default_rng(3).normal(size=(5000, 2))
    inputs = Sample(x)
    assert residual_moment(jax.nn.silu, inputs, 1) == pytest.approx((silu(x, 1) ** 2).mean())
    assert inputs.std == pytest.approx(x.std())
    assert inputs.mean == pytest.approx(x.mean())
    assert inputs == Sample(x.ravel())
    assert hash(inputs) == hash(Sample(x.ravel()))
    assert inputs != Sample(x[1:])


def test_precision_does_not_depend_on_jax_settings():
    def R(x):
        return jnp.tanh(1.5 * x)

    single = residual_moment(R, UNIFORM, 1)
    assert jnp.ones(1).dtype == jnp.float32
    with jax.enable_x64(True):
        double = residual_moment(lambda x: R(x), UNIFORM, 1)
    assert single == pytest.approx(double, rel=1e-14)
    expected = by_quad(lambda x: (1.5 / np.cosh(1.5 * x) ** 2) ** 2, UNIFORM, [0])
    assert single == pytest.approx(expected, rel=1e-13)


def test_works_while_tracing():
    def traced(x):
        return x * residual_moment(lambda x: jnp.sin(2 * x), UNIFORM)

    expected = 0.5 - np.sin(4) / 8
    assert jax.jit(traced)(1.0) == pytest.approx(expected)
    np.testing.assert_allclose(jax.vmap(traced)(jnp.ones(3)), expected, rtol=1e-6)


def test_computed_once():
    calls = 0

    def R(x):
        nonlocal calls
        calls += 1
        return jnp.cos(x)

    for grid in (3, 4, 3):
        moments(BSpline(grid), R, UNIFORM)
    assert calls == 2  # one trace for R, one for R'


def test_an_unhashable_residual_works():
    class Scaled:
        __hash__ = None  # pyright: ignore

        def __call__(self, x):
            return 2.0 * x

    m = moments(BSpline(3), Scaled(), UNIFORM)
    assert (m.mu_R0, m.mu_R1) == pytest.approx((4 / 3, 4.0))


def test_without_a_residual():
    m = moments(BSpline(5), None, UNIFORM)
    assert m.mu_R0 is m.mu_R1 is None
    assert m.terms == m.n_basis == 8
    assert m.variance == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Uniform(1.0, 1.0), "'low' and 'high' of Uniform must be"),
        (lambda: Uniform(0.0, np.inf), "'low' and 'high' of Uniform must be"),
        (lambda: Normal(np.nan, 1.0), "'mean' of Normal must be"),
        (lambda: Normal(0.0, 0.0), "'std' of Normal must be"),
        (lambda: Sample(np.array([])), "'values' of Sample must be"),
        (lambda: Sample(np.array([1.0, np.nan])), "'values' of Sample must be"),
        (lambda: Sample(np.array([1.0, 1.0])), "'values' of Sample must be"),
        (lambda: residual_moment(3.0, UNIFORM), "'residual' must be a function"),  # pyright: ignore
        (lambda: residual_moment(lambda x: jnp.ones(2) * x, UNIFORM), "'residual' must be"),
        (lambda: residual_moment(jnp.log, UNIFORM), "'residual' must be finite"),
    ],
)
def test_refuses(make, message):
    with pytest.raises(UserError, match=message):
        make()


@pytest.mark.parametrize("name", RESIDUALS)
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("inputs", [UNIFORM, NORMAL], ids=str)
def test_closed_forms_are_those_of_jax(name, order, inputs):
    function = RESIDUALS[name]
    by_jax = residual_moment(lambda x: function(x), inputs, order)  # a function without a name
    assert residual_moment(name, inputs, order) == pytest.approx(by_jax, rel=1e-13)
    assert residual_moment(function, inputs, order) == residual_moment(name, inputs, order)
