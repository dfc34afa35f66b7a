"""The quiet start: its rule, its variance through many layers, its silence, and its adaptation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad

from kandle import KAN, UserError, init
from kandle.bases import BSpline, moments
from kandle.init import Glorot, Normal, Quiet, Uniform

BASIS = BSpline(5)


@pytest.mark.parametrize("residual", [jax.nn.silu, jnp.tanh, jax.nn.relu], ids=lambda r: r.__name__)
@pytest.mark.parametrize("inputs", [Uniform(-1, 1), Normal(0.0, 0.4)], ids=str)
def test_the_rule_is_glorots_with_one_term(residual, inputs):
    """Not G + k + 1 terms: σ_r of `Glorot` times √(G + k + 1), and nothing for the splines."""
    sigma_r, sigma_b = Quiet().scales(6, 9, 5, residual=residual, inputs=inputs)
    shared, _ = Glorot().scales(6, 9, 5, residual=residual, inputs=inputs)
    assert sigma_b == 0.0
    assert sigma_r == pytest.approx(shared * np.sqrt(5 + 3 + 1), rel=1e-12)


def test_the_scale_for_silu_between_minus_one_and_one():
    def silu(x):
        return x / (1 + np.exp(-x))

    def slope(x):
        s = 1 / (1 + np.exp(-x))
        return s + x * s * (1 - s)

    square, square_slope = (quad(lambda x, f=f: f(x) ** 2 / 2, -1, 1)[0] for f in (silu, slope))
    balanced, forward = np.sqrt(2 / 3 / (square + square_slope)), np.sqrt(1 / 3 / square)
    assert (balanced, forward) == pytest.approx((1.26, 1.88), abs=0.01)
    for width in (1, 8, 64):
        sigma_r, _ = Quiet().scales(width, width, 5)
        assert sigma_r * np.sqrt(width) == pytest.approx(balanced, rel=1e-9)
        sigma_r, _ = Quiet(rule="lecun").scales(width, 3, 5)
        assert sigma_r * np.sqrt(width) == pytest.approx(forward, rel=1e-9)


@pytest.mark.parametrize(("grid", "degree"), [(3, 1), (5, 3), (40, 5)])
def test_neither_grid_nor_degree_enters(grid, degree):
    assert Quiet().scales(4, 8, grid, degree) == Quiet().scales(4, 8, 5, 3)


def test_a_unit_gain_and_a_linear_residual_give_the_classical_rules():
    """R(x) = x with E[x²] = 1 is Glorot's and LeCun's setting: 2/(n_in + n_out) and 1/n_in."""

    def identity(x):
        return x

    options = {"residual": identity, "inputs": Normal(0.0, 1.0)}
    assert Quiet(gain=1.0).scales(6, 9, 5, **options)[0] ** 2 == pytest.approx(2 / 15)
    assert Quiet("lecun", gain=1.0).scales(6, 9, 5, **options)[0] ** 2 == pytest.approx(1 / 6)


def _variances(rule: str, depth: int, width: int, networks: int) -> np.ndarray:
    """Mean square of every layer's output over networks, units and inputs, by Monte Carlo."""
    x = jax.random.uniform(jax.random.key(1), (256, width), minval=-1.0, maxval=1.0)

    def one(key):
        rows, squares = x, []
        for layer_key in jax.random.split(key, depth):
            r, _, b = Quiet(rule).draw(layer_key, width, width, BASIS)
            assert b.shape[-1] == BASIS.n_basis
            rows = jax.nn.silu(rows) @ r.T
            squares.append(jnp.mean(rows**2))
        return jnp.stack(squares)

    squares = jax.lax.map(jax.jit(one), jax.random.split(jax.random.key(2), networks))
    return np.mean(np.asarray(squares), axis=0)


def _predicted(rule: str, depth: int, width: int) -> np.ndarray:
    """The same by the derivation: q' = n σ_r² E[R(x)²], x uniform first and then normal(0, q)."""
    sigma_r, _ = Quiet(rule).scales(width, width, 5)
    squares, inputs = [], Uniform(-1, 1)
    for _ in range(depth):
        squares.append(width * sigma_r**2 * moments(BASIS, jax.nn.silu, inputs).mu_R0)
        inputs = Normal(0.0, float(np.sqrt(squares[-1])))
    return np.asarray(squares)


@pytest.mark.parametrize("rule", ["glorot", "lecun"])
def test_variance_through_ten_layers(rule):
    measured, predicted = _variances(rule, 10, 256, 24), _predicted(rule, 10, 256)
    # The derivation is exact for wide layers; what width 256 adds grows from layer to layer. A
    # factor √2 in σ_r would be 2 after the first layer and 1024 after ten.
    assert (np.abs(measured / predicted - 1) < 0.04 * np.arange(1, 11)).all()
    if rule == "lecun":  # the forward condition: the first layer's output varies as its input
        assert predicted[0] == pytest.approx(1 / 3, rel=1e-9)


def test_gradients_keep_their_variance_where_the_rule_balances():
    """Backwards the mean square of ∂/∂x is multiplied by n σ_r² E[R′²] a layer, forwards by
    n σ_r² E[R²]/E[x²]: the rule makes their mean, weighted as in Eq. 5, one.
    """
    for n_in, n_out in ((8, 8), (4, 32), (32, 4)):
        found = moments(BASIS, jax.nn.silu, Uniform(-1, 1))
        sigma_r, _ = Quiet().scales(n_in, n_out, 5)
        forward, backward = n_in * sigma_r**2 * found.mu_R0, n_out * sigma_r**2 * found.mu_R1
        assert (forward + backward) / (2 * found.variance) == pytest.approx(1.0)


def test_splines_are_silent_and_not_dead():
    model = KAN([2, 8, 8, 1], init="quiet", key=jax.random.key(0))
    x = jax.random.uniform(jax.random.key(1), (64, 2), minval=-1.0, maxval=1.0)
    plain = x
    for layer in model.layers:
        plain = jax.nn.silu(plain) @ layer.r.T
    np.testing.assert_allclose(model(x), plain, atol=1e-6)
    gradient = jax.grad(lambda model: jnp.mean((model(x) - 1.0) ** 2))(model)
    for layer in gradient.layers:
        assert np.abs(layer.b).max() > 1e-4


def test_without_a_residual_it_is_refused():
    with pytest.raises(UserError, match=r"'residual' must be a function under the quiet scheme"):
        KAN([2, 8, 1], residual=None, init="quiet", key=jax.random.key(0))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rule": "half"}, "The 'rule' parameter of Quiet must be 'glorot' or 'lecun'"),
        ({"gain": 0.0}, "The 'gain' parameter of Quiet must be a positive finite"),
        ({"spread": np.nan}, "The 'spread' parameter of Quiet must be a positive finite"),
    ],
)
def test_refuses(settings, message):
    with pytest.raises(UserError, match=message):
        Quiet(**settings)


def test_a_description_and_back():
    scheme = Quiet("lecun", gain=1.5, spread=0.25)
    assert init.from_dict(init.to_dict(scheme)) == scheme
    assert init.get("quiet") == Quiet()
