"""Every example runs, shortened."""

import importlib.util
import re
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
    tested |= {"torch_mnist_like", "torch_pinn"}
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


def test_torch_mnist_like():
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    assert load("torch_mnist_like").main(epochs=3) > 0.9


def test_torch_pinn():
    pytest.importorskip("torch")
    assert load("torch_pinn").main(steps=200) < 0.3


def test_own_problem(capsys):
    """The pair it finds has the loss it prints, and no searched corner beats it."""
    from kandle import init
    from kandle.train import Architecture, train

    example = load("own_problem")
    alpha, beta = example.main(steps=12, seeds=1, budget=400)
    printed = capsys.readouterr().out
    assert "KAN([2, 8, 8, 1]" in printed
    [found] = re.findall(r"found alpha = (\S+), beta = (\S+): (\S+)", printed)
    assert (float(found[0]), float(found[1])) == (alpha, beta)
    pairs = [(alpha, beta), (0.0, 0.0), (2.0, 2.0)]
    small = Architecture(width=8, depth=2, grid=5)
    members = [(init.PowerLaw(a, b), 0) for a, b in pairs]
    own, *corners = train(example.ripples, small, members, steps=12)
    assert own.loss == pytest.approx(float(found[2]), rel=0.02)
    assert own.loss < min(corner.loss for corner in corners)


def test_own_study(capsys):
    assert load("own_study").main(steps=10) == 8
    printed = capsys.readouterr().out
    table = printed.split("nothing was left to do")[1].split("\n", 1)[1]
    assert [len(re.findall(rf"\b{name}\b", table)) for name in ("glorot", "power-law")] == [2, 2]
