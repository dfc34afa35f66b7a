"""The contract of a basis, run against every family: one line adds the next."""

import functools
import itertools
import json
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad

from kandle import KAN, UserError, bases, init, kernels, load, ntk, save
from kandle.bases import Normal, Uniform, evaluate

BASES = [
    bases.BSpline(4, 2),
    bases.BSpline(5, 3, (0.0, 3.0)),
    bases.Knots([-1.0, -0.7, -0.1, 0.3, 1.0]),
    bases.Knots.from_full([-1.0, -1.0, -1.0, -0.2, 0.4, 1.0, 1.0, 1.0], degree=2),
    bases.Chebyshev(5),
    bases.Chebyshev(4, (0.0, 3.0), squash="clip", constant=True),
    bases.Legendre(5, (-2.0, 1.0)),
    bases.Legendre(3, squash="clip"),
    bases.Fourier(3, frequency=2.5),
    bases.RBF(5, (-2.0, 2.0)),
]
every_basis = pytest.mark.parametrize("basis", BASES, ids=str)


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def points(basis: bases.Basis, n: int = 25, beyond: float = 0.4) -> np.ndarray:
    """Points in and around the domain, none of them where a function is not smooth."""
    lo, hi = basis.domain
    margin = beyond * (hi - lo)
    x = np.random.default_rng(0).uniform(lo - margin, hi + margin, n)
    kinks = basis.breakpoints
    return x[np.abs(x[:, None] - kinks).min(axis=1) > 1e-3] if len(kinks) else x


@every_basis
def test_every_registered_family_is_tested(basis):
    assert {type(each).name for each in BASES} == set(bases.BASES)
    assert bases.BASES[basis.name] is type(basis)


@every_basis
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_shape_and_dtype(basis, dtype):
    x = jnp.linspace(*basis.domain, 12, dtype=dtype).reshape(3, 4)
    for order in (0, 1, 2):
        B = evaluate(x, basis, order)
        assert B.shape == (3, 4, basis.n_basis)
        assert B.dtype == dtype
        exact = basis.values(np.asarray(x, np.float64), order)
        assert exact.shape == B.shape
        assert exact.dtype == np.float64


@every_basis
def test_numpy_and_jax_and_both_forms_agree(basis):
    x = points(basis)
    for order in (0, 1, 2, 3):
        exact = basis.values(x, order)
        scale = np.abs(exact).max() + 1e-300
        np.testing.assert_allclose(evaluate(x, basis, order) / scale, exact / scale, atol=1e-12)
        table = np.moveaxis(basis.table(x, order, np), 0, -1)
        np.testing.assert_allclose(table / scale, exact / scale, atol=1e-12)


@every_basis
def test_derivatives_are_those_of_finite_differences(basis):
    x, h = points(basis), 1e-6
    for order in (0, 1):
        slope = (basis.values(x + h, order) - basis.values(x - h, order)) / (2 * h)
        exact = basis.values(x, order + 1)
        np.testing.assert_allclose(exact, slope, atol=1e-6 * (1 + np.abs(exact).max()))


@every_basis
def test_jax_derivatives_are_the_next_orders(basis):
    x = jnp.asarray(points(basis, 9))
    forward = jax.jit(jax.vmap(jax.jacfwd(lambda x: evaluate(x, basis))))(x)
    np.testing.assert_array_equal(forward, evaluate(x, basis, 1))
    nested = jax.jit(jax.vmap(jax.jacrev(jax.jacfwd(lambda x: evaluate(x, basis)))))(x)
    np.testing.assert_allclose(nested, evaluate(x, basis, 2), rtol=1e-12, atol=1e-12)


@every_basis
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("law", ["uniform", "normal"])
def test_moments_and_means_against_adaptive_quadrature(basis, order, law):
    lo, hi = basis.domain
    middle, width = (lo + hi) / 2, hi - lo
    if law == "uniform":
        inputs, ends = Uniform(lo, hi), (lo, hi)
        density = lambda x: 1 / width  # noqa: E731
    else:
        inputs, ends = Normal(middle, width / 4), (middle - 3 * width, middle + 3 * width)
        density = lambda x: (  # noqa: E731
            np.exp(-8 * ((x - middle) / width) ** 2) / (width / 4 * np.sqrt(2 * np.pi))
        )
    edges = [*np.unique([*ends, *(t for t in basis.breakpoints if ends[0] < t < ends[1])])]

    def expected(m, power):
        def f(x):
            return basis.values(x, order)[m] ** power * density(x)

        pieces = itertools.pairwise(edges)
        return sum(quad(f, a, b, epsabs=1e-12, epsrel=1e-11, limit=200)[0] for a, b in pieces)

    second, first = basis.moments(inputs, order), basis.means(inputs, order)
    assert second.shape == first.shape == (basis.n_basis,)
    for m in {0, basis.n_basis // 2, basis.n_basis - 1}:
        assert second[m] == pytest.approx(expected(m, 2), rel=1e-9, abs=1e-11)
        assert first[m] == pytest.approx(expected(m, 1), rel=1e-9, abs=1e-11)
    pooled = bases.moments(basis, None, inputs)
    mu, each = (pooled.mu_B0, pooled.mu_B0_each), (pooled.mu_B1, pooled.mu_B1_each)
    assert (mu, each)[order] == (second.mean(), tuple(second))


@every_basis
def test_a_dictionary_and_back(basis):
    description = json.loads(json.dumps(basis.to_dict()))
    again = bases.from_dict(description)
    assert again == basis
    assert hash(again) == hash(basis)
    assert again.to_dict() == description
    assert bases.get(basis) is basis
    assert bases.Basis.from_dict(description) == basis
    with pytest.raises(UserError, match=r"Unknown parameter of basis .* 'speed'"):
        bases.from_dict({**description, "speed": 3})


@every_basis
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_points_that_are_not_finite_give_nan(basis, bad):
    x = np.array([np.mean(basis.domain), bad])
    for order in (0, 1):
        with np.errstate(invalid="ignore"):
            forms = evaluate(x, basis, order), basis.values(x, order)
        for B in forms:
            assert np.isfinite(B[0]).all()
            assert np.isnan(B[1]).all()


def layer_weights(basis, seed=0):
    rng = np.random.default_rng(seed)
    draw = lambda *shape: jnp.asarray(rng.normal(size=shape))  # noqa: E731
    return draw(3, 2), draw(3, 2), draw(3, 2, basis.n_basis), draw(3)


@every_basis
def test_backends_agree_on_layers_jets_and_statistics(basis):
    lo, hi = basis.domain
    rng = np.random.default_rng(1)
    jets = jnp.asarray(rng.uniform(0, 1, (4, 6, 2)) * (hi - lo) + lo)
    weights = layer_weights(basis)
    options = {"basis": basis, "residual": jax.nn.silu}

    @functools.partial(jax.jit, static_argnums=1)
    def everything(jets, backend):
        def loss(x, weights):
            return jnp.sum(jnp.sin(kernels.layer(x, *weights, **options, backend=backend)))

        return (
            kernels.layer(jets[0], *weights, **options, backend=backend),
            kernels.jet(jets, *weights, first=2, second=1, **options, backend=backend),
            kernels.statistics(jets[0], basis=basis, backend=backend),
            jax.grad(loss, argnums=(0, 1))(jets[0], weights),
        )

    wanted = everything(jets, "reference")
    for backend in {"dense", kernels.default_backend(basis)}:
        got = everything(jets, backend)
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@every_basis
def test_the_default_backend_follows_the_basis(basis):
    accelerated = kernels.accelerates(basis)
    families = bases.BSpline, bases.Chebyshev, bases.Legendre, bases.Fourier, bases.RBF
    assert accelerated == (type(basis) in families)
    if kernels.default_backend() != "native":
        pytest.skip("there is no native backend here")
    assert kernels.default_backend(basis) == ("native" if accelerated else "dense")
    if not accelerated:
        with pytest.raises(UserError, match="backend 'native' must have a basis of uniform"):
            KAN([2, 1], basis, key=jax.random.key(0), backend="native")


def network(basis, **options):
    return KAN([2, 3, 1], basis, key=jax.random.key(0), dtype="float64", **options)


@every_basis
@pytest.mark.parametrize("scheme", init.SCHEMES)
def test_every_scheme_initializes_every_basis_with_and_without_a_residual(basis, scheme):
    given = init.get(scheme)
    sigma_r, sigma_b = given.scales(3, 4, basis=basis)
    assert 0 < sigma_r < np.inf
    assert np.isfinite(sigma_b).all()
    lo, hi = basis.domain
    x = np.random.default_rng(3).uniform(lo, hi, (10, 2))
    model = network(basis, init=scheme, sample=x)
    assert np.isfinite(model(x)).all()
    if scheme == "quiet":
        return  # needs a residual
    sigma_r, sigma_b = given.scales(3, 4, basis=basis, residual=None)
    assert sigma_r is None
    assert np.min(sigma_b) > 0
    free = network(basis, init=scheme, sample=x, residual=None)
    assert free.layers[0].r is None
    assert np.isfinite(free(x)).all()
    assert np.std(free(x)) > 0


@every_basis
def test_tangent_kernel_routes_agree(basis):
    lo, hi = basis.domain
    x = np.random.default_rng(4).uniform(lo, hi, (5, 2))
    model = network(basis, init="glorot")
    layerwise, jacobian = (ntk.kernel(model, x, route=route) for route in ntk.ROUTES)
    np.testing.assert_allclose(layerwise, jacobian, rtol=1e-10, atol=1e-12)


@every_basis
def test_derivatives_are_those_of_autodiff(basis):
    lo, hi = basis.domain
    x = jnp.asarray(np.random.default_rng(5).uniform(lo, hi, (4, 2)))
    model = network(basis, init="glorot")
    found = model.derivatives(x, first=(0, 1), second=(1,))

    @jax.jit
    def autodiff(x):
        u = lambda z: model(z[None])[0, 0]  # noqa: E731
        return jax.vmap(jax.grad(u))(x), jax.vmap(jax.hessian(u))(x)

    gradient, hessian = autodiff(x)
    np.testing.assert_allclose(found.first[0][:, 0], gradient[:, 0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.second[1][:, 0], hessian[:, 1, 1], rtol=1e-8, atol=1e-8)


@every_basis
def test_save_and_load(basis, tmp_path):
    model, path = network(basis), tmp_path / "model.safetensors"
    save(model, path)
    loaded = load(path)
    assert [layer.basis for layer in loaded.layers] == [basis, basis]
    assert eqx.tree_equal(loaded, model)


def test_knots_on_equal_intervals_are_the_uniform_splines():
    for degree in (1, 2, 3, 5):
        uniform = bases.BSpline(4, degree, (-1.0, 3.0))
        knots = bases.Knots(np.linspace(-1.0, 3.0, 5), degree)  # pyright: ignore
        np.testing.assert_allclose(knots.full, uniform.knots, atol=1e-14)
        assert knots.domain == uniform.domain
        x = points(uniform)
        for order in range(degree + 1):
            np.testing.assert_allclose(knots.values(x, order), uniform.values(x, order), atol=1e-10)
    assert bases.Knots.from_full(knots.full, 5) == knots


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bases.Knots([0.0]), "'knots'"),
        (lambda: bases.Knots([0.0, 0.0, 1.0]), "increasing where no 'left' is given"),
        (lambda: bases.Knots([0.0, 1.0, 0.5]), "'knots' must be"),
        (lambda: bases.Knots([0.0, np.nan, 1.0]), "'knots' must be"),
        (lambda: bases.Knots([0.0, 1.0], -1), "'degree' of Knots must be"),
        (lambda: bases.Knots([0.0, 1.0], 2, left=(0.0,)), "'left' of Knots must be 2 numbers"),
        (lambda: bases.Knots.from_full([0.0, 1.0, 2.0], 1), "at least 4 numbers"),
        (lambda: bases.Knots("abc"), "'knots' must be"),
        (lambda: bases.get("bsplin"), "Unknown basis 'bsplin'. Did you mean 'bspline'"),
        (lambda: bases.get("knots"), "needs the parameter 'knots'"),
        (lambda: bases.get(3), "'basis' must be a basis"),
        (lambda: bases.get("json:JSONDecoder"), "must be a subclass of kandle.bases.Basis"),
        (lambda: bases.BSpline.from_dict({"name": "knots", "knots": [0, 1]}), "of a BSpline"),
    ],
)
def test_refuses(make, message):
    with pytest.raises(UserError, match=message):
        make()


def test_a_basis_says_which_derivatives_it_has():
    class Once(bases.BSpline):
        max_order = 1

    basis = Once(3)
    evaluate(0.1, basis, 1)
    with pytest.raises(UserError, match="'order' must be at most 1, the highest derivative"):
        jax.jacfwd(lambda x: evaluate(x, basis, 1))(0.1)


def test_bases_and_schemes_need_no_jax():
    """A process in which JAX cannot be imported computes knots, moments and scales."""
    program = """
import sys
sys.modules["jax"] = sys.modules["jaxlib"] = None
import kandle.bases, kandle.init as init
assert abs(init.Glorot(gain=1.0).scales(n_in=8, n_out=8, grid=5, degree=3)[0] - 0.259163) < 1e-6
for name in init.SCHEMES:
    init.get(name).scales(n_in=8, n_out=8, basis=kandle.bases.Knots([-1, 0, 1]), residual="tanh")
assert not any(name.split(".")[0] in ("jax", "jaxlib") for name, m in sys.modules.items() if m)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
