"""Each family against NumPy's or SciPy's own evaluation, in single and double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from numpy.polynomial import Chebyshev as NumpyChebyshev
from numpy.polynomial import Legendre as NumpyLegendre
from scipy.special import erf, eval_hermitenorm

from kandle import UserError, bases
from kandle.bases import Uniform, evaluate

X = np.random.default_rng(0).uniform(-0.99, 0.99, 40)
FAMILIES = {bases.Chebyshev: NumpyChebyshev, bases.Legendre: NumpyLegendre}
every_polynomial = pytest.mark.parametrize("family", FAMILIES)


def by_numpy(family, degree, order, x):
    polynomials = [FAMILIES[family].basis(m).deriv(order) for m in range(degree + 1)]
    return np.stack([p(x) for p in polynomials], axis=-1)


@every_polynomial
@pytest.mark.parametrize("order", range(6))
def test_clipped_polynomials_are_numpys_inside_the_domain(family, order):
    basis = family(12, domain=(-3.0, 1.0), squash="clip", constant=True)
    expected = by_numpy(family, 12, order, X) * 0.5**order  # the domain is twice as wide
    found = basis.values(2 * X - 1, order)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11 * np.abs(expected).max())
    without = family(12, domain=(-3.0, 1.0), squash="clip")
    np.testing.assert_array_equal(without.values(2 * X - 1, order), found[:, 1:])


@every_polynomial
def test_tanh_is_the_chain_rule(family):
    basis, t = family(7), np.tanh(3 * X)
    first, second, third = (by_numpy(family, 7, order, t)[:, 1:] for order in (1, 2, 3))
    np.testing.assert_allclose(basis.values(3 * X), by_numpy(family, 7, 0, t)[:, 1:], atol=1e-13)
    t, s = t[:, None], 1 - t[:, None] ** 2
    np.testing.assert_allclose(basis.values(3 * X, 1), first * s, atol=1e-11)
    expected = second * s**2 - 2 * first * t * s
    np.testing.assert_allclose(basis.values(3 * X, 2), expected, atol=1e-10)
    expected = third * s**3 - 6 * second * t * s**2 + first * s * (6 * t**2 - 2)
    np.testing.assert_allclose(basis.values(3 * X, 3), expected, atol=1e-9)


@every_polynomial
@pytest.mark.parametrize("squash", ["tanh", "clip"])
def test_polynomials_are_bounded_everywhere(family, squash):
    x = np.array([-1e30, -50.0, -1.0, 1.0, 50.0, 1e30])
    basis = family(9, squash=squash)
    assert np.abs(basis.values(x)).max() <= 1 + 1e-12
    assert (basis.values(x[[0, -1]], 1) == 0).all()
    if squash == "clip":
        np.testing.assert_array_equal(basis.values(x[[1, 4]]), basis.values(x[[2, 3]]))


@pytest.mark.parametrize("order", range(6))
def test_fourier_is_shifted_cosines_and_sines(order):
    basis = bases.Fourier(5, frequency=1.7)
    n = 1.7 * np.arange(1, 6)
    phase = np.multiply.outer(4 * X, n) + order * np.pi / 2
    expected = np.concatenate([n**order * np.cos(phase), n**order * np.sin(phase)], axis=-1)
    np.testing.assert_allclose(basis.values(4 * X, order), expected, rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize("order", range(6))
def test_rbf_derivatives_are_hermite_functions(order):
    basis = bases.RBF(6, (-2.0, 2.0))
    spacing = 0.8
    z = (3 * X[:, None] - np.linspace(-2, 2, 6)) / (spacing / np.sqrt(2))
    expected = (-np.sqrt(2) / spacing) ** order * eval_hermitenorm(order, z) * np.exp(-(z**2) / 2)
    np.testing.assert_allclose(basis.values(3 * X, order), expected, rtol=1e-11, atol=1e-9)
    if order == 0:  # FastKAN's form
        fast = np.exp(-(((3 * X[:, None] - np.linspace(-2, 2, 6)) / spacing) ** 2))
        np.testing.assert_allclose(basis.values(3 * X), fast, rtol=1e-12)
    assert (basis.values(np.array([-1e30, 1e30]), order) == 0).all()


@pytest.mark.parametrize(
    "basis", [bases.Chebyshev(12), bases.Legendre(12), bases.Fourier(8), bases.RBF(16)], ids=str
)
def test_single_precision_is_as_good_as_its_format(basis):
    x = X.astype(np.float32)
    for order in (0, 1, 2):
        exact = basis.values(x.astype(np.float64), order)
        found = np.asarray(evaluate(jnp.asarray(x), basis, order))
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, exact, atol=2e-5 * np.abs(exact).max())


def test_known_moments():
    """Legendre polynomials are orthogonal: E[P_m²] = 1 / (2m + 1) on U(-1, 1)."""
    m = np.arange(1, 31)
    basis = bases.Legendre(30, squash="clip")
    np.testing.assert_allclose(basis.moments(Uniform()), 1 / (2 * m + 1), rtol=1e-13)
    np.testing.assert_allclose(basis.means(Uniform()), 0, atol=1e-15)
    # ∫ P_m'² = m (m + 1)
    np.testing.assert_allclose(basis.moments(Uniform(), 1), m * (m + 1) / 2, rtol=1e-12)
    fourier = bases.Fourier(3, frequency=np.pi)
    np.testing.assert_allclose(fourier.moments(Uniform()), 0.5, rtol=1e-13)
    n = np.tile(np.arange(1, 4), 2)
    np.testing.assert_allclose(fourier.moments(Uniform(), 1), (n * np.pi) ** 2 / 2, rtol=1e-13)


@pytest.mark.parametrize("width", [0.3, 1e-2, 1e-4, 1e-8])
@pytest.mark.parametrize("centers", [2, 7])
def test_moments_of_narrow_peaks(width, centers):
    """∫ exp(-(x - c)²/w²) dx = (√π / 2) w erf((x - c) / w)."""
    basis, c = bases.RBF(centers, width=width), np.linspace(-1, 1, centers)
    integral = np.sqrt(np.pi) / 2 * width * (erf((1 - c) / width) - erf((-1 - c) / width))
    # A point near a centre is rounded by up to 1e-16 / w of a width.
    tolerance = 1e-13 + 1e-15 / width
    np.testing.assert_allclose(basis.moments(Uniform()), integral / 2, rtol=tolerance)


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
@pytest.mark.parametrize("basis", [bases.Chebyshev(4), bases.Fourier(2), bases.RBF(3)], ids=str)
def test_lowers_for_accelerators(platform, basis):
    f = jax.jit(jax.grad(lambda x: evaluate(x, basis).sum()))
    x = jax.ShapeDtypeStruct((7,), jnp.float32)
    text = export.export(f, platforms=[platform])(x).mlir_module()
    assert "custom_call" not in text


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bases.Chebyshev(0), "'degree' of Chebyshev must be an integer of at least 1"),
        (lambda: bases.Legendre(2.5), "'degree' of Legendre must be"),
        (lambda: bases.Chebyshev(3, squash="sin"), "Unknown squash 'sin'.*tanh, clip"),
        (lambda: bases.Chebyshev(3, constant=1), "'constant' of Chebyshev must be True or False"),
        (lambda: bases.Legendre(3, (1.0, 1.0)), "'domain' must be a pair"),
        (lambda: bases.Fourier(0), "'order' of Fourier must be"),
        (lambda: bases.Fourier(3, frequency=0.0), "'frequency' of Fourier must be a positive"),
        (lambda: bases.RBF(1), "'centers' of RBF must be an integer of at least 2"),
        (lambda: bases.RBF(3, width=-1.0), "'width' of RBF must be a positive"),
        (lambda: bases.RBF(3, width="0.5"), "'width' of RBF must be a positive .* Got '0.5'"),
        (lambda: bases.Fourier(3, frequency=True), "'frequency' of Fourier must be a positive"),
        (lambda: bases.Fourier(3, frequency=[1.0]), "'frequency' of Fourier must be a positive"),
        (lambda: bases.RBF(3, ("-1", "1")), "'domain' must be a pair of finite numbers"),
        (lambda: bases.Knots([0.0, 1.0], 1, left=3), "'left' of Knots must be 1 numbers"),
        (lambda: bases.Knots([0.0, 1.0], 1, right="a"), "'right' of Knots must be 1 numbers"),
    ],
)
def test_refuses(make, message):
    with pytest.raises(UserError, match=message):
        make()
