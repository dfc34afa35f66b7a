"""Searching for exponents: the budget is kept, survivors go on exactly, the best is found."""

import dataclasses
import itertools
import shlex
import warnings

import numpy as np
import pandas as pd
import pytest

from kandle import UserError, init, problems
from kandle.cli import main
from kandle.train import Architecture, Optimizer, train
from kandle.tune import Candidate, Plan, Rung, Tuned, parse_budget, plan, tune
from kandle.tune._plan import least_budget, shorten

WAVE = problems.Function(
    lambda x: np.sin(4 * x), [(-1, 1)], name="tune-wave", n_train=64, n_test=8, default_steps=60
)
DECAY = problems.PDE(
    "tune-decay",
    lambda x, d: d[0] + d.value,
    [(-1.0, 1.0)],
    [problems.side("start", [(-1.0, 1.0)], axis=0, at=-1.0, value=1.0, n=1)],
    collocation=(20,),
)
LEAST_SQUARES = Optimizer("levenberg-marquardt", arguments={"warmup": 0})
FEW = {"layers": (3,), "grid": 3, "alphas": (0.0, 0.5, 2.0), "betas": (0.0, 1.0, 2.0)}


@pytest.mark.parametrize(("seeds", "steps"), [(1, 2000), (3, 2000), (5, 700)])
@pytest.mark.parametrize("share", [0.07, 0.1, 0.2, 0.5, 0.99])
def test_a_plan_keeps_and_uses_its_budget(seeds, steps, share):
    budget = share * 81 * seeds * steps
    made = plan(81, seeds, steps, budget)
    assert made.model_steps <= budget
    assert made.rungs[0].seeds == 1
    assert made.rungs[-1] == Rung(3, seeds, steps)
    assert [rung.pairs for rung in made.rungs] == [81, 27, 9, 3]
    assert all(a.steps <= b.steps for a, b in itertools.pairwise(made.rungs))
    if made.rungs[0].steps < steps:
        assert made.model_steps > 0.97 * budget


def test_cost_is_counted_run_by_run():
    made = Plan((Rung(81, 1, 100), Rung(27, 3, 300), Rung(9, 3, 1000)))
    assert made.model_steps == 81 * 100 + 27 * 200 + 27 * 2 * 300 + 9 * 3 * 700


def test_extreme_budgets():
    assert plan(81, 2, 100, 1e9).rungs == (Rung(81, 2, 100),)
    with pytest.raises(UserError, match="too small"):
        plan(81, 3, 2000, 1000)


@pytest.mark.parametrize("pairs", [1, 2, 3, 4, 9, 16])
@pytest.mark.parametrize("steps", [1, 20])
def test_the_last_rung_has_all_seeds(pairs, steps):
    least = least_budget(pairs, 3, steps)
    made = plan(pairs, 3, steps, least)
    assert made.model_steps == least
    assert (made.rungs[-1].seeds, made.rungs[-1].steps) == (3, steps)


def test_what_is_left_of_a_plan():
    after = Rung(81, 1, 100)
    planned = Rung(27, 3, 300), Rung(9, 3, 900)
    whole = Plan((after, *planned)).model_steps - after.pairs * after.steps
    assert shorten(planned, after, whole) == planned
    cut = shorten(planned, after, 0.7 * whole)
    assert [rung.pairs for rung in cut] == [27, 9]
    assert cut[0].steps == 300
    assert 300 < cut[1].steps < 900
    spent = Plan((after, *cut)).model_steps - after.pairs * after.steps
    assert 0.99 * 0.7 * whole < spent <= 0.7 * whole
    assert [rung.pairs for rung in shorten(planned, after, 9 * 2 * 102 + 9)] == [9]
    assert shorten(planned, after, 100) == ()
    assert shorten(planned, after, whole, a_rung=0.1 * whole)[1].steps < 900


@pytest.mark.parametrize(
    ("given", "model_steps", "seconds"),
    [
        *(("2e6", 2e6, None), (500, 500, None), (1.5e3, 1500, None)),
        *(("5m", None, 300), ("5min", None, 300), ("5 minutes", None, 300)),
        *(("90s", None, 90), ("90 seconds", None, 90), ("1.5h", None, 5400)),
    ],
)
def test_budgets(given, model_steps, seconds):
    budget = parse_budget(given)
    assert (budget.model_steps, budget.seconds) == (model_steps, seconds)


@pytest.mark.parametrize("given", ["", "5 weeks", "-3", "0", "nan", True, "m", "5 e", "1..5s"])
def test_bad_budgets(given):
    with pytest.raises(UserError, match="'budget'"):
        parse_budget(given)


def test_finalists_are_those_of_whole_trainings_to_the_bit():
    calls = []
    tuned = tune(WAVE, **FEW, seeds=2, budget=600, progress=lambda *now: calls.append(now))
    assert tuned.plan.model_steps <= 600 < tuned.exhaustive
    assert len(tuned.plan.rungs) > 1
    assert calls[-1][0] == calls[-1][1] == tuned.plan.model_steps
    assert len(tuned.candidates) == 9
    members = [(init.PowerLaw(c.alpha, c.beta), seed) for c in tuned.finalists for seed in range(2)]
    whole = train(WAVE, Architecture(width=3, depth=1, grid=3), members, steps=60)
    losses = [loss for c in tuned.finalists for loss in c.losses]
    assert losses == [result.loss for result in whole]
    assert tuned.best.loss == min(c.loss for c in tuned.finalists)


@pytest.mark.parametrize("arguments", [{}, {"form": "kernel", "batch": 20}], ids=["all", "batches"])
def test_finalists_of_least_squares_are_those_of_whole_trainings(arguments):
    """Pairs are discarded on the way: what the method remembers of the others stays theirs."""
    optimizer = dataclasses.replace(LEAST_SQUARES, arguments={"warmup": 0, **arguments})
    options = {"steps": 12, "optimizer": optimizer}
    tuned = tune(WAVE, **FEW, seeds=2, budget=130, **options)
    assert len(tuned.plan.rungs) > 1
    assert tuned.plan.rungs[0].steps > 1
    members = [(init.PowerLaw(c.alpha, c.beta), seed) for c in tuned.finalists for seed in range(2)]
    whole = train(WAVE, Architecture(width=3, depth=1, grid=3), members, **options)
    losses = [loss for c in tuned.finalists for loss in c.losses]
    assert losses == [result.loss for result in whole]
    first = [candidate.first_loss for candidate in tuned.finalists]
    assert (np.array(losses[::2]) < first).all()


@pytest.mark.parametrize("optimizer", [Optimizer(), LEAST_SQUARES], ids=["adam", "least squares"])
@pytest.mark.parametrize("rba", [None, "text"])
def test_a_pde_is_searched_by_the_loss_that_train_would_have(optimizer, rba):
    """Least squares weights conditions more, and has no attention unless it is asked for."""
    options = {"steps": 4, "optimizer": optimizer, "rba": rba}
    chosen = {**FEW, "alphas": (0.0, 1.0), "betas": (1.0,)}
    tuned = tune(DECAY, **chosen, seeds=1, budget=1e6, **options)
    members = [(init.PowerLaw(c.alpha, c.beta), 0) for c in tuned.candidates]
    whole = train(DECAY, Architecture(width=3, depth=1, grid=3), members, **options)
    losses = [candidate.loss for candidate in tuned.candidates]
    assert losses == [result.loss for result in whole]


def test_all_pairs_if_the_budget_allows_and_how_sure():
    tuned = tune(WAVE, **FEW, seeds=2, steps=20, budget=1e6)
    assert {c.steps for c in tuned.candidates} == {20}
    assert len(tuned.finalists) == 9
    assert 0 < tuned.confidence <= 1
    alphas, betas, losses = tuned.landscape()
    assert losses.shape == (3, 3)
    best = tuned.best
    assert losses[alphas.index(best.alpha), betas.index(best.beta)] == best.losses[0]
    namespace = {}
    exec(tuned.code(), namespace)
    assert namespace["model"].widths == (1, 3, 1)


def test_a_time_is_a_budget_too():
    calls = []
    tuned = tune(
        WAVE, **FEW, seeds=1, steps=30, budget="60s", progress=lambda *now: calls.append(now)
    )
    assert tuned.best.steps == 30
    assert calls[-1][0] == calls[-1][1] == tuned.plan.model_steps
    assert tuned.cut is None
    with pytest.raises(UserError, match=r"^1e-05 min is too short for .* at least about .* min"):
        tune(WAVE, **FEW, seeds=1, steps=30, budget="0.00001min")


def test_a_search_that_turns_out_too_long_is_cut_and_says_so(monkeypatch):
    from kandle.tune import _clock

    def planned(self, pairs, seeds, steps, advance):
        advance(2)
        return plan(pairs, seeds, steps, 500)

    monkeypatch.setattr(_clock.Clock, "plan", planned)
    # A model-step takes a second; after the first rung there is time for some, or for one.
    for left, said in ((120.0, "after 36 of 50 steps"), (1.0, "steps and from 1 of 2 seeds")):
        monkeypatch.setattr(_clock.Clock, "_left", lambda self, left=left: left / 0.9)
        monkeypatch.setattr(_clock.Clock, "note", lambda self, *_: setattr(self, "_a_step", 1.0))
        tuned = tune(WAVE, **FEW, seeds=2, steps=50, budget="20s")
        assert tuned.cut is not None
        assert said in tuned.cut
        assert tuned.best.steps == tuned.plan.rungs[-1].steps < 50


def outcome(*losses):
    finalists = tuple(
        Candidate(0.25 * i, 1.0, 0, 10, tuple(values), values[0]) for i, values in enumerate(losses)
    )
    seeds = len(losses[0])
    rung = Rung(len(losses), seeds, 10)
    return Tuned(finalists, Plan((rung,)), 10 * seeds * len(losses), (1, 1), 5, 3, seeds, 10)


def test_confidence_is_a_share_of_resampled_seeds():
    assert outcome((1, 2, 3), (4, 5, 6), (7, 8, 9)).confidence == 1
    # Of 27 resamples, seed 2 makes the median in 7: where it is drawn twice or more.
    assert outcome((1, 1, 9), (2, 2, 2)).confidence == pytest.approx(20 / 27)
    assert outcome((1, 2), (1, 2)).confidence == 0.5
    assert np.isnan(outcome((1,), (2,)).confidence)
    assert np.isnan(outcome((1, 2)).confidence)
    many = outcome(range(7), range(1, 8))
    assert many.confidence == 1


def test_how_sure_says_no_more_than_the_seeds_tell():
    from kandle.cli._tune import how_sure

    assert "not known from one seed" in how_sure(outcome((1,), (2,)))
    said = how_sure(outcome((1, 1, 9), (2, 2, 2)))
    assert "best of 2 finalists in 74 % of resamples of the 3 seeds" in said
    assert "chance" not in said
    assert "no other pair" in how_sure(outcome((1, 2)))


@pytest.mark.parametrize("shape", [(3, 3), (1, 2), (4, 4)])
def test_the_default_budget_serves_small_grids(shape):
    alphas, betas = (tuple(0.5 * i for i in range(n)) for n in shape)
    tuned = tune(WAVE, layers=(3,), grid=3, steps=5, alphas=alphas, betas=betas)
    assert len(tuned.candidates) == shape[0] * shape[1]
    assert len(tuned.best.losses) == 3
    assert tuned.best.steps == 5


def test_exponents_to_choose_from():
    tuned = tune(WAVE, layers=(3,), grid=3, steps=5, alphas=(1, 1.0), betas=(1, 1.75, 1))
    assert sorted((c.alpha, c.beta) for c in tuned.candidates) == [(1, 1), (1, 1.75)]
    for empty in ({"alphas": ()}, {"betas": []}):
        with pytest.raises(UserError, match="one or more numbers"):
            tune(WAVE, **{**FEW, **empty})


def test_nothing_but_divergence_is_an_error():
    with pytest.raises(UserError, match="Every training diverged"):
        tune(WAVE, **FEW, steps=20, optimizer=Optimizer(learning_rate=1e30))


def test_inputs_that_splines_hardly_see_are_told():
    wide = problems.Function(lambda x: np.sin(x), [(0, 5)], name="wide", n_train=20, n_test=5)
    with pytest.warns(UserWarning, match=r"Input 0 .* from 0 to 5.*problem\.scaled\(\)"):
        tune(wide, **FEW, steps=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tune(wide.scaled(), **FEW, steps=3)


def test_the_printed_command_can_be_pasted_whatever_columns_are_called(
    tmp_path, capsys, monkeypatch
):
    x = np.linspace(-1, 1, 30)
    pd.DataFrame({"-x": x, "-y": np.sin(x)}).to_csv(tmp_path / "d.csv", index=False)
    options = ["--layers", "2", "--grid", "3", "--steps", "3", "--budget", "1s"]
    rate = ["--rate", "0.0123456789"]
    monkeypatch.chdir(tmp_path)
    assert main(["tune", "d.csv", "--target=-y", "--inputs=-x", *options, *rate]) == 0
    command = shlex.split(capsys.readouterr().out.strip().splitlines()[-1])
    assert command[command.index("--rate") + 1] == "0.0123456789"
    assert main(command[1:]) == 0


def test_program(tmp_path, capsys, monkeypatch):
    x = np.linspace(-1, 1, 40)
    lines = [f"{a},{np.sin(3 * a)}" for a in x]
    data = tmp_path / "my data.csv"
    data.write_text("\n".join(["x,y", *lines]))
    options = ["--layers", "2", "--grid", "3", "--steps", "12"]
    assert main(["tune", str(data), "--target", "y", *options, "--budget", "2s"]) == 0
    shown = capsys.readouterr().out
    assert "task: regression" in shown
    assert "expected on new rows: R²" in shown
    # The last line is the command that trains from what was found.
    command = shlex.split(shown.strip().splitlines()[-1])
    assert command[:5] == ["kandle", "fit", str(data), "--target", "y"]
    monkeypatch.chdir(tmp_path)
    assert main(command[1:]) == 0
    assert (tmp_path / "model.safetensors").exists()
    capsys.readouterr()
    few = ["--layers", "2", "--steps", "2", "--seeds", "1", "--budget", "400"]
    assert main(["tune", "--problem", "f1", *few]) == 0
    shown = capsys.readouterr().out
    assert "ranked by the training loss\n" in shown
    assert "alpha\\beta" in shown
    assert shown.count("*") >= 3
    assert "not known from one seed" in shown
    for wrong in (
        ["tune"],
        ["tune", str(data)],
        ["tune", "--problem", "f1", "--target", "y"],
        ["tune", "--problem", "f1", "--inputs", "x"],
        ["tune", str(data), "--target", "y", "--seeds", "2"],
        ["tune", str(data), "--target", "y", "--budget", "800"],
    ):
        assert main(wrong) == 2
        assert capsys.readouterr().err.startswith("kandle: error:")
