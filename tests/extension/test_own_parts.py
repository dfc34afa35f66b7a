"""A basis, a scheme, a function and a PDE from outside the package, in one study."""

import csv
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

from kandle import KAN, problems
from kandle.cli import main
from kandle.store import Store

STUDY = """
name = "own"
problems = ["own_parts:ripples", "own_parts:heat"]
bases = ["bspline", { name = "own_parts:Monomials", n = 3 }]
grids = [3]
widths = [3]
depths = [1]
steps = 4

[[schemes]]
name = "glorot"
seeds = 1

[[schemes]]
name = "own_parts:Constant"
sigma = [0.1, 0.3]
seeds = 1
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the user's module and study file, after the study ran in it."""
    place = tmp_path_factory.mktemp("own")
    shutil.copy(Path(__file__).with_name("own_parts.py"), place)
    (place / "own.toml").write_text(STUDY)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv("PYTHONPATH", str(place))
        assert main(["study", "run", "own.toml", "--store", "store", "--workers", "1"]) == 0
    return place


def test_all_four_are_trained_and_stored_under_their_names(folder):
    with Store.open(folder / "store") as store:
        frame = store.frame()
    assert len(frame) == 2 * 2 * 3
    assert set(frame.status) == {"ok"}
    assert set(frame.problem) == {"own_parts:ripples", "own_parts:heat"}
    assert set(frame.scheme) == {"glorot", "own_parts:Constant"}
    assert frame.basis.str.contains("own_parts:Monomials").sum() == 6
    assert np.isfinite(frame.loss).all()
    assert frame.identity.is_unique


def test_rows_tables_figures_and_the_explorer_show_them_without_importing(
    folder, tmp_path, monkeypatch
):
    store = str(folder / "store")
    monkeypatch.chdir(tmp_path)  # where there is no module own_parts
    assert main(["study", "export", "--store", store, "--out", "rows.csv"]) == 0
    with open("rows.csv") as file:
        rows = list(csv.DictReader(file))
    assert {row["scheme"] for row in rows} == {"glorot", "own_parts:Constant"}
    assert main(["study", "status", "--store", store]) == 0
    assert main(["explore", "--store", store, "--out", "page.html"]) == 0
    assert r"Constant \u03c3" in Path("page.html").read_text()


def test_a_network_on_the_own_basis_is_what_its_equation_says(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    from own_parts import Constant, Monomials

    model = KAN([2, 1], Monomials(3), init=Constant(0.3), key=jax.random.key(0))
    x = np.random.default_rng(0).uniform(-1, 1, (20, 2)).astype(np.float32)
    layer = model.layers[0]
    powers = np.stack([x, x**2, x**3], axis=-1)
    expected = np.einsum("ji,jim,nim->nj", layer.c, layer.b, powers)
    expected += np.asarray(layer.residual(x)) @ np.asarray(layer.r).T + np.asarray(layer.bias)
    np.testing.assert_allclose(model(x), expected, rtol=1e-5, atol=1e-6)


def test_registered_problems_change_nothing_of_the_papers(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    from own_parts import heat, ripples

    from kandle import paper, study

    def planned():
        studies = {name: study.get(name) for name in study.names()}
        return {name: (len(s), study.plan(s, "quick").specs) for name, s in studies.items()}

    before = planned()
    targets = list(paper.TARGETS)
    monkeypatch.setattr(problems, "PROBLEMS", dict(problems.PROBLEMS))
    problems.register(ripples)
    problems.register(heat)
    assert problems.get("ripples") is ripples
    assert planned() == before
    assert list(paper.TARGETS) == targets
