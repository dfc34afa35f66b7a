"""Estimators beyond conformance: they learn, take any start, and come back from a file."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kandle
from kandle import KANClassifier, KANRegressor, init
from kandle._errors import UserError

RNG = np.random.default_rng(0)
X = RNG.uniform(-3, 5, (120, 2))
Y = 100 + 20 * np.sin(X[:, 0]) * X[:, 1]
SMALL = {"layers": (4,), "grid": 3, "max_iter": 150, "random_state": 0}


def test_regression_learns_in_the_data_s_units():
    model = KANRegressor(layers=(4,), max_iter=600, random_state=0).fit(X, Y)
    assert model.score(X, Y) > 0.98
    assert model.n_iter_ == 600
    assert model.model_.widths == (2, 4, 1)


@pytest.mark.parametrize("scheme", ["lecun-normalized", init.PowerLaw(0.5, 1.0)], ids=str)
def test_any_start_comes_back_from_a_file(scheme, tmp_path):
    model = KANRegressor(**SMALL, init=scheme).fit(X, Y)
    model.save(tmp_path / "m.safetensors")
    back = KANRegressor.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    assert back.get_params() == model.get_params()
    # Rows are predicted alone as they are together: statistics are those of the training.
    np.testing.assert_allclose(model.predict(X[:1]), model.predict(X)[:1], rtol=1e-5)
    with pytest.raises(UserError, match="a saved KANClassifier"):
        KANClassifier.load(tmp_path / "m.safetensors")
    plain = tmp_path / "plain.safetensors"
    kandle.save(model.model_, plain)
    with pytest.raises(UserError, match="without a table"):
        KANRegressor.load(plain)


def test_the_start_matters_and_the_seed_decides():
    outputs = [
        KANRegressor(**{**SMALL, "max_iter": 3, **changed}).fit(X, Y).predict(X)
        for changed in ({}, {}, {"random_state": 1}, {"init": "glorot"})
    ]
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert not np.allclose(outputs[0], outputs[2])
    assert not np.allclose(outputs[0], outputs[3])


def test_several_targets():
    both = np.stack([Y, -Y], axis=1)
    model = KANRegressor(**SMALL).fit(X, both)
    assert model.predict(X).shape == (120, 2)
    one = KANRegressor(**SMALL).fit(X, both[:, :1])
    assert one.predict(X).shape == (120, 1)


def test_padding_rows_weigh_nothing():
    """120 rows are filled up to 128: the loss is that of 120."""
    from kandle.estimators import FitSettings, fit_values
    from kandle.estimators._fit import _filled
    from kandle.train import predict

    x = RNG.uniform(-1, 1, (20, 1))
    y = x**2
    seen = []
    model = fit_values(x, y, FitSettings((3,), steps=1, seed=4), lambda *told: seen.append(told))
    assert _filled(x).shape == (32, 1)
    import jax

    start = kandle.KAN([1, 3, 1], grid=5, init="power-law", key=jax.random.key(4))
    expected = np.mean((predict(start, x) - y) ** 2)
    assert seen == [(1, 1, pytest.approx(expected, rel=1e-5))]
    assert model.widths == (1, 3, 1)


def test_classification_by_cross_entropy(tmp_path):
    x, y = make_moons(150, noise=0.1, random_state=0)
    names = np.asarray(["left", "right"])[y]
    model = KANClassifier(layers=(4,), max_iter=300, random_state=0).fit(x, names)
    assert model.score(x, names) > 0.97
    p = model.predict_proba(x)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert (model.classes_[p.argmax(axis=1)] == model.predict(x)).all()
    # Cross-entropy, unlike a squared error, makes probabilities confident where classes are apart.
    assert -np.mean(np.log(p[np.arange(len(y)), y])) < 0.1
    model.save(tmp_path / "c.safetensors")
    back = KANClassifier.load(tmp_path / "c.safetensors")
    assert (back.predict(x) == model.predict(x)).all()
    assert back.classes_.dtype == names.dtype


def test_pipeline_and_grid_search():
    pipeline = make_pipeline(StandardScaler(), KANRegressor(**{**SMALL, "max_iter": 60}))
    search = GridSearchCV(
        pipeline, {"kanregressor__init": ["glorot", init.PowerLaw(0.25, 1.75)]}, cv=2
    ).fit(X, Y)
    assert np.isfinite(search.best_score_)
    assert clone(search.best_estimator_).get_params()["kanregressor__init"] is not None


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"init": "xavier"}, "Unknown scheme 'xavier'"),
        ({"layers": 8}, "'layers'"),
        ({"layers": (0,)}, "'widths'"),
        ({"grid": 0}, "'grid'"),
        ({"max_iter": 0}, "steps"),
        ({"learning_rate": -1.0}, "'learning_rate'"),
        ({"learning_rate": 1e30}, "diverged"),
    ],
    ids=str,
)
def test_bad_parameters(changed, message):
    with pytest.raises(UserError, match=message):
        KANRegressor(**{**SMALL, "max_iter": 20, **changed}).fit(X, Y)
