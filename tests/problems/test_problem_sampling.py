"""Where points lie, and that they depend on a problem's name and nothing else."""

import numpy as np
import pytest

from kandle import problems
from kandle.problems._sampling import permutation, uniform

PINNED = [[0.5117544492955501, -0.7689424984179476], [-0.9131194897259707, 0.909260961184643]]
PINNED_ORDER = [2, 1, 4, 5, 0, 3]

FITTED = [*problems.FUNCTIONS, *problems.FEYNMAN]


def test_the_stream_is_pinned():
    """These digits are part of what a run is: results of two versions compare only if they stay."""
    assert uniform("f1", 2, [(-1, 1), (-1, 1)]).tolist() == PINNED
    assert permutation("f1", 6).tolist() == PINNED_ORDER


def test_points_are_uniform_in_an_open_box():
    x = uniform("any", 200_000, [(-1, 1), (2, 5)])
    assert (x > [-1, 2]).all()
    assert (x < [1, 5]).all()
    np.testing.assert_allclose(x.mean(0), [0, 3.5], atol=0.01)
    np.testing.assert_allclose(x.std(0), [2 / 12**0.5, 3 / 12**0.5], rtol=0.01)
    assert abs(np.corrcoef(x.T)[0, 1]) < 0.01


def test_names_give_independent_points():
    a, b = (problems.get(name).arrays("float64")["x"] for name in ("f1", "f2"))
    assert not np.isin(a, b).any()


def test_permutation_is_one():
    order = permutation("any", 1000)
    assert sorted(order) == list(range(1000))
    assert (order != np.arange(1000)).sum() > 900


@pytest.mark.parametrize("name", FITTED)
def test_training_data(name):
    problem = problems.get(name)
    wide, narrow = problem.arrays(np.float64), problem.arrays("float32")
    shapes = {"x": (4000, problem.n_in), "y": (4000, 1)}
    shapes |= {"x_test": (1000, problem.n_in), "y_test": (1000, 1)}
    assert {key: array.shape for key, array in narrow.items()} == shapes
    for key, array in narrow.items():
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, wide[key].astype(np.float32))
    for key in ("x", "x_test"):
        # Rounding to float32 must not put a point back on an excluded one.
        assert not np.isin(narrow[key], [-1.0, 0.0, 1.0]).any()
        assert (np.abs(narrow[key]) < 1).all()
    np.testing.assert_array_equal(wide["y"], problem(wide["x"]))
    assert not np.isin(wide["x"][:, 0], wide["x_test"][:, 0]).any()
    assert (problem.kind, problem.default_steps) == ("function", 2000)


@pytest.mark.parametrize("name", FITTED)
def test_evaluation_grids(name):
    problem = problems.get(name)
    x, y = problem.evaluation()
    n = {2: 200, 3: 30}[problem.n_in]
    assert x.shape == (n**problem.n_in, problem.n_in)
    assert y.shape == (len(x), 1)
    assert not x.flags.writeable
    first = np.unique(x[:, 0])
    assert len(first) == n
    assert first[-1] == 1.0
    np.testing.assert_allclose(np.diff(first), 2 / (n - 1), atol=2e-6)
    np.testing.assert_array_equal(x[:n, -1], first)  # the last input runs fastest
    gap = 1e-6 if name in problems.FEYNMAN else 0.0
    assert first[0] == pytest.approx(-1 + gap, abs=1e-12)
    assert np.abs(first).min() == pytest.approx(1 / (n - 1), rel=1e-3)


def test_only_equations_at_poles_reach_a_million():
    largest = {name: np.abs(problems.get(name).evaluation()[1]).max() for name in FITTED}
    assert {name for name, y in largest.items() if y > 1e5} == set(problems.AT_POLES)
    assert largest["I.27.6"] == pytest.approx(1e6, rel=1e-6)
    assert largest["I.18.4"] == pytest.approx(2e6, rel=1e-5)


@pytest.mark.parametrize(("n", "gaps"), [(5, {0: 1e-6, 2: 1e-6}), (4, {0: 1e-6})])
def test_punctured_axis_moves_what_is_excluded_but_plus_one(n, gaps):
    moved = problems.FEYNMAN["I.6.2"].axis(-1.0, 1.0, n) - np.linspace(-1, 1, n)
    np.testing.assert_allclose(moved, [gaps.get(i, 0.0) for i in range(n)], atol=1e-15)


def test_ntk_points():
    rows = problems.get("f3").ntk_points()
    np.testing.assert_array_equal(rows["x"], np.arange(256))
    for name in problems.PDES:
        problem = problems.get(name)
        rows, data = problem.ntk_points(), problem.arrays()
        assert {key: len(index) for key, index in rows.items()} == {
            "collocation": 256,
            "points": 32,
        }
        for key, index in rows.items():
            assert (np.diff(index) > 0).all()
            assert index[0] >= 0
            assert index[-1] < len(data[key])
        # Every condition is among the 32 points.
        assert set(np.digitize(rows["points"], np.arange(0, len(data["points"]), 64))) == {
            *range(1, len(problem.conditions) + 1)
        }


def test_errors_of_a_prediction():
    reference = np.array([[1.0], [2.0], [-2.0], [4.0]])
    assert problems.relative_l2(reference, reference) == 0.0
    assert problems.relative_l2(reference + 0.5, reference) == pytest.approx(1.0 / 5.0)
    assert problems.robust_error(reference * 1.1, reference) == pytest.approx(0.1)
    spoiled = reference.copy()
    spoiled[-1] = 1e9
    assert problems.robust_error(spoiled, reference) == 0.0
    assert problems.robust_error([1.0, 9.0, 0.0], [0.5, 0.0, 0.0]) == 1.0
    zeros = np.zeros((3, 1))
    assert np.isnan(problems.robust_error(reference * np.nan, reference))
    assert np.isnan(problems.relative_l2(reference * np.nan, reference))
    assert problems.relative_l2(zeros + 1, zeros) == np.inf
    with pytest.raises(ValueError, match="one shape"):
        problems.relative_l2(reference[:, 0], reference)
