"""Training that goes on, and rows and classes that count more than others."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from kandle import KANClassifier, KANRegressor, UserError

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (120, 2))
Y = 5 + np.sin(3 * X[:, 0]) * X[:, 1]
RIGHT = (X[:, 0] > 0.6).astype(int)
SMALL = {
    "layers": (4,),
    "grid": 3,
    "max_iter": 50,
    "random_state": 0,
    "n_networks": 2,
    "smoothness": 1e-4,
}


def test_passes_over_rows_add_up():
    model = KANRegressor(**SMALL, batch_size=30)
    first = model.partial_fit(X, Y).score(X, Y)
    for _ in range(49):
        model.partial_fit(X, Y)
    assert model.n_iter_ == len(model.loss_curve_) == 50 * 4
    assert model.score(X, Y) > max(0.9, first)


def test_a_pass_keeps_the_scaling_of_the_first():
    model = KANRegressor(**SMALL).partial_fit(X, Y)
    inputs = model.fitted_.inputs
    model.partial_fit(3 * X, Y + 100)
    assert model.fitted_.inputs == inputs


def test_the_first_pass_needs_all_classes():
    model = KANClassifier(**SMALL)
    with pytest.raises(UserError, match=r"Got one class: 0\. Pass all of them as 'classes'"):
        model.partial_fit(X[:5], np.zeros(5, int))
    model.partial_fit(X[:5], np.zeros(5, int), classes=[0, 1])
    for _ in range(99):
        model.partial_fit(X, RIGHT)
    assert model.score(X, RIGHT) > 0.9
    with pytest.raises(UserError, match=r"of the classes \[0, 1\]. Got \[7\]"):
        model.partial_fit(X[:1], [7])


def test_a_warm_start_continues_and_a_cold_one_does_not():
    warm, cold = (KANRegressor(**SMALL, warm_start=w).fit(X, Y) for w in (True, False))
    assert warm.score(X, Y) == cold.score(X, Y)
    before = cold.score(X, Y)
    assert warm.fit(X, Y).score(X, Y) > before + 0.01
    assert cold.fit(X, Y).score(X, Y) == before


@pytest.mark.parametrize("grid", [np.int64(3), np.uint8(3), [np.int64(3), 3], (3, 3)], ids=repr)
def test_a_grid_may_be_an_integer_of_numpy(grid):
    """As a search over parameters gives it."""
    model = KANRegressor(**SMALL | {"grid": grid}, warm_start=True)
    plain = KANRegressor(**SMALL, warm_start=True)
    for _ in range(2):
        assert model.fit(X, Y).score(X, Y) == plain.fit(X, Y).score(X, Y)
    with pytest.raises(UserError, match="'grid' or 'degree' cannot differ"):
        model.set_params(grid=np.int64(4)).fit(X, Y)
    with pytest.raises(UserError, match="'grid' must be one integer, or 2, one per layer"):
        model.set_params(grid=[np.int64(3)]).fit(X, Y)


@pytest.mark.parametrize("changed", [{"layers": (5,)}, {"grid": 4}, {"degree": 2}], ids=str)
def test_a_warm_start_cannot_change_the_networks(changed):
    model = KANRegressor(**SMALL, warm_start=True).fit(X, Y)
    [name] = changed
    with pytest.raises(UserError, match=f"'{name}'.* cannot differ from the last fit"):
        model.set_params(**changed).fit(X, Y)
    model.set_params(warm_start=False).fit(X, Y)


def test_rows_count_by_their_weight():
    known = X[:, 0] < 0
    wrong = np.where(known, Y, -Y)
    weight = np.where(known, 1.0, 0.0)
    model = KANRegressor(**SMALL).fit(X, wrong, sample_weight=weight)
    alone = KANRegressor(**SMALL).fit(X[known], Y[known])
    np.testing.assert_allclose(model.predict(X[known]), alone.predict(X[known]), rtol=1e-4)


def test_classes_count_by_their_weight():
    noisy = np.where(RNG.uniform(size=len(X)) < 0.3, 1 - RIGHT, RIGHT)

    def share(class_weight):
        model = KANClassifier(**SMALL, class_weight=class_weight).fit(X, noisy)
        return model.predict_proba(X)[:, 1].mean()

    assert share({0: 1, 1: 20}) > share("balanced") > share(None) > share({0: 20, 1: 1})


def test_text_is_not_a_value():
    with pytest.raises(UserError, match="use KANClassifier"):
        KANRegressor(**SMALL).fit(X, np.where(RIGHT, "a", "b"))
