"""Schedules of grids and recipes in the estimators and in `kandle fit`."""

import dataclasses

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.base import clone

from kandle import KANClassifier, KANRegressor, UserError
from kandle.cli import main
from kandle.tabular import FitSettings, fit_rows, load_fitted
from kandle.tabular._rows import Block, InMemory
from kandle.tabular._settings import with_recipe

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (90, 2))
Y = np.sin(4 * X[:, 0]) + X[:, 1] ** 2
SMALL = {"layers": (3,), "n_networks": 2, "smoothness": 1e-5, "max_iter": 100, "random_state": 0}
EXACT = {**SMALL, "n_networks": 1, "smoothness": 0.0, "early_stopping": False}


def finest(model):
    return [layer.basis.grid for layer in model.model_.layers]


def test_a_schedule_ends_on_its_last_grid_and_counts_all_updates():
    model = KANRegressor(**EXACT, grids=[3, 6]).fit(X, Y)
    # Domains may widen by whole intervals before they are refined.
    assert finest(model)[0] == 6
    assert finest(model)[1] >= 6
    assert model.n_iter_ == len(model.loss_curve_) == 200


def test_the_function_is_continued_by_the_finer_grid():
    coarse = KANRegressor(**EXACT, grid=3).fit(X, Y)
    both = KANRegressor(**EXACT, grids=[3, 6]).fit(X, Y)
    # The first grid trains as it would alone, and the next one begins with its function.
    np.testing.assert_array_equal(both.loss_curve_[:100], coarse.loss_curve_)
    after = np.mean((coarse.predict(X) - Y) ** 2) / np.var(Y)
    assert both.loss_curve_[100] == pytest.approx(after, rel=1e-3)
    assert both.loss_curve_[-1] < 0.5 * coarse.loss_curve_[-1]


@pytest.mark.parametrize(
    ("optimizer", "batch_size"), [("adam", "auto"), ("adam", 30), ("levenberg-marquardt", "auto")]
)
def test_a_finer_grid_is_never_worse_on_the_rows_held_out(optimizer, batch_size):
    noisy = Y + 0.3 * np.random.default_rng(1).normal(size=len(Y))
    rows = InMemory(Block(X, noisy[:, None], np.ones(len(X))))
    options = {"layers": (3,), "networks": 2, "smoothness": 1e-5, "steps": 100}
    given = FitSettings(**options, grid=3, optimizer=optimizer, batch_size=batch_size)
    # Several times as many weights as rows: the finer grid tends to overfit.
    coarse = fit_rows(rows, "values", given)
    both = fit_rows(rows, "values", dataclasses.replace(given, grids=(3, 24)))
    assert both.validation_loss <= coarse.validation_loss * (1 + 1e-4)
    np.testing.assert_array_equal(both.loss_curve[: len(coarse.loss_curve)], coarse.loss_curve)


def test_classes_have_schedules_too():
    options = {**SMALL, "grids": (3, 6), "smoothness": 1e-4}
    model = KANClassifier(**options).fit(X, Y > 0)
    assert finest(model)[0] == 6
    assert model.score(X, Y > 0) > 0.9


def test_least_squares_refines():
    model = KANRegressor(**EXACT, optimizer="levenberg-marquardt", grids=[2, 4]).fit(X, Y)
    alone = KANRegressor(**EXACT, optimizer="levenberg-marquardt", grid=2).fit(X, Y)
    assert finest(model)[0] == 4
    assert model.loss_curve_[-1] < 0.5 * alone.loss_curve_[-1]
    assert all(b <= a for a, b in zip(model.loss_curve_, model.loss_curve_[1:], strict=False))


def test_a_recipe_sets_what_is_left_at_its_default():
    assert KANRegressor(recipe="accurate")._settings().optimizer == "levenberg-marquardt"
    assert KANRegressor(recipe="accurate")._settings().grids == (5, 10)
    assert KANRegressor(recipe="accurate", grid=4)._settings().grids == (4, 8)
    assert KANRegressor(recipe="accurate", grid=[4, 6])._settings().grids is None
    assert KANRegressor(recipe="accurate", grids=[2, 4])._settings().grids == [2, 4]
    paper = clone(KANRegressor(recipe="paper", max_iter=70))._settings()
    assert (paper.learning_rate, paper.steps, paper.networks) == (1e-3, 70, 1)
    assert with_recipe(None, {"grid": 4}) == {"grid": 4}


def test_a_recipe_and_a_schedule_survive_a_file(tmp_path):
    model = KANRegressor(recipe="fast", layers=(2,), grids=[2, 4], max_iter=5, random_state=0)
    model.fit(X, Y).save(tmp_path / "m.safetensors")
    loaded = KANRegressor.load(tmp_path / "m.safetensors")
    assert (loaded.recipe, loaded.grids) == ("fast", [2, 4])
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grids": [10, 5]}, "'grids' must be None, or increasing integers"),
        ({"grids": []}, "'grids' must be None, or increasing integers"),
        ({"grids": 5}, "'grids' must be None, or increasing integers"),
        ({"grids": [5, 10.0]}, "'grids' must be None, or increasing integers"),
        ({"recipe": "best"}, "Unknown recipe 'best'"),
        ({"recipe": ["accurate"]}, "Unknown recipe"),
        (
            {"grids": [5, 20_000], "optimizer": "levenberg-marquardt", "layers": (64,)},
            r"weights fit: reduce the width or the grid",
        ),
        ({"grids": [5, 10**8]}, "and grid 100000000 has"),
    ],
)
def test_bad_schedules_are_rejected_before_training(options, message):
    with pytest.raises(UserError, match=message):
        KANRegressor(**{**SMALL, **options}).fit(X, Y)


def test_a_schedule_cannot_continue_a_fit():
    model = KANRegressor(**{**SMALL, "max_iter": 5}, grids=[2, 4], warm_start=True).fit(X, Y)
    with pytest.raises(UserError, match="A schedule of grids cannot continue an earlier fit"):
        model.fit(X, Y)


def test_the_command_takes_a_schedule(tmp_path, capsys):
    data, out = tmp_path / "d.csv", tmp_path / "m.safetensors"
    np.savetxt(data, np.c_[X, Y], delimiter=",", header="a,b,y", comments="")
    base = ["fit", str(data), "--target", "y", "--out", str(out), "--layers", "2", "--steps", "20"]
    assert main([*base, "--networks", "1", "--smoothness", "0", "--grids", "3,6"]) == 0
    assert "of 40 updates" in capsys.readouterr().out
    assert load_fitted(out).model.layers[0].basis.grid == 6
    assert main([*base, "--grids", "3,6", "--grid", "3"]) == 2
    assert "give one of them" in capsys.readouterr().err
    assert main([*base, "--grids", "6,3"]) == 2
    assert "'--grids' must be None, or increasing integers" in capsys.readouterr().err
