"""Kernels through the program: of a saved model, and in the studies that follow them."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kandle import KAN, ntk, problems, save, study
from kandle.cli import main
from kandle.store import Store
from kandle.train import Architecture, Member, train

TINY = ("--grids", "3", "--widths", "2", "--depths", "1")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("ntk") / "model.safetensors"
    save(KAN([2, 2, 1], grid=3, key=jax.random.key(0)), path)
    return path


def test_a_saved_model_is_read_in_figures_and_words(model, tmp_path, capsys):
    out = tmp_path / "spectrum.png"
    assert main(["ntk", str(model), "--problem", "f3", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    for word in ("256 points", "condition", "effective rank", "entropy", "trace", "2,000 steps"):
        assert word in said
    assert said.count("•") == 56
    assert out.read_bytes().startswith(b"\x89PNG")


def test_json_holds_all_numbers(model, capsys):
    assert main(["ntk", str(model), "--problem", "allen-cahn", "--steps", "7", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert output["steps"] == 7
    assert {block: len(b["eigenvalues"]) for block, b in output["blocks"].items()} == {
        "pde": 256,
        "bc": 32,
    }
    assert "within 7 steps" in output["blocks"]["bc"]["reading"]


def test_a_float64_model_is_read_from_a_float32_program(tmp_path, capsys):
    with jax.enable_x64(True):
        save(
            KAN([2, 1], grid=3, key=jax.random.key(0), dtype=jnp.float64),
            tmp_path / "double.safetensors",
        )
    assert main(["ntk", str(tmp_path / "double.safetensors"), "--problem", "f1"]) == 0
    assert jnp.zeros(1).dtype == jnp.float32


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--problem", "f9"], "Unknown problem 'f9'"),
        (["--problem", "I.6.2", "--steps", "0"], "'steps' must be"),
        (["--problem", "f3", "--out", "spectrum.txt"], "must end in .png, .pdf, .svg"),
    ],
)
def test_errors_are_one_line(model, options, said, capsys):
    assert main(["ntk", str(model), *options]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "problem", "blocks", "runs", "checkpoints"),
    [
        ("ntk-functions", "f3", {"ntk"}, 4, 5),
        ("ntk-pdes", "burgers", {"pde", "bc"}, 4, 6),
        ("ntk-exponents", "f3", {"ntk"}, 4, 3),
    ],
)
def test_studies_keep_spectra(
    name, problem, blocks, runs, checkpoints, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(study, "LocalExecutor", lambda workers: study.InlineExecutor())
    asked = ["--scale", "smoke", "--problems", problem, *TINY, "--store", str(tmp_path / "store")]
    assert main(["study", "run", name, *asked]) == 0
    assert f"{runs} of {runs} runs are stored" in capsys.readouterr().out
    with Store.open(tmp_path / "store") as store:
        found = store.spectra()
    assert len(found) == runs
    for spectra in found.values():
        assert {s.block for s in spectra} == blocks
        assert len(spectra) == len(blocks) * checkpoints
        assert all(np.all(np.diff(s.eigenvalues) <= 0) for s in spectra)


def test_a_checkpoint_has_the_spectrum_of_its_model():
    """Not of the start, not of the end: the model after so many updates, with its weights α."""
    problem, taken = problems.get("allen-cahn"), {}

    def keep(step, checkpoints):
        (one,) = checkpoints
        taken[step] = ntk.spectra(problem, one.model, one.rba), one

    members = [Member("glorot", 0)]
    train(
        problem,
        Architecture(width=2, depth=1, grid=3),
        members,
        steps=4,
        checkpoints=(0, 4),
        on_checkpoint=keep,
        progress=lambda *_: None,
    )
    (start, first), (end, last) = taken[0], taken[4]
    assert start["pde"] == ntk.spectra(problem, first.model)["pde"]  # α is 1 at the start
    assert end["pde"].eigenvalues != start["pde"].eigenvalues
    rows = problem.ntk_points()
    data = problem.arrays("float64")
    K = ntk.blocks(
        last.model,
        problem,
        data["collocation"][rows["collocation"]],
        data["points"][rows["points"]],
        rba={"pde": last.rba["pde"][rows["collocation"]], "bc": last.rba["bc"][rows["points"]]},
    )
    for block in ("pde", "bc"):
        assert end[block].trace == pytest.approx(np.trace(K[block, block]))
        assert not np.allclose(last.rba[block], 1.0)
