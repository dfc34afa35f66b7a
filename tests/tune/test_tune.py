"""Searching for exponents: the budget is kept, survivors go on exactly, the best is found."""

import itertools

import numpy as np
import pytest

from kandle import init, problems
from kandle._errors import UserError
from kandle.cli import main
from kandle.train import Architecture, train
from kandle.tune import Plan, Rung, parse_budget, plan, tune

WAVE = problems.Function(
    lambda x: np.sin(4 * x), [(-1, 1)], name="tune-wave", n_train=64, n_test=8, default_steps=60
)
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


@pytest.mark.parametrize(
    ("given", "model_steps", "seconds"),
    [("2e6", 2e6, None), (500, 500, None), ("5m", None, 300), ("1.5h", None, 5400)],
)
def test_budgets(given, model_steps, seconds):
    budget = parse_budget(given)
    assert (budget.model_steps, budget.seconds) == (model_steps, seconds)


@pytest.mark.parametrize("given", ["", "5 weeks", "-3", "0", "nan", True, "m"])
def test_bad_budgets(given):
    with pytest.raises(UserError, match="'budget'"):
        parse_budget(given)


def test_finalists_are_those_of_whole_trainings_to_the_bit():
    told = []
    tuned = tune(WAVE, **FEW, seeds=2, budget=600, progress=lambda *now: told.append(now))
    assert tuned.plan.model_steps <= 600 < tuned.exhaustive
    assert len(tuned.plan.rungs) > 1
    assert told[-1][0] == told[-1][1] == tuned.plan.model_steps
    assert len(tuned.candidates) == 9
    members = [(init.PowerLaw(c.alpha, c.beta), seed) for c in tuned.finalists for seed in range(2)]
    whole = train(WAVE, Architecture(width=3, depth=1, grid=3), members, steps=60)
    losses = [loss for c in tuned.finalists for loss in c.losses]
    assert losses == [result.loss for result in whole]
    assert tuned.best.loss == min(c.loss for c in tuned.finalists)


def test_all_pairs_if_the_budget_allows_and_how_sure():
    tuned = tune(WAVE, **FEW, seeds=2, steps=20, budget=1e6)
    assert {c.steps for c in tuned.candidates} == {20}
    assert len(tuned.finalists) == 9
    assert 0.5 <= tuned.confidence <= 1
    alphas, betas, losses = tuned.landscape()
    assert losses.shape == (3, 3)
    best = tuned.best
    assert losses[alphas.index(best.alpha), betas.index(best.beta)] == best.losses[0]
    namespace = {}
    exec(f"import jax\nfrom kandle import KAN, init\nmodel = {tuned.code()}", namespace)
    assert namespace["model"].widths == (1, 3, 1)


def test_a_time_is_a_budget_too():
    tuned = tune(WAVE, **FEW, seeds=1, steps=30, budget="60s")
    assert tuned.best.steps == 30


def test_program(tmp_path, capsys):
    x = np.linspace(-1, 1, 40)
    lines = [f"{a},{np.sin(3 * a)}" for a in x]
    data = tmp_path / "data.csv"
    data.write_text("\n".join(["x,y", *lines]))
    options = ["--layers", "2", "--grid", "3", "--steps", "12", "--seeds", "1"]
    assert main(["tune", str(data), "--target", "y", *options, "--budget", "800"]) == 0
    shown = capsys.readouterr().out
    assert "alpha\\beta" in shown
    assert shown.count("*") >= 3
    assert "KAN([1, 2, 1], grid=3, init=init.PowerLaw(" in shown
    for wrong in (["tune"], ["tune", str(data)], ["tune", "--problem", "f1", "--target", "y"]):
        assert main(wrong) == 2
        assert capsys.readouterr().err.startswith("kandle: error:")
