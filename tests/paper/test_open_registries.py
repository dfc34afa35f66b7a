"""Problems registered by a user change nothing of the paper's and crash nothing."""

import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
import synthetic

from kandle import UserError, analysis, paper, problems
from kandle.paper._references import function_surfaces, pde_solutions
from kandle.paper._tables import win_table
from kandle.report.explorer import payload
from kandle.report.figures import save
from kandle.train import Architecture, train

BOX = [(0, 1), (-1, 1)]


@pytest.fixture
def registered():
    """A sixth function and a fourth PDE, removed after the test."""
    before = dict(problems.PROBLEMS)
    square = [(-1, 1), (-1, 1)]
    sixth = problems.Function(lambda x, y: x - y, square, name="f6", n_train=50, n_test=10)
    fourth = problems.PDE(
        name="heat",
        residual=lambda x, d: (d.first[0] - d.second[1])[..., 0],
        domain=BOX,
        conditions=[
            problems.side("left", BOX, axis=1, at=-1.0, value=0.0),
            problems.side("right", BOX, axis=1, at=1.0, value=0.0),
        ],
        first=(0, 1),
        second=(1,),
        collocation=(4, 4),
    )
    yield problems.register(sixth), problems.register(fourth)
    problems.PROBLEMS.clear()
    problems.PROBLEMS.update(before)


def test_registered_problems_are_found_and_trained(registered):
    for problem in registered:
        assert problems.get(problem.name) is problem
        assert problems.names()[-2:] == ["f6", "heat"]
        shape = Architecture(width=2, depth=1, grid=3)
        [result] = train(problem.name, shape, [("glorot", 0)], steps=2)
        assert result.status == "ok"


def test_names_are_not_taken_twice(registered):
    function, _ = registered
    assert problems.register(function) is function
    other = problems.Function(lambda x: x, [(-1, 1)], name="f6")
    with pytest.raises(UserError, match=r"There is a problem 'f6' already.*replace=True"):
        problems.register(other)
    assert problems.register(other, replace=True) is problems.get("f6")
    with pytest.raises(UserError, match="A problem must be a Function, PDE, Table"):
        problems.register("f6")  # type: ignore[arg-type]


def test_a_class_of_ones_own_is_a_problem(registered):
    class Line:
        kind, name, n_in, n_out, default_steps = "function", "line", 1, 1, 5

        def arrays(self, dtype="float32"):
            x = np.linspace(-1, 1, 8, dtype=dtype)[:, None]
            return {"x": x, "y": 2 * x}

        def evaluation(self):
            x = np.linspace(-1, 1, 8)[:, None]
            return x, 2 * x

    line = Line()
    assert isinstance(line, problems.Problem)
    assert problems.get(problems.register(line).name) is line
    [result] = train("line", Architecture(width=2, depth=1, grid=3), [("glorot", 0)])
    assert np.isfinite(result.loss)
    for name in ("f1", "burgers", "I.6.2"):
        assert isinstance(problems.get(name), problems.Problem)


def test_the_paper_s_figures_and_tables_stay_as_they_are(registered, tmp_path):
    assert [s.title for s in function_surfaces(points=4)] == ["f₁", "f₂", "f₃", "f₄", "f₅"]
    assert len(pde_solutions()) == 3
    assert len(paper.FIGURES) == 23
    assert len(paper.table("C1", None).tidy) == 20
    runs = synthetic.grid_study(problems=("f1", "f3"), shapes=[(5, 8, 2)], seeds=2)
    own = synthetic.grid_study(problems=("f6",), shapes=[(5, 8, 2)], seeds=2)
    curves = synthetic.curves_study(problems=("f1", "f6"), seeds=1, points=5)
    synthetic.write_store(tmp_path / "store", runs, own, curves)
    table = paper.table("1", tmp_path / "store")
    assert list(dict.fromkeys(table.tidy["problem"])) == ["f1", "f3", "f6"]
    before = win_table(runs, "1").tidy
    after = table.tidy[table.tidy["problem"].ne("f6")].reset_index(drop=True)
    pd.testing.assert_frame_equal(before, after)
    grid = paper.FIGURES["fig1"].data(curves)
    assert [panel.title for panel in grid.rows[0]] == ["f₁", "f₂", "f₃", "f₄", "f₅"]
    save(paper.figure("fig1", tmp_path / "store"), tmp_path / "fig1.svg")
    data = payload(pd.concat([runs, own]), lambda wanted: {}, lambda wanted: {})
    assert [p["label"] for p in data["studies"][0]["problems"]] == ["f₁", "f₃", "f₆"]
    assert analysis.full_length(pd.Series(["f6", "heat"])).tolist() == [2000, 5000]
    assert jnp.isfinite(problems.get("f6").arrays()["y"]).all()
