"""Every PDE example, shortened, with an error that this training stays below."""

import importlib.util
from pathlib import Path

import pytest

from kandle import problems, study

EXAMPLES = Path(__file__).parents[2] / "examples" / "pdes"

# name -> (arguments of main, the relative L² error that it stays below)
SHORT = {
    "wave": ({"width": 4, "grid": 5, "degree": 3, "steps": 12}, 0.5),
    "kdv": ({"width": 3, "grid": 6, "steps": 8}, 0.9),
    "navier_stokes": ({"width": 4, "grid": 4, "steps": 8}, 0.3),
    "poisson_disc": ({"width": 4, "grid": 4, "degree": 3, "steps": 10}, 0.3),
    "inverse_heat": ({"width": 4, "grid": 5, "steps": 12}, 0.1),
    "schroedinger": ({"width": 4, "grid": 6, "steps": 10}, 0.6),
    "lorenz": ({"grid": 12, "steps": 50}, 0.02),
}


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_all_are_tested():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SHORT)


@pytest.mark.parametrize("name", SHORT)
def test_example(name, capsys):
    arguments, below = SHORT[name]
    error = load(name).main(**arguments)
    assert error < below
    assert capsys.readouterr().out.splitlines()[-1] == f"relative L² error {error:.1e}"


@pytest.mark.parametrize("name", SHORT)
def test_a_study_accepts_the_problem(name, tmp_path, monkeypatch):
    monkeypatch.chdir(EXAMPLES)
    (problem,) = [n for n, p in vars(load(name)).items() if isinstance(p, problems.PDE)]
    path = tmp_path / "own.toml"
    path.write_text(
        f'problems = ["{name}:{problem}"]\narchitectures = ["small"]\nsteps = 2\n'
        '[[schemes]]\nname = "glorot"\nseeds = 1\n'
    )
    assert study.plan(study.get(path)).runs == 1
