"""Tables by least squares: accuracy, penalties, validation, and what cannot be trained that way."""

import jax
import numpy as np
import pytest

from kandle import KANClassifier, KANRegressor, UserError
from kandle.nn import KAN
from kandle.tabular import RECIPES, FitSettings
from kandle.tabular._keep import KeepBest
from kandle.tabular._objective import PenalizedRows, penalties
from kandle.train import recipe
from kandle.train._layout import Layout

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (60, 2))
Y = X[:, 0] * X[:, 1] + 0.5 * X[:, 0] ** 2
SMALL = {"layers": (2,), "grid": 3, "n_networks": 1, "random_state": 0}
LEAST_SQUARES = {**SMALL, "optimizer": "levenberg-marquardt"}


def test_a_table_without_noise_is_fitted_better_than_by_adam():
    options = {"max_iter": 400, "smoothness": 0.0, "early_stopping": False}
    adam = KANRegressor(**SMALL, **options).fit(X, Y)
    exact = KANRegressor(**LEAST_SQUARES, **options).fit(X, Y)
    assert exact.loss_curve_[-1] < 1e-2 * adam.loss_curve_[-1]
    assert len(exact.loss_curve_) * 20 == exact.n_iter_ <= 400
    assert np.abs(exact.predict(X) - Y).max() < np.abs(adam.predict(X) - Y).max()


def test_held_out_rows_choose_the_weights_and_the_penalty():
    y = Y + 0.05 * RNG.normal(size=len(Y))
    model = KANRegressor(**LEAST_SQUARES, max_iter=200).fit(X, y)
    assert model.smoothness_ in (1e-4, 1e-3, 1e-2, 1e-1)
    # Measured at the start and on schedule, where iterations count as 20 updates each.
    keep, done, measured = KeepBest({}, patience=100, unit=20), 0, 1
    while done < len(model.loss_curve_):
        done, measured = keep.next_measurement(done), measured + 1
    assert len(model.validation_scores_) == measured
    assert model.score(X, Y) > 0.9


def test_the_penalty_is_that_of_the_training_loss():
    with jax.enable_x64(True):
        model = KAN([2, 3, 1], grid=3, key=jax.random.key(0), dtype="float64")
        layout = Layout.of(model)
        theta = layout.vector(model)
        curvature, size = penalties(model)
        data = {"penalty": np.array([0.3, 0.02])}
        matrix = PenalizedRows("values").penalty_matrix(layout.template, data)
        found = theta @ matrix @ theta
    np.testing.assert_allclose(found, 0.3 * float(curvature) + 0.02 * float(size), rtol=1e-12)


def test_a_penalty_of_the_iterations_is_a_penalty_of_the_result():
    rough, smooth = (
        KANRegressor(**LEAST_SQUARES, max_iter=300, early_stopping=False, smoothness=s).fit(X, Y)
        for s in (0.0, 1.0)
    )
    assert float(penalties(smooth.model_)[0]) < 0.2 * float(penalties(rough.model_)[0])


def test_recipes_of_training_are_recipes_of_tables():
    for name in ("accurate", "paper", "fast"):
        FitSettings(**RECIPES[name])
    accurate, paper = recipe("accurate"), recipe("paper")
    assert RECIPES["accurate"]["optimizer"] == accurate.optimizer.name == "levenberg-marquardt"
    assert RECIPES["accurate"]["grids"] == accurate.grids(FitSettings.grid)
    assert RECIPES["paper"]["learning_rate"] == paper.optimizer.learning_rate
    assert RECIPES["fast"] is RECIPES["quick"]


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda: KANClassifier(**LEAST_SQUARES).fit(X, Y > 0), "needs numbers as targets"),
        (lambda: KANRegressor(**LEAST_SQUARES).partial_fit(X, Y), "'partial_fit' needs"),
        (
            lambda: KANRegressor(**LEAST_SQUARES, init="lecun-normalized").fit(X, Y),
            "must be not lecun-normalized",
        ),
        (
            lambda: KANRegressor(optimizer="newton").fit(X, Y),
            "'optimizer' must be 'adam' or 'levenberg-marquardt'",
        ),
    ],
)
def test_what_least_squares_cannot_train(fit, message):
    with pytest.raises(UserError, match=message):
        fit()
