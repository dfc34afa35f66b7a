"""Tables are searched by the error on rows held out of the training rows, and on no others."""

import dataclasses
import types

import jax
import numpy as np
import pandas as pd
import pytest

from kandle import KAN, UserError, kernels
from kandle.cli import main
from kandle.cli._tune import how_sure
from kandle.tabular import FitSettings, Table
from kandle.train import Fit, Optimizer, Population, method_of, predict, shared
from kandle.tune import TableData, tune, tune_table

FEW = {"layers": (3,), "grid": 3, "alphas": (0.0, 0.5, 2.0), "betas": (0.0, 1.0, 2.0)}
STEPS = 400


def wave(x):
    return np.sin(2 * x[:, 0]) + x[:, 1]


def noisy(seed, rows=60, noise=0.3):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (rows, 2))
    frame = pd.DataFrame(x, columns=["a", "b"])
    return frame.assign(y=wave(x) + noise * rng.normal(size=rows))


def rows_of(table, part, of="a"):
    """Which rows of the frame these are, by a column that tells them apart."""
    raw = table.data[of].to_numpy()
    return [int(np.argmin(abs(raw - value))) for value in part]


def test_the_pair_that_is_found_fits_new_rows_better_than_the_closest_fit():
    """Large splines (beta = 0) fit 48 noisy rows closest and predict anything else worst."""
    table = Table(noisy(0), "y")
    tuned = tune(table, steps=STEPS, budget=1e9, alphas=(0.25, 2.0), betas=(0.0, 1.75))
    losses = {(c.alpha, c.beta): c.loss for c in tuned.candidates}
    assert tuned.best.beta == 1.75
    assert losses[0.25, 0.0] > 1.5 * tuned.best.loss


def test_losses_are_those_on_the_rows_held_out():
    table = Table(noisy(0, rows=40), "y", seed=5)
    tuned = tune(table, **FEW, seeds=2, steps=30, budget=1e6)
    assert tuned.held_out == 6
    for seed, loss in enumerate(tuned.best.losses):
        train, held_out = table.fold(seed)
        model = KAN([2, 3, 1], grid=3, init=tuned.scheme, key=jax.random.key(seed))
        schedule = {"name": "cosine_decay", "decay_steps": 30}
        optimizer = Optimizer("adam", 1e-2, schedule)
        method = method_of(optimizer, Fit(), kernels.check_backend(None))
        population = Population([model], shared(train), Fit(), method)
        population.advance(30)
        error = predict(population.models()[0], held_out["x"]) - held_out["y"]
        assert np.mean(error**2) == pytest.approx(loss, rel=1e-3)
    alphas, betas, losses = tuned.landscape()
    best = tuned.best
    assert losses[alphas.index(best.alpha), betas.index(best.beta)] == best.losses[0]


def test_test_rows_take_no_part():
    frame = noisy(1, rows=40)
    table = Table(frame, "y")
    test = rows_of(table, table.scaler.invert(table.evaluation()[0])[:, 0])
    other = frame.copy()
    other.loc[test, ["a", "b", "y"]] = np.random.default_rng(0).normal(size=(len(test), 3)) * 50
    one, two = (tune(Table(f, "y"), **FEW, seeds=2, steps=10) for f in (frame, other))
    assert one == two


@pytest.mark.parametrize(("rows", "held"), [(10, 2), (13, 2), (60, 9), (61, 9)])
def test_folds_share_out_the_training_rows(rows, held):
    table = Table(noisy(2, rows=rows), "y")
    tested = set(rows_of(table, table.scaler.invert(table.evaluation()[0])[:, 0]))
    raw = noisy(2, rows=rows)["a"].to_numpy()
    training = np.asarray(sorted(set(range(rows)) - tested, key=lambda row: raw[row]))
    seen = []
    for i in range(4):
        train, held_out = table.fold(i, "float64")
        # Scaled by the rows that are trained on, others may lie outside.
        np.testing.assert_allclose([train["x"].min(0), train["x"].max(0)], [[-1] * 2, [1] * 2])
        np.testing.assert_allclose([train["y"].mean(), train["y"].std()], [0, 1], atol=1e-12)
        # Scaling keeps the order and is affine: this tells which rows they are.
        a = np.concatenate([train["x"][:, 0], held_out["x"][:, 0]])
        assert len(a) == len(training)
        found = training[np.argsort(np.argsort(a))]
        scale, offset = np.polyfit(raw[found], a, 1)
        np.testing.assert_allclose(scale * raw[found] + offset, a, atol=1e-9)
        assert len(held_out["x"]) == held
        seen += found[-held:].tolist()
    assert len(set(seen)) == 4 * held
    # Once all have been held out they are drawn anew.
    later = table.fold(5)[1]["y"]
    assert all(not np.array_equal(later, table.fold(i)[1]["y"]) for i in range(5))


def test_a_column_may_be_flat_where_nothing_is_held_out():
    """A rare flag stops no search: with every fold but one, it is a constant."""
    frame = noisy(3, rows=40)
    table = Table(frame, "y")
    tested = rows_of(table, table.scaler.invert(table.evaluation()[0])[:, 0])
    row = min(set(range(40)) - set(tested))
    flagged = Table(frame.assign(flag=(np.arange(40) == row).astype(float)), "y")
    assert np.isfinite(tune(flagged, **FEW, seeds=5, steps=5).best.losses).all()


def test_a_training_that_diverges_has_no_error_to_compare():
    table = Table(noisy(0, rows=40), "y")
    with pytest.raises(UserError, match="Every training diverged"):
        tune(table, **FEW, steps=20, optimizer=Optimizer(learning_rate=1e30))


def test_too_few_rows_are_refused_as_by_a_fit(tmp_path, capsys):
    data = tmp_path / "few.csv"
    noisy(0, rows=9).to_csv(data, index=False)
    said = []
    for command in (["tune"], ["fit", "--out", str(tmp_path / "m.safetensors")]):
        assert main([command[0], str(data), "--target", "y", *command[1:]]) == 2
        said.append(capsys.readouterr().err)
    assert said[0] == said[1]
    assert "Table 'few' has 9 rows. Fitting needs at least 10" in said[0]
    with pytest.raises(UserError, match="Fitting needs at least 10"):
        tune(Table(noisy(0, rows=9), "y"), steps=1)
    with pytest.raises(UserError, match=r"has 2 training rows. .* a smaller test_fraction"):
        tune(Table(noisy(0, rows=10), "y", test_fraction=0.8), steps=1)


def test_what_is_said():
    tuned = tune(Table(noisy(0, rows=40), "y"), **FEW, seeds=3, steps=3)
    assert tuned.ranked_by == (
        "the error on 6 rows held out of the training rows, others for every seed"
    )
    assert "resamples of the 3 seeds with their held-out rows" in how_sure(tuned)


TINY = FitSettings(steps=30, networks=1, smoothness=1e-3, batch_size=10_000)
CHOICES = {"layers": [(2,), (3,)], "grids": [3], "decays": [0.0, 10.0], "pairs": [(0.25, 1.0)]}


def test_settings_of_a_table_are_found_by_cross_validation():
    frame = noisy(0, rows=80, noise=0.1)
    data = TableData(frame[["a", "b"]].to_numpy(), frame[["y"]].to_numpy())
    tuned = tune_table(data, seconds=600, base=TINY, **CHOICES)
    assert tuned.complete
    # A decay of 10 leaves nothing of the function.
    assert tuned.best.settings.weight_decay == 0
    assert len(tuned.best.losses) == 5
    assert {len(ranked.losses) for ranked in tuned.ranked} == {1, 3, 5}
    assert len(tuned.nested) == 3
    assert tuned.expected == pytest.approx(np.mean(tuned.nested))


def test_the_expected_score_is_not_that_of_the_selected_maximum():
    """Where there is nothing to learn, the best of many looks better than it is."""
    rng = np.random.default_rng(0)
    data = TableData(rng.uniform(-1, 1, (60, 2)), rng.integers(0, 2, (60, 1)).astype(float), 2)
    tuned = tune_table(data, seconds=600, base=TINY, **CHOICES)
    assert abs(tuned.expected - 0.5) < 0.2


def test_without_time_there_is_still_an_answer():
    frame = noisy(0, rows=40)
    data = TableData(frame[["a", "b"]].to_numpy(), frame[["y"]].to_numpy())
    tuned = tune_table(data, seconds=1e-9, base=TINY, **CHOICES)
    assert not tuned.complete
    assert len(tuned.ranked) == 1
    assert len(tuned.nested) == 1
    with pytest.raises(UserError, match="Tuning needs at least 20 training rows"):
        tune_table(TableData(data.x[:10], data.y[:10]), base=TINY)


@pytest.mark.parametrize("seconds", [30.0, 61.5])
def test_no_fit_is_begun_that_would_end_too_late(seconds, monkeypatch):
    now = [0.0]

    def evaluate(*_):
        now[0] += 1.0
        return 1.0, 0.0

    monkeypatch.setattr("kandle.tune._tables._evaluate", evaluate)
    clock = types.SimpleNamespace(perf_counter=lambda: now[0])
    monkeypatch.setattr("kandle.tune._tables.time", clock)
    data = TableData(np.random.default_rng(0).uniform(size=(60, 2)), np.ones((60, 1)))
    tuned = tune_table(data, seconds=seconds)
    assert not tuned.complete
    assert len(tuned.nested) == 3
    assert seconds - 5 < now[0] <= seconds


def test_without_time_the_settings_stay_as_they_are():
    frame = noisy(0, rows=60)
    data = TableData(frame[["a", "b"]].to_numpy(), frame[["y"]].to_numpy())
    base = dataclasses.replace(TINY, layers=(3,), grid=3)
    tuned = tune_table(data, seconds=1e-9, base=base, **CHOICES)
    assert not tuned.complete
    assert [ranked.settings for ranked in tuned.ranked] == [base]


@pytest.mark.parametrize("budget", ["soon", "5", "-1s"])
def test_a_budget_that_is_no_time_is_refused_by_its_option(budget, capsys):
    assert main(["tune", "d.csv", "--target", "y", f"--budget={budget}"]) == 2
    error = "--budget must be a time such as 90s, 5min or 1h for DATA"
    assert error in capsys.readouterr().err
