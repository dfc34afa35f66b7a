"""The training loop: its penalty, validation, batches, averages and weights of rows."""

import itertools

import jax
import numpy as np
import pytest
from scipy.interpolate import BSpline as SciPySpline
from scipy.linalg import block_diag

from kandle import KAN, init
from kandle.bases import BSpline
from kandle.tabular import FitSettings, fit_rows
from kandle.tabular._keep import KeepBest
from kandle.tabular._networks import average, draw_networks, separate
from kandle.tabular._objective import PenalizedRows, curvature_gram, penalties
from kandle.tabular._rows import Block, InMemory, merge_equal_rows, validation_folds
from kandle.train import Optimizer, Population, method_of, shared

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (80, 2))
Y = (np.sin(3 * X[:, :1]) + X[:, 1:] ** 2 - 0.3) / 0.8
NOISY = Y + 0.5 * RNG.normal(size=Y.shape)
SMALL = {"layers": (4,), "grid": 4, "networks": 2, "steps": 120, "smoothness": 1e-4}


def fit(y=NOISY, x=X, **changed):
    source = InMemory(Block(x, y, np.ones(len(x))))
    return fit_rows(source, "values", FitSettings(**{**SMALL, **changed}))


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_the_curvature_is_the_integral_of_the_squared_second_derivative(degree):
    basis = BSpline(4, degree, (-1.0, 2.0))
    b = np.random.default_rng(degree).normal(size=basis.n_basis)
    x = np.linspace(-1, 2, 60_001)
    middle = (x[1:] + x[:-1]) / 2
    second = np.zeros_like(middle)
    if degree >= 2:
        second = SciPySpline(basis.knots, b, degree)(middle, nu=2)
    expected = np.sum(second**2) * (x[1] - x[0])
    assert b @ curvature_gram(basis) @ b == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_penalties_of_a_network_add_up_over_edges():
    [network] = draw_networks([2, 3, 1], 4, 3, init.get("glorot"), 1, 0)
    curvature, size = penalties(network)
    expected = [0.0, 0.0]
    for layer in network.layers:
        c, b, r = (np.asarray(v, np.float64) for v in (layer.c, layer.b, layer.r))
        gram = curvature_gram(layer.basis)
        for o in range(layer.n_out):
            for i in range(layer.n_in):
                own = c[o, i] * b[o, i]
                expected[0] += own @ gram @ own
                expected[1] += own @ own + r[o, i] ** 2
    assert [float(curvature), float(size)] == pytest.approx(expected, rel=1e-5)


def test_one_layer_by_least_squares_is_a_ridge_regression():
    """(AᵀWA + Ω) θ = AᵀWy, with θ = [b_1 r_1 b_2 r_2 bias] and Ω by the midpoint rule."""
    smoothness, decay = 3e-3, 2e-2
    weight = np.random.default_rng(1).random(len(X)) / len(X)
    with jax.enable_x64(True):
        model = KAN([2, 1], grid=3, init="glorot", key=jax.random.key(0), dtype="float64")
        goal = PenalizedRows("values")
        arguments = {"warmup": 0, "damping": 1e-13, "restarts": 0}
        method = method_of(Optimizer("levenberg-marquardt", arguments=arguments), goal, "dense")
        penalty = np.array([smoothness, decay])
        data = shared({"x": X, "y": Y, "weight": weight, "penalty": penalty})
        population = Population([model], data, goal, method)
        losses = population.advance(3)[:, 0]
        [fitted] = population.models()
        outputs = np.asarray(fitted(X))[:, 0]

    basis = model.layers[0].basis
    x = np.linspace(-1, 1, 20_001)
    second = np.asarray(basis.values((x[1:] + x[:-1]) / 2, order=2))
    curvature = second.T @ second * (2 / 20_000)
    B, R = np.asarray(basis.values(X)), X / (1 + np.exp(-X))
    columns = [part for i in range(2) for part in (B[:, i], R[:, i : i + 1])]
    A = np.concatenate([*columns, np.ones((len(X), 1))], axis=1)
    n = basis.n_basis
    edge = decay * np.eye(n + 1)
    edge[:n, :n] += smoothness * curvature
    omega = block_diag(edge, edge, 0.0)
    theta = np.linalg.solve(A.T @ (weight[:, None] * A) + omega, A.T @ (weight * Y[:, 0]))
    best = weight @ (A @ theta - Y[:, 0]) ** 2 + theta @ omega @ theta
    np.testing.assert_allclose(losses[1:], best, rtol=1e-6)
    np.testing.assert_allclose(outputs, A @ theta, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layers", [[2, 1], [2, 3, 2], [2, 3, 4, 1]])
def test_the_average_is_one_network_and_can_be_taken_apart(layers):
    networks = draw_networks(layers, 4, 3, init.get("glorot"), 3, 0)
    merged = average(networks)
    expected = np.mean([network(X) for network in networks], axis=0)
    np.testing.assert_allclose(merged(X), expected, atol=1e-5)
    parts = separate(merged, 3)
    np.testing.assert_allclose(np.mean([p(X) for p in parts], axis=0), expected, atol=1e-5)
    assert [part.widths for part in parts] == [tuple(layers)] * (3 if len(layers) > 2 else 1)


def test_drawn_weights_have_the_scales_of_the_scheme():
    for name in ("glorot", "baseline", "power-law"):
        scheme = init.get(name)
        [network] = draw_networks([40, 50, 1], 5, 3, scheme, 1, 0)
        sigma_r, sigma_b = scheme.scales(40, 50, 5, 3)
        layer = network.layers[0]
        assert float(np.std(layer.r)) == pytest.approx(sigma_r, rel=0.05)
        assert float(np.std(layer.b)) == pytest.approx(sigma_b, rel=0.05)


def test_early_stopping_keeps_the_weights_that_predict_held_out_rows_best():
    long = fit(steps=1500, patience=100)
    assert long.updates < 1500
    assert long.held_out == 8
    assert len(long.loss_curve) == long.updates
    keep, done, measured = KeepBest({}, patience=100), 0, 1
    while done < long.updates:
        done, measured = keep.next_measurement(done), measured + 1
    assert len(long.validation_scores) == measured
    assert done == long.updates  # it ends at a measurement
    assert 1 - long.validation_loss >= max(long.validation_scores) - 1e-6
    whole = fit(steps=1500, early_stopping=False, smoothness=0.0)
    assert whole.updates == 1500
    assert len(whole.validation_scores) == whole.held_out == 0
    new = np.random.default_rng(5).uniform(-0.9, 0.9, (500, 2))
    truth = (np.sin(3 * new[:, :1]) + new[:, 1:] ** 2 - 0.3) / 0.8
    errors = [np.mean((np.asarray(o.model(new)) - truth) ** 2) for o in (long, whole)]
    assert errors[0] < 0.6 * errors[1]


def test_smoothness_is_chosen_by_validation_and_acts_smoothly():
    chosen = fit(smoothness="auto")
    assert chosen.smoothness in (1e-4, 1e-3, 1e-2, 1e-1)
    curvatures = [
        float(penalties(fit(early_stopping=False, smoothness=s, networks=1, steps=400).model)[0])
        for s in (0.0, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
    ]
    assert all(a > b for a, b in itertools.pairwise(curvatures))


def test_weight_decay_acts_smoothly():
    variances = [
        float(np.var(fit(early_stopping=False, weight_decay=d, networks=1, steps=400).model(X)))
        for d in (0.0, 1e-3, 1e-2, 1e-1)
    ]
    assert all(0.3 * a < b < a for a, b in itertools.pairwise(variances))


def test_batches_learn_and_validate():
    x = np.random.default_rng(1).uniform(-1, 1, (600, 2))
    y = (np.sin(3 * x[:, :1]) + x[:, 1:] ** 2 - 0.3) / 0.8
    outcome = fit(y, x, batch_size=64, steps=300)
    assert len(outcome.loss_curve) == outcome.updates
    assert 0 < len(outcome.validation_scores) < outcome.updates
    assert max(outcome.validation_scores) > 0.9
    np.testing.assert_array_equal(
        outcome.loss_curve, fit(y, x, batch_size=64, steps=300).loss_curve
    )


def test_equal_rows_are_merged_whatever_their_order():
    x = np.array([[1.0, 0.0], [2.0, 1.0], [1.0, -0.0], [3.0, 3.0]])
    y = np.array([[1.0], [2.0], [1.0], [3.0]])
    weight = np.array([1.0, 2.0, 4.0, 0.0])
    merged = merge_equal_rows(x, y, weight)
    order = np.array([3, 2, 1, 0])
    again = merge_equal_rows(x[order], y[order], weight[order])
    for a, b in zip(merged, again, strict=True):
        np.testing.assert_array_equal(a, b)
    found = dict(zip(merged[0][:, 0].tolist(), merged[2].tolist(), strict=True))
    assert found == {1.0: 5.0, 2.0: 2.0}


def test_every_part_has_its_share_of_each_class():
    classes = np.repeat([0.0, 1.0, 2.0], [50, 30, 20])
    part = validation_folds(classes, 0.1, 5, np.random.default_rng(0))
    assert set(part) == set(range(10))
    for i in range(10):
        assert [int(np.sum(classes[part == i] == c)) for c in range(3)] == [5, 3, 2]


@pytest.mark.parametrize("optimizer", ["adam", "levenberg-marquardt"])
@pytest.mark.parametrize("early_stopping", [True, False])
def test_reports_come_regularly_and_updates_are_at_most_those_asked_for(optimizer, early_stopping):
    reports = []
    options = {"optimizer": optimizer, "early_stopping": early_stopping, "patience": 1000}
    rows = InMemory(Block(X, NOISY, np.ones(len(X))))
    settings = FitSettings(**{**SMALL, "steps": 330, **options})
    outcome = fit_rows(rows, "values", settings, lambda *report: reports.append(report))
    made = [done for done, _, _ in reports]
    assert outcome.updates <= 330
    assert made == sorted(made)
    assert max(np.diff([0, *made, outcome.updates])) <= 50
    assert all(most == 330 for _, most, _ in reports)


def test_a_rate_that_is_too_high_leaves_the_initial_weights():
    """What a training begins with is the first that it has to surpass."""
    settings = FitSettings(**{**SMALL, "learning_rate": 1e6})
    outcome = fit_rows(InMemory(Block(X, NOISY, np.ones(len(X)))), "values", settings)
    assert outcome.validation_loss < 5
    assert np.mean((np.asarray(outcome.model(X)) - Y) ** 2) < 5
