"""Every scheme against every check: one table."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kandle import UserError, init
from kandle.bases import BSpline
from kandle.init import Baseline, Glorot, LeCun, Normal, PowerLaw, Quiet, Uniform

SCHEMES = [
    Baseline(),
    LeCun(),
    LeCun(split="half", gain=2.0),
    LeCun(normalized=True),
    Glorot(),
    Glorot(gain=1.0),
    Glorot(fine=True),
    PowerLaw(),
    PowerLaw(alpha=0.0, beta=0.5),
    Quiet(),
    Quiet(rule="lecun", gain=1.5),
]
RESIDUALS = {"silu": jax.nn.silu, "tanh": jnp.tanh, "none": None}

every_scheme = pytest.mark.parametrize("scheme", SCHEMES, ids=str)
every_residual = pytest.mark.parametrize("residual", RESIDUALS.values(), ids=RESIDUALS)


def need_residual(scheme, residual):
    if residual is None and isinstance(scheme, Quiet):
        pytest.skip("without a residual nothing is left: refused, see test_quiet.py")


BASIS = BSpline(5)


@every_scheme
@every_residual
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_shapes_and_dtypes(scheme, residual, dtype):
    need_residual(scheme, residual)
    with jax.enable_x64(dtype == "float64"):
        r, c, b = scheme.draw(
            jax.random.key(0), 3, 2, BSpline(4, 2), residual=residual, dtype=dtype
        )
    assert c.shape == (2, 3)
    assert b.shape == (2, 3, 6)
    assert c.dtype == b.dtype == dtype
    assert (np.asarray(c) == 1).all()
    if residual is None:
        assert r is None
    else:
        assert r.shape == (2, 3)
        assert r.dtype == dtype


@every_scheme
@every_residual
def test_drawn_deviations_are_those_of_the_formula(scheme, residual):
    need_residual(scheme, residual)
    n_in, n_out = 60, 50
    sigma_r, sigma_b = scheme.scales(n_in, n_out, 5, residual=residual)
    r, _, b = scheme.draw(jax.random.key(1), n_in, n_out, BASIS, residual=residual)
    # 3,000 and 24,000 draws: the relative error of a standard deviation is 1/√(2n), and five of
    # those are 0.065 and 0.023; a factor √2 is 0.41 away.
    if scheme.name == "glorot-fine":  # one value per function, each from 3,000 draws
        np.testing.assert_allclose(np.std(b, axis=(0, 1)), sigma_b, rtol=0.065)
    else:
        assert np.std(b) == pytest.approx(sigma_b, rel=0.023)
    assert abs(np.mean(b)) <= 5 * np.max(sigma_b) / np.sqrt(b.size)
    if residual is None:
        assert sigma_r is None
    else:
        assert np.std(r) == pytest.approx(sigma_r, rel=0.065)
        assert abs(np.mean(r)) < 5 * sigma_r / np.sqrt(r.size)


@every_scheme
def test_same_key_same_bits_other_key_other_weights(scheme):
    a, b, c = (scheme.draw(jax.random.key(k), 4, 3, BASIS) for k in (7, 7, 8))
    for x, y in zip(a, b, strict=True):
        np.testing.assert_array_equal(x, y)
    assert not np.isin(a[0], c[0]).any()
    assert not np.isin(a[2], c[2]).any() or scheme.name == "quiet"


@every_scheme
def test_residual_and_basis_weights_are_independent(scheme):
    n = 40
    sigma_r, sigma_b = scheme.scales(n, n, 5)
    r, _, b = (np.asarray(w, np.float64) for w in scheme.draw(jax.random.key(2), n, n, BASIS))
    if np.max(sigma_b) == 0:
        assert not b.any()
        return
    correlation = np.mean((r[..., None] / sigma_r) * (b / np.asarray(sigma_b)), axis=(0, 1))
    assert np.abs(correlation).max() < 5 / n
    # Neither are the first weights of one a scaled copy of those of the other.
    assert abs(np.corrcoef(r.ravel(), b.ravel()[: r.size])[0, 1]) < 5 / n


@every_scheme
def test_layers_with_split_keys_are_independent(scheme):
    keys = jax.random.split(jax.random.key(3), 2)
    (r0, _, b0), (r1, _, b1) = (scheme.draw(key, 40, 40, BASIS) for key in keys)
    assert abs(np.corrcoef(np.ravel(r0), np.ravel(r1))[0, 1]) < 5 / 40
    if scheme.name != "quiet":
        assert abs(np.corrcoef(np.ravel(b0), np.ravel(b1))[0, 1]) < 5 / np.sqrt(b0.size)


@every_scheme
def test_jit_and_vmap_draw_the_same_bits(scheme):
    keys = jax.random.split(jax.random.key(4), 2)

    def draw(key):
        return scheme.draw(key, 3, 5, BASIS)

    together, jitted = jax.vmap(draw)(keys), jax.jit(draw)
    for i, key in enumerate(keys):
        alone = draw(key)
        jax.tree.map(np.testing.assert_array_equal, jitted(key), alone)
        jax.tree.map(lambda t, a, i=i: np.testing.assert_array_equal(t[i], a), together, alone)


@every_scheme
def test_a_dictionary_and_back(scheme):
    description = init.to_dict(scheme)
    assert init.from_dict(json.loads(json.dumps(description))) == scheme
    assert init.to_dict(init.from_dict(description)) == description
    assert init.SCHEMES[scheme.name] is type(scheme)
    assert init.get(scheme) is scheme
    assert hash(scheme) == hash(init.from_dict(description))


@every_scheme
@pytest.mark.parametrize("inputs", [Uniform(0, 1), Normal(0.1, 0.5)], ids=str)
@pytest.mark.parametrize("domain", [(-1.0, 1.0), (0.0, 3.0)])
def test_any_inputs_and_domain_give_finite_positive_scales(scheme, inputs, domain):
    if scheme.name == "glorot-fine" and inputs == Uniform(0, 1):
        pytest.skip("some functions are zero on all inputs, so they have no variance of their own")
    scales = scheme.scales(np.int64(3), 4, 7, 2, domain=domain, inputs=inputs)
    least = 0.0 if scheme.name == "quiet" else np.nextafter(0, 1)
    every = [scales[0], *np.atleast_1d(scales[1]).tolist()]
    assert all(type(sigma) is float and sigma < np.inf for sigma in every)
    assert scales[0] > 0
    assert np.min(scales[1]) >= least


@every_scheme
def test_default_inputs_are_uniform_over_the_domain(scheme):
    assert scheme.scales(3, 4, 5) == scheme.scales(3, 4, 5, inputs=Uniform(-1, 1))
    assert scheme.scales(3, 4, 5, domain=(0, 2)) == scheme.scales(
        3, 4, 5, domain=(0, 2), inputs=Uniform(0, 2)
    )


@every_scheme
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_in": 0}, "'n_in' must be an integer of at least 1. Got 0"),
        ({"n_out": 2.5}, "'n_out' must be an integer"),
        ({"n_in": True}, "'n_in' must be an integer"),
        ({"grid": 0}, "'grid' must be"),
        ({"degree": 9}, "'degree' must be"),
        ({"domain": (1, 0)}, "'domain' must be"),
        ({"residual": "silo"}, "Unknown residual function 'silo'. Did you mean 'silu'"),
        ({"residual": 3.0}, "'residual' must be a function"),
        ({"basis": BSpline(3)}, "Either 'grid' or 'basis' of scales must be given"),
        ({"inputs": "uniform"}, "'inputs' must be a distribution"),
    ],
)
def test_refuses_a_layer(scheme, arguments, message):
    with pytest.raises(UserError, match=message):
        scheme.scales(**{"n_in": 2, "n_out": 2, "grid": 5, **arguments})


@every_scheme
@pytest.mark.parametrize("dtype", ["float64", "int32", "nonsense"])
def test_refuses_a_dtype(scheme, dtype):
    with pytest.raises(UserError, match="'dtype' must be"):
        scheme.draw(jax.random.key(0), 2, 2, BASIS, dtype=dtype)


def test_names():
    assert list(init.SCHEMES) == [
        "baseline",
        "lecun-numerical",
        "lecun-normalized",
        "glorot",
        "glorot-fine",
        "power-law",
        "quiet",
        "data",
    ]
    for name in init.SCHEMES:
        assert init.get(name).name == name
    assert init.get("power-law") == PowerLaw(0.25, 1.75)
    assert init.get("lecun-normalized") == LeCun(normalized=True)
    assert [s.normalized for s in map(init.get, init.SCHEMES)] == [
        name == "lecun-normalized" for name in init.SCHEMES
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: init.get("glorott"), "Unknown scheme 'glorott'.*Known: baseline, lecun-numerical"),
        (lambda: init.get(3), "must be a scheme or the name of one. Got 3"),
        (lambda: init.from_dict({}), "Unknown scheme None"),
        (lambda: init.from_dict({"name": "power-law", "gamma": 1}), "'gamma'.*Known: alpha, beta"),
        (
            lambda: init.from_dict({"name": "lecun-numerical", "normalized": True}),
            "consistent with its name",
        ),
        (lambda: PowerLaw(alpha=np.nan), "The 'alpha' parameter of PowerLaw must be a finite"),
        (lambda: PowerLaw(beta=np.inf), "The 'beta' parameter of PowerLaw must be a finite"),
        (lambda: PowerLaw(beta="1"), "The 'beta' parameter of PowerLaw"),
        (lambda: PowerLaw(beta=None), "The 'beta' parameter of PowerLaw"),
        (lambda: PowerLaw(alpha=-500.0).scales(9, 1, 5), "'alpha' and 'beta' of PowerLaw"),
        (
            lambda: PowerLaw(alpha=-50.0).draw(jax.random.key(0), 9, 1, BASIS),
            "'sigma_r' must be .* finite in float32",
        ),
        (lambda: LeCun(split="third"), "The 'split' parameter of LeCun must be 'equal' or 'half'"),
        (lambda: LeCun(normalized=1), "The 'normalized' parameter of LeCun"),
        (lambda: LeCun(gain=np.nan), "The 'gain' parameter of LeCun must be a positive finite"),
        (lambda: LeCun(gain=0.0), "The 'gain' parameter of LeCun"),
        (lambda: Glorot(gain=-1.0), "The 'gain' parameter of Glorot must be a positive finite"),
        (lambda: LeCun().scales(2, 2, 5, inputs=Uniform(8, 9)), r"E\[B\^2\] is zero"),
        (lambda: Glorot().scales(2, 2, 5, inputs=Uniform(8, 9)), r"E\[B\^2\] is zero"),
        (lambda: LeCun().scales(2, 2, 5, residual=lambda x: 0.0 * x), r"E\[R\^2\] is zero"),
    ],
)
def test_refuses(make, message):
    with pytest.raises(UserError, match=message):
        make()
