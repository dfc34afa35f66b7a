"""The data-dependent scheme and one variance per basis function, against their definitions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad

from kandle import KAN, UserError, bases, init
from kandle.init import DataDependent, Glorot
from kandle.train import Architecture, train

X = np.random.default_rng(0).uniform(-0.9, 0.4, (300, 2)) * [1.0, 0.3]


def build(scheme, basis=None, **options):
    return KAN([2, 6, 5, 1], basis, init=scheme, key=jax.random.key(3), sample=X, **options)


def variance(rows):
    return float(np.var(np.asarray(rows, np.float64), axis=0).mean())


@pytest.mark.parametrize("basis", [bases.BSpline(5), bases.Chebyshev(4)], ids=str)
@pytest.mark.parametrize("share", [0.2, 0.5, 1.0])
def test_parts_have_their_shares_of_the_inputs_variance(basis, share):
    model, rows = build(DataDependent(share=share, gain=1.5), basis), jnp.asarray(X, jnp.float32)
    target = 1.5**2 * variance(X)
    for layer in model.layers:
        residual = jax.nn.silu(rows) @ layer.r.T
        b_only = eqx.tree_at(lambda layer: layer.r, layer, 0 * layer.r)
        assert variance(residual) == pytest.approx(share * target, rel=1e-4)
        assert variance(b_only(rows)) == pytest.approx((1 - share) * target, rel=1e-4, abs=1e-12)
        rows = layer(rows)


def test_without_a_residual_the_basis_carries_all():
    model, rows = build("data", residual=None), jnp.asarray(X, jnp.float32)
    for layer in model.layers:
        rows = layer(rows)
        assert variance(rows) == pytest.approx(variance(X), rel=1e-4)


def test_only_the_scale_of_the_draws_changes():
    model = build("data")
    drawn = init.LeCun().draw(jax.random.split(jax.random.key(3), 3)[0], 2, 6, bases.BSpline(5))
    for scaled, before in ((model.layers[0].r, drawn[0]), (model.layers[0].b, drawn[2])):
        ratio = np.asarray(scaled) / np.asarray(before)
        np.testing.assert_allclose(ratio, ratio.ravel()[0], rtol=1e-5)


def test_a_sample_is_required_and_must_vary():
    with pytest.raises(UserError, match=r"Scheme 'data' scales .* given as KAN\(…, sample=x\)"):
        KAN([2, 1], init="data", key=jax.random.key(0))
    for sample in (np.zeros((5, 2)), np.full((5, 2), np.nan)):
        with pytest.raises(UserError, match="must be finite inputs that are not all equal"):
            KAN([2, 1], init="data", key=jax.random.key(0), sample=sample)
    far = np.random.default_rng(0).uniform(50, 51, (9, 2))
    with pytest.raises(UserError, match="cannot scale the basis functions of layer 0"):
        KAN([2, 1], init="data", key=jax.random.key(0), sample=far)
    with pytest.raises(UserError, match="The 'share' parameter of DataDependent"):
        DataDependent(share=1.5)


@pytest.mark.parametrize(
    "sample", [X[:, :1], np.ones((10, 4)), X[0], 3.0, "abc", [["a", "b"]], X + 1j], ids=np.shape
)
@pytest.mark.parametrize("scheme", ["data", init.Quiet(spread=0.5)], ids=str)
def test_a_sample_of_another_shape_or_type_is_refused(sample, scheme):
    with pytest.raises(UserError, match=r"'sample' of KAN must be real numbers of shape \(N, 2\)"):
        KAN([2, 1], init=scheme, key=jax.random.key(0), sample=sample)
    model = KAN([2, 1], key=jax.random.key(0))
    with pytest.raises(UserError, match=r"sample of init='data' must be of shape \(N, 2\)"):
        DataDependent().adapt(model, np.ones((10, 4)))


def test_training_takes_its_inputs_as_the_sample():
    models = {}
    train(
        "f1",
        Architecture(width=4, depth=1, basis=bases.Chebyshev(4)),
        [("data", 0), ("glorot-fine", 0)],
        steps=1,
        checkpoints=[0],
        on_checkpoint=lambda step, found: models.update({c.index: c.model for c in found}),
        progress=lambda *_: None,
    )
    from kandle import problems

    x = problems.get("f1").arrays("float32")["x"]
    residual = jax.nn.silu(x) @ models[0].layers[0].r.T
    assert variance(residual) == pytest.approx(variance(x) / 2, rel=1e-3)
    assert models[1].layers[0].b.shape == (4, 2, 4)


@pytest.mark.parametrize("residual", [jax.nn.silu, None])
def test_glorot_fine_has_one_variance_per_function(residual):
    """σ_m = g √(1/T · 2/(n_in μ⁽⁰⁾_m + n_out μ⁽¹⁾_m)), with the moments by adaptive quadrature."""
    basis, n_in, n_out = bases.Chebyshev(4, squash="clip"), 3, 7
    sigma_r, sigma_b = Glorot(gain=1.2, fine=True).scales(
        n_in, n_out, basis=basis, residual=residual
    )
    terms = 4 + (residual is not None)
    for m in range(4):
        mu = [quad(lambda x, v=v, m=m: basis.values(x, v)[m] ** 2 / 2, -1, 1)[0] for v in (0, 1)]
        expected = 1.2 * np.sqrt(1 / terms * 2 / (n_in * mu[0] + n_out * mu[1]))
        assert sigma_b[m] == pytest.approx(expected, rel=1e-9)
    pooled_r, _ = Glorot(gain=1.2).scales(n_in, n_out, basis=basis, residual=residual)
    assert sigma_r == pooled_r
    assert init.get("glorot-fine") == Glorot(fine=True)
    with pytest.raises(UserError, match="The 'fine' parameter of Glorot"):
        Glorot(fine=1)
