"""Importance of edges, pruning and the sparsity penalty."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kandle import KAN, UserError, bases
from kandle.nn import sparsity

X = np.random.default_rng(0).uniform(-1.3, 1.3, (400, 3))


def _model(**options) -> KAN:
    return KAN([3, 4, 2], **{"grid": 4, "init": "glorot", "key": jax.random.key(1)} | options)


def _edge_values(layer, x):
    """φ_ji(x_i) at every row, (N, n_out, n_in), straight from the equation."""
    B = layer.basis.values(np.asarray(x, np.float64))
    values = np.einsum("ji,jim,nim->nji", layer.c, layer.b, B)
    if layer.r is not None:
        values += np.asarray(layer.r) * np.asarray(layer.residual(x), np.float64)[:, None, :]
    return values


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"residual": None},
        {"basis": bases.Knots([-1, 0, 0.2, 1]), "grid": None},
        {"bias": False},
    ],
)
def test_importance_is_the_standard_deviation_of_the_edge(options):
    model = _model(**options)
    x = jnp.asarray(X, jnp.float32)
    for layer, found in zip(model.layers, model.edges(x), strict=True):
        values = _edge_values(layer, x)
        np.testing.assert_allclose(found.importance, values.std(axis=0), rtol=1e-4, atol=1e-7)
        np.testing.assert_allclose(found.mean, values.mean(axis=0), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(found.low, np.asarray(x).min(axis=0))
        t, y = found.curve(1, 2, 50)
        assert (t[0], t[-1]) == (found.low[2], found.high[2])
        line = np.zeros((50, layer.n_in))
        line[:, 2] = t
        np.testing.assert_allclose(y, _edge_values(layer, line)[:, 1, 2], rtol=1e-4, atol=1e-6)
        x = layer(x)


def test_edges_of_a_normalized_network_sum_to_its_outputs():
    model = _model(init="lecun-normalized")
    first = model.edges(X)[0]
    layer, x = model.layers[0], jnp.asarray(X, jnp.float32)
    bias = np.asarray(layer.effective_weights(x)[3])
    values = np.asarray(layer(x), np.float64)
    np.testing.assert_allclose(first.mean.sum(axis=1) + bias, values.mean(axis=0), atol=1e-5)


def test_pruning_nothing_changes_nothing():
    model = _model()
    pruned = model.prune(X, threshold=0.0)
    assert pruned.edges_after == pruned.edges_before == 3 * 4 + 4 * 2
    assert pruned.widths_after == (3, 4, 2)
    np.testing.assert_allclose(pruned.change, 0.0, atol=1e-6)


def test_a_unit_without_effect_is_removed_and_the_function_stays():
    model = _model()

    # Unit 2 reaches no output, unit 0 is reached by no input.
    def silence(model):
        first, second = model.layers
        second = eqx.tree_at(
            lambda l: (l.r, l.b), second, (second.r.at[:, 2].set(0), second.b.at[:, 2].set(0))
        )
        first = eqx.tree_at(
            lambda l: (l.r, l.b, l.bias),
            first,
            (first.r.at[0].set(0), first.b.at[0].set(0), first.bias.at[0].set(0.4)),
        )
        return KAN.from_layers([first, second])

    model = silence(model)
    pruned = model.prune(X, threshold=1e-9)
    assert pruned.widths_after == (3, 2, 2)
    assert pruned.edges_after == 3 * 2 + 2 * 2
    np.testing.assert_allclose(pruned.model(X), model(X), atol=2e-6)
    assert "edges kept" in str(pruned)


@pytest.mark.parametrize("init", ["glorot", "lecun-normalized"])
def test_the_loss_of_pruning_is_reported(init):
    model = _model(init=init)
    pruned = model.prune(X, keep=10)
    assert 1 <= pruned.edges_after <= 10
    before, after = np.asarray(model(X), np.float64), np.asarray(pruned.model(X), np.float64)
    expected = np.linalg.norm(after - before, axis=0) / np.linalg.norm(before, axis=0)
    np.testing.assert_allclose(pruned.change, expected, rtol=1e-5)
    assert (pruned.change > 0).all()


def test_the_strongest_edges_stay():
    model = _model()
    scores = np.concatenate([each.relative.ravel() for each in model.edges(X)])
    pruned = model.prune(X, threshold=0.5)
    assert pruned.edges_after <= (scores >= 0.5).sum()
    assert model.prune(X, keep=0.25).edges_after <= round(0.25 * scores.size)


@pytest.mark.parametrize(
    "options", [{}, {"threshold": 0.1, "keep": 3}, {"threshold": 2}, {"keep": 0}, {"keep": 1.5}]
)
def test_arguments_of_prune_are_checked(options):
    with pytest.raises(UserError):
        _model().prune(X, **options)


def test_sparsity_penalizes_activations_and_their_number():
    model = _model()
    x = jnp.asarray(X, jnp.float32)
    expected, rows = 0.0, x
    for layer in model.layers:
        s = np.sqrt((_edge_values(layer, rows) ** 2).mean(axis=0))
        p = s / s.sum()
        expected += s.sum() - 0.5 * (p * np.log(p)).sum()
        rows = layer(rows)
    assert float(sparsity(model, x, entropy=0.5)) == pytest.approx(expected, rel=1e-4)
    gradient = jax.grad(lambda m: sparsity(m, x))(model)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    assert np.abs(gradient.layers[0].r).max() > 0
