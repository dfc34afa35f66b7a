"""`kandle reproduce` end to end, on real if tiny trainings."""

import json
import sys

import pytest

from kandle import paper, study
from kandle.paper import STUDIES
from kandle.store import Store
from kandle.study import _declare, _registry

TINY = {
    "functions": {
        "problems": ["f1", "f3"],
        "grids": [5],
        "widths": [2],
        "depths": [1],
        "alphas": [0.25, 1.0],
        "betas": [1.0, 1.75],
        "schemes": ["baseline", "power-law"],
        "seeds": 1,
        "steps": 3,
    }
}


@pytest.fixture
def tiny(monkeypatch):
    """The scale `smoke` of `functions` made smaller still, and workers replaced by this process."""
    declared = {**STUDIES["functions"], "name": "functions", "scales": TINY_SCALES}
    found = _declare.declare(declared, draws=_registry.draws_names())
    monkeypatch.setattr(_registry, "_built_in", lambda name: found)
    monkeypatch.setattr(study, "LocalExecutor", lambda workers: study.InlineExecutor())


TINY_SCALES = {"smoke": TINY["functions"]}


def test_a_table_and_a_figure_from_nothing(tiny, command, tmp_path):
    out = tmp_path / "out"
    code, output, _ = command("reproduce", "table1", "figD1", "--scale", "smoke", "--out", out)
    assert code == 0
    files = ["table1.txt", "table1.md", "table1.tex", "table1.csv", "figD1.png", "explorer.html"]
    assert all((out / name).stat().st_size > 100 for name in files)
    assert str(out / "table1.txt") in output
    assert str(out / "figD1.png") in output
    assert str(out / "explorer.html") in output
    assert "paper" in (out / "table1.txt").read_text()
    assert (out / "table1.txt").read_text() in output

    # What was shortened is said on the screen, in the table and on the page.
    assert "TRAINING WAS SHORTENED" in output
    for name in ("table1.txt", "table1.md", "table1.tex"):
        assert "trained for 3 steps" in (out / name).read_text()
    page = (out / "explorer.html").read_text()
    data = page.split('id="data">')[1].split("</script>")[0]
    assert all(s["shortened"] for s in json.loads(data)["studies"])

    with Store.open(out / "store") as store:
        before = len(store)
        assert before == 2 * 5
    code, output, _ = command("reproduce", "table1", "--scale", "smoke", "--out", out)
    assert code == 0
    with Store.open(out / "store") as store:
        assert len(store) == before


def test_without_plotly_the_explorer_is_skipped(tiny, command, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    code, output, _ = command("reproduce", "figD1", "--scale", "smoke", "--out", tmp_path)
    assert code == 0
    (line,) = [line for line in output.splitlines() if "no explorer" in line]
    assert "pip install 'kandle[explore]'" in line
    assert not (tmp_path / "explorer.html").exists()


def test_what_needs_no_training_needs_no_store(command, tmp_path):
    code, output, _ = command("reproduce", "tableC1", "--scale", "quick", "--out", tmp_path)
    assert code == 0
    assert (tmp_path / "tableC1.tex").exists()
    assert not (tmp_path / "store").exists()
    assert "SHORTENED" not in output


def test_interrupted_it_says_how_to_go_on(tiny, command, tmp_path, monkeypatch):
    class Interrupted(study.InlineExecutor):
        def wait(self, timeout):
            raise KeyboardInterrupt

    monkeypatch.setattr(study, "LocalExecutor", lambda workers: Interrupted())
    code, _, errors = command("reproduce", "figD1", "--scale", "smoke", "--out", tmp_path)
    assert code == 130
    assert "0 of 4 runs are stored" in errors
    assert f"kandle reproduce figD1 --scale smoke --out {tmp_path}" in errors


def test_a_target_the_scale_does_not_cover(command, tmp_path):
    code, output, _ = command("reproduce", "fig3", "--scale", "quick", "--out", tmp_path)
    assert code == 0
    assert "Scale quick does not cover fig3: --scale overnight or paper does." in output
    assert paper.TARGETS["fig3"].what


def test_an_unknown_target_is_misuse(command, tmp_path):
    code, _, errors = command("reproduce", "fig99", "--out", tmp_path)
    assert code == 2
    assert errors.count("\n") == 1
    assert "figN8" in errors
