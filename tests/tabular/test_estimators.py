"""Estimators beyond conformance: they learn, take any start, and come back from a file."""

import dataclasses

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kandle
from kandle import KANClassifier, KANRegressor, UserError, init
from kandle.tabular import FitSettings, fit_values
from kandle.tabular._networks import draw_networks
from kandle.train import predict

RNG = np.random.default_rng(0)
X = RNG.uniform(-3, 5, (120, 2))
Y = 100 + 20 * np.sin(X[:, 0]) * X[:, 1]
SMALL = {
    "layers": (4,),
    "grid": 3,
    "max_iter": 150,
    "random_state": 0,
    "n_networks": 2,
    "smoothness": 1e-4,
}


def test_regression_learns_in_the_data_s_units():
    model = KANRegressor(layers=(4,), max_iter=600, random_state=0).fit(X, Y)
    assert model.score(X, Y) > 0.95
    assert model.model_.widths == (2, 20, 1)  # five networks side by side


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


@pytest.mark.parametrize(
    "changed",
    [
        {"layers": (np.int64(3),)},
        {"layers": [3]},
        {"grid": (3, np.int32(4)), "max_iter": np.int64(2)},
        {"random_state": np.int64(3), "learning_rate": np.float32(0.5)},
    ],
    ids=str,
)
def test_parameters_come_back_from_a_file_as_they_were(changed, tmp_path):
    model = KANRegressor(**{**SMALL, "max_iter": 2, **changed}).fit(X, Y)
    model.save(tmp_path / "m.safetensors")
    back = KANRegressor.load(tmp_path / "m.safetensors")
    assert back.get_params() == model.get_params()
    assert type(back.grid) is type(model.grid)
    assert type(back.layers) is type(model.layers)


def test_widths_of_an_array_and_a_generator_can_be_saved(tmp_path):
    given = {"layers": np.array([3, 2]), "random_state": np.random.RandomState(1), "max_iter": 2}
    model = KANRegressor(**{**SMALL, **given}).fit(X, Y)
    model.save(tmp_path / "m.safetensors")
    back = KANRegressor.load(tmp_path / "m.safetensors")
    assert (back.layers, back.random_state) == ((3, 2), None)
    np.testing.assert_array_equal(back.predict(X), model.predict(X))


@dataclasses.dataclass(frozen=True)
class Mine(init.Scheme):
    """A scheme of a user's own, under a name that is taken."""

    name = "glorot"

    def scales_from_moments(self, n_in, n_out, moments):
        return 0.1, 0.2


def test_a_scheme_of_one_s_own_is_loaded_with_its_weights_and_a_warning(tmp_path):
    model = KANRegressor(**{**SMALL, "max_iter": 2}, init=Mine()).fit(X, Y)
    model.save(tmp_path / "m.safetensors")
    with pytest.warns(UserWarning, match=r"Mine.*'init' is now 'power-law'"):
        back = KANRegressor.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    assert back.init == "power-law"


@pytest.mark.parametrize(
    "labels",
    [
        np.asarray(["2020-01-01", "2021-06-01"], "datetime64[D]"),
        np.asarray(["2020-01-01T01:02", "2021-06-01"], "datetime64[ns]"),
        np.asarray(["no", "yes"], object),
        np.asarray([True, False]),
        np.asarray([1.0, 2.0], np.float32),
    ],
    ids=lambda labels: str(labels.dtype),
)
def test_classes_come_back_from_a_file(labels, tmp_path):
    y = labels[(Y > 100).astype(int)]
    model = KANClassifier(**{**SMALL, "max_iter": 2}).fit(X, y)
    model.save(tmp_path / "c.safetensors")
    back = KANClassifier.load(tmp_path / "c.safetensors")
    assert back.classes_.dtype == labels.dtype
    np.testing.assert_array_equal(back.predict(X), model.predict(X))


def test_classes_that_no_file_can_hold(tmp_path):
    y = np.asarray([1, 2], "timedelta64[D]")[(Y > 100).astype(int)]
    model = KANClassifier(**{**SMALL, "max_iter": 2}).fit(X, y)
    with pytest.raises(UserError, match=r"Classes cannot be saved: .* timedelta"):
        model.save(tmp_path / "c.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_the_same_estimator_gives_the_same_bytes(tmp_path):
    model = KANRegressor(**{**SMALL, "max_iter": 2}).fit(X, Y)
    written = set()
    for i in range(8):
        model.save(tmp_path / f"{i}.safetensors")
        written.add((tmp_path / f"{i}.safetensors").read_bytes())
    assert len(written) == 1


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
    """20 rows are filled up to 32: the first loss is that of the 20."""
    x = RNG.uniform(-1, 1, (20, 1))
    y = x**2
    seen = []
    settings = FitSettings((3,), steps=1, seed=4, networks=1, early_stopping=False)
    fit_values(x, y, settings, lambda *report: seen.append(report))
    [start] = draw_networks([1, 3, 1], 5, 3, init.get("power-law"), 1, 4)
    expected = np.mean((predict(start, x) - y) ** 2)
    assert seen == [(1, 1, pytest.approx(expected, rel=1e-5))]


def test_classification_by_cross_entropy(tmp_path):
    x, y = make_moons(150, noise=0.1, random_state=0)
    names = np.asarray(["left", "right"])[y]
    model = KANClassifier(layers=(4,), max_iter=600, random_state=0).fit(x, names)
    assert model.score(x, names) > 0.95
    p = model.predict_proba(x)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert (model.classes_[p.argmax(axis=1)] == model.predict(x)).all()
    # Cross-entropy, unlike a squared error, makes probabilities confident where classes are apart.
    assert -np.mean(np.log(p[np.arange(len(y)), y])) < 0.2
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
        ({"layers": (0,)}, "'layers'"),
        ({"grid": 0}, "'grid'"),
        ({"max_iter": 0}, "'max_iter'"),
        ({"max_iter": 10.5}, "'max_iter'"),
        ({"max_iter": "10"}, "'max_iter'"),
        ({"layers": "33"}, "'layers'"),
        ({"weight_decay": -1}, "'weight_decay'"),
        ({"weight_decay": "much"}, "'weight_decay'"),
        ({"learning_rate": -1.0}, "'learning_rate'"),
        ({"learning_rate": 1e30, "early_stopping": False}, "diverged"),
        ({"random_state": 2**63}, r"'random_state' must be an integer from 0 to 2³² - 1, a Random"),
        ({"random_state": "one"}, "'random_state'"),
        ({"batch_size": 0}, "'batch_size'"),
        ({"smoothness": "much"}, "'smoothness'"),
        ({"validation_fraction": 1.0}, "'validation_fraction' must be a number above 0 and below"),
        ({"n_iter_no_change": 0}, "'n_iter_no_change'"),
        ({"n_networks": np.float64(0.0)}, r"'n_networks' must be .* Got 0.0 instead"),
        ({"early_stopping": "yes"}, "'early_stopping'"),
    ],
    ids=str,
)
def test_bad_parameters(changed, message):
    with pytest.raises(UserError, match=message):
        KANRegressor(**{**SMALL, "max_iter": 20, **changed}).fit(X, Y)


@pytest.mark.parametrize("seed", [2**63, 2**32, -1, 0.5, True])
def test_seeds_that_would_be_those_of_other_trainings(seed):
    with pytest.raises(UserError, match=r"'seed' must be an integer from 0 to 2³²"):
        FitSettings(seed=seed)
    assert FitSettings(seed=np.int64(2**32 - 1)).seed == 2**32 - 1


def test_other_values_of_a_constant_column_change_no_prediction():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.uniform(-1, 1, 40), np.full(40, 3.0)])
    y = x[:, 0] ** 2
    fast = {"layers": (3,), "grid": 3, "max_iter": 20, "n_networks": 2, "smoothness": 1e-3}
    model = KANRegressor(**fast, random_state=0).fit(x, y)
    np.testing.assert_allclose(model.predict(x + np.array([0, 100])), model.predict(x), rtol=1e-6)
    # Later calls may bring other values, which are learned from then.
    going_on = KANRegressor(**fast, random_state=0).partial_fit(x, y)
    assert np.abs(going_on.predict(x + np.array([0, 1])) - going_on.predict(x)).max() > 1e-3


def test_a_decay_that_leaves_a_constant_is_warned_of():
    strong = {**SMALL, "weight_decay": 10.0, "early_stopping": False}
    with pytest.warns(UserWarning, match="hardly vary: 'weight_decay' 10 may be too large"):
        KANRegressor(**strong).fit(X, Y)
    with pytest.warns(UserWarning, match="hardly vary"):
        KANClassifier(**strong).fit(X, X[:, 0] > 1)
    KANRegressor(**{**strong, "weight_decay": 1e-3}).fit(X, Y)
    KANClassifier(**{**strong, "weight_decay": 1e-3}).fit(X, X[:, 0] > 1)


def test_a_constant_target_is_predicted_as_it_is():
    y = np.column_stack([np.full(120, 7.25), Y])
    model = KANRegressor(**SMALL).fit(X, y)
    np.testing.assert_array_equal(model.predict(X)[:, 0], 7.25)
    assert np.std(model.predict(X)[:, 1]) > 1


def test_a_column_of_text_is_named():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(kind="red")
    with pytest.raises(UserError, match=r"Column 'kind' of X is text, such as 'red'.*OneHotEnc"):
        KANRegressor(**SMALL).fit(frame, Y)
    model = KANClassifier(**SMALL).fit(frame[["a", "b"]].astype(object), Y > 100)
    with pytest.raises(UserError, match="Column 'kind' of X is text"):
        model.predict(frame[["a", "kind"]])


@pytest.mark.parametrize(
    ("changed", "labels", "message"),
    [
        ({"class_weight": "balance"}, [0, 1], "'class_weight' must be None, 'balanced' or a map"),
        ({"class_weight": {0: 1, 1: -1}}, [0, 1], "'class_weight' of 1 must be a finite number"),
        ({}, ["a", 1], "'y' of KANClassifier must be classes of one type. Got 'int, str'"),
        ({}, ["a", None], "'y' of KANClassifier must be classes of one type"),
    ],
)
def test_bad_classes_and_weights(changed, labels, message):
    kind = None if changed else object
    with pytest.raises(UserError, match=message):
        KANClassifier(**SMALL, **changed).fit(X, np.array(labels * 60, dtype=kind))
