"""Every example runs, shortened."""

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_all_are_tested():
    tested = {"train_a_kan", "fit_a_table", "torch_kan", "own_problem", "own_study"}
    assert {path.stem for path in EXAMPLES.glob("*.py")} == tested


def test_train_a_kan(capsys):
    assert load("train_a_kan").main(steps=200) < 0.05
    assert "after 200 steps" in capsys.readouterr().out


def test_fit_a_table():
    pytest.importorskip("sklearn")
    assert load("fit_a_table").main(max_iter=300) > 0.95


def test_torch_kan():
    pytest.importorskip("torch")
    before, after = load("torch_kan").main(steps=60)
    assert after < before


def test_own_problem(capsys):
    alpha, beta = load("own_problem").main(steps=12, seeds=1, budget=400)
    assert 0 <= alpha <= 2
    assert 0 <= beta <= 2
    assert "KAN([2, 8, 8, 1]" in capsys.readouterr().out


def test_own_study():
    assert load("own_study").main(steps=10) == 8
