"""What each scheme's σ_r and σ_b must be, from the equations and by Monte Carlo."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.interpolate import BSpline as ScipySpline

from kandle.bases import BSpline
from kandle.init import Baseline, Glorot, LeCun, Moments, Normal, PowerLaw, Sample, Uniform
from kandle.init import _draw as draw_module
from kandle.init._draw import draw_scaled

N_IN, N_OUT, G, K = 3, 7, 4, 3


@pytest.fixture(scope="module")
def mu():
    """Eqs. 3 and 6 for U(-1, 1), SiLU and cubics, by SciPy alone."""
    h = 2 / G
    t = -1 + h * np.arange(-K, G + K + 1)
    edges = t[K : G + K + 1]
    B = [ScipySpline.basis_element(t[m : m + K + 2], extrapolate=False) for m in range(G + K)]

    def mean_square(f):
        pieces = itertools.pairwise(edges)
        return sum(quad(lambda x: np.nan_to_num(f(x)) ** 2, a, b)[0] for a, b in pieces) / 2

    def silu(x):
        return x / (1 + np.exp(-x))

    def silu_slope(x):
        return (1 + np.exp(-x) * (1 + x)) / (1 + np.exp(-x)) ** 2

    return {
        "R0": mean_square(silu),
        "R1": mean_square(silu_slope),
        "B0": np.mean([mean_square(b) for b in B]),
        "B1": np.mean([mean_square(b.derivative()) for b in B]),
    }


def test_baseline():
    assert Baseline().scales(N_IN, N_OUT, G) == (pytest.approx(np.sqrt(2 / (N_IN + N_OUT))), 0.1)
    r, _, b = Baseline().draw(jax.random.key(0), 40, 60, BSpline(G))
    end = np.sqrt(6 / 100)
    assert 0.99 * end < np.abs(r).max() <= end  # uniform: fills its interval and stays in it
    assert np.abs(b).max() > 0.3  # normal: has tails


def test_lecun(mu):
    sigma_r, sigma_b = LeCun().scales(N_IN, N_OUT, G)
    assert sigma_r == pytest.approx(np.sqrt((1 / 3) / (N_IN * (G + K + 1) * mu["R0"])), rel=1e-9)
    assert sigma_b == pytest.approx(np.sqrt((1 / 3) / (N_IN * (G + K + 1) * mu["B0"])), rel=1e-9)
    doubled = LeCun(gain=2.0).scales(N_IN, N_OUT, G)
    assert doubled == pytest.approx((2 * sigma_r, 2 * sigma_b))


def test_lecun_normalized(mu):
    sigma_r, sigma_b = LeCun(normalized=True).scales(N_IN, N_OUT, G)
    assert sigma_r == pytest.approx(np.sqrt((1 / 3) / (N_IN * (G + K + 1) * mu["R0"])), rel=1e-9)
    assert sigma_b == pytest.approx(np.sqrt((1 / 3) / (N_IN * (G + K + 1))), rel=1e-12)


def test_lecun_half(mu):
    sigma_r, sigma_b = LeCun(split="half").scales(N_IN, N_OUT, G)
    residual = N_IN * sigma_r**2 * mu["R0"]
    basis = N_IN * (G + K) * sigma_b**2 * mu["B0"]
    assert residual == pytest.approx(1 / 6, rel=1e-9)
    assert basis == pytest.approx(1 / 6, rel=1e-9)
    alone = LeCun(split="half").scales(N_IN, N_OUT, G, residual=None)
    assert alone == LeCun().scales(N_IN, N_OUT, G, residual=None)


def test_glorot(mu):
    sigma_r, sigma_b = Glorot(gain=1.0).scales(N_IN, N_OUT, G)
    share = 2 / (G + K + 1)
    assert sigma_r == pytest.approx(np.sqrt(share / (N_IN * mu["R0"] + N_OUT * mu["R1"])), rel=1e-9)
    assert sigma_b == pytest.approx(np.sqrt(share / (N_IN * mu["B0"] + N_OUT * mu["B1"])), rel=1e-9)
    by_inputs = Glorot().scales(N_IN, N_OUT, G)
    assert by_inputs == pytest.approx((sigma_r / np.sqrt(3), sigma_b / np.sqrt(3)), rel=1e-12)


def test_glorot_gain_follows_the_inputs():
    inputs = Normal(0.0, 0.4)
    letter = Glorot(gain=1.0).scales(N_IN, N_OUT, G, inputs=inputs)
    assert Glorot().scales(N_IN, N_OUT, G, inputs=inputs) == pytest.approx(
        tuple(0.4 * sigma for sigma in letter)
    )


@pytest.mark.parametrize(("n_in", "n_out"), [(1, 1), (5, 12), (64, 3)])
def test_one_basis_function_gives_classical_glorot(n_in, n_out):
    """Appendix B: μ = 1, no residual, one term."""
    one = Moments(n_basis=1, mu_B0=1.0, mu_B1=1.0, mu_R0=None, mu_R1=None, std=1.0)
    sigma_r, sigma_b = Glorot().scales_from_moments(n_in, n_out, one)
    assert sigma_r is None
    assert sigma_b == pytest.approx(np.sqrt(2 / (n_in + n_out)), rel=1e-15)


def test_power_law():
    n = N_IN * (G + K + 1)
    assert PowerLaw(0.25, 1.75).scales(N_IN, N_OUT, G) == pytest.approx((n**-0.25, n**-1.75))
    assert PowerLaw(0.0, 1.0).scales(N_IN, 99, G, residual=jnp.tanh) == pytest.approx((1.0, 1 / n))
    without = PowerLaw(0.25, 1.0).scales(N_IN, N_OUT, G, residual=None)
    assert without == (None, pytest.approx(1 / (N_IN * (G + K))))


@pytest.mark.parametrize("scheme", [LeCun(), Glorot()], ids=str)
def test_without_residual_the_basis_functions_share_the_variance(scheme):
    _, with_residual = scheme.scales(N_IN, N_OUT, G)
    sigma_r, sigma_b = scheme.scales(N_IN, N_OUT, G, residual=None)
    assert sigma_r is None
    assert sigma_b == pytest.approx(with_residual * np.sqrt((G + K + 1) / (G + K)))


@pytest.mark.parametrize("scheme", [LeCun(), Glorot()], ids=str)
def test_a_large_sample_gives_nearly_the_same(scheme):
    x = np.random.default_rng(0).uniform(-1, 1, 100_000)
    sampled = scheme.scales(N_IN, N_OUT, G, inputs=Sample(x))
    assert sampled == pytest.approx(scheme.scales(N_IN, N_OUT, G), rel=0.01)


INPUTS = {
    "uniform": (Uniform(-1, 1), lambda rng, shape: rng.uniform(-1, 1, shape)),
    "shifted": (Uniform(0, 1), lambda rng, shape: rng.uniform(0, 1, shape)),
    "normal": (Normal(0.1, 0.4), lambda rng, shape: rng.normal(0.1, 0.4, shape)),
}


@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("residual", [jax.nn.silu, None], ids=["silu", "none"])
def test_lecun_equipartition_by_monte_carlo(inputs, residual, record_property):
    """Appendix A over weights and inputs: n_in Var[r R(x)] = n_in mean_m Var[b_m B_m(x)]
    = Var(x) / (number of terms), and Var[y] = Var(x) but for the neglected covariances."""
    distribution, sample = INPUTS[inputs]
    n_in, n = 5, 3000  # as many outputs as samples, so that weights and inputs pair up
    basis = BSpline(5)
    rng = np.random.default_rng(6)
    weights = LeCun().draw(
        jax.random.key(6), n_in, n, basis, residual=residual, inputs=distribution
    )
    r, _, b = (None if w is None else np.asarray(w, np.float64) for w in weights)
    x = sample(rng, (n, n_in))
    B = basis.values(x)  # (n, n_in, n_basis)
    terms = basis.n_basis + (residual is not None)
    share = distribution.std**2 / terms

    # n_in n_out pairs of weights and inputs: each variance is known to a few per cent.
    assert n_in * np.mean(np.var(b * B, axis=(0, 1))) == pytest.approx(share, rel=0.12)
    y = np.einsum("nim,jim->nj", B, b)
    if residual is not None:
        R = np.asarray(residual(x), np.float64)
        assert n_in * np.var(r * R) == pytest.approx(share, rel=0.12)
        y = y + R @ r.T

    # Weights are centred and independent, so over weights and inputs the terms are uncorrelated and
    # the total is Var(x). What Appendix A neglects are covariances over inputs at given weights.
    variance = distribution.std**2
    record_property("output variance / Var(x)", float(y.var() / variance))
    record_property("the same at given weights", float(y.var(axis=0).mean() / variance))
    assert y.var() == pytest.approx(variance, rel=0.1)


def test_one_program_serves_all_scales_of_a_shape():
    compiled = draw_module._draw
    compiled.clear_cache()
    basis = BSpline(6)
    schemes = [PowerLaw(a, b) for a in (0.0, 0.5) for b in (1.0, 2.0)]
    for scheme in [*schemes, LeCun(), LeCun(normalized=True), Glorot()]:
        scheme.draw(jax.random.key(0), 4, 4, basis)
    assert compiled._cache_size() == 1


def test_many_models_of_one_shape_at_once():
    keys = jax.random.split(jax.random.key(1), 3)
    sigmas = jnp.array([[0.5, 0.1], [0.2, 0.0], [1.0, 2.0]])

    def draw(key, sigma):
        return draw_scaled(key, sigma[0], sigma[1], n_in=2, n_out=3, n_basis=8)

    together = jax.vmap(draw)(keys, sigmas)
    for i in range(3):
        jax.tree.map(
            lambda t, a, i=i: np.testing.assert_array_equal(t[i], a),
            together,
            draw(keys[i], sigmas[i]),
        )
    assert (np.asarray(together[2][1]) == 0).all()
