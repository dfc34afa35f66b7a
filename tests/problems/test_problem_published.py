"""The points of the published runs, and what a training on them from their starts gives."""

import dataclasses

import jax
import numpy as np
import pytest

from kandle import init, problems
from kandle._errors import UserError
from kandle.train import Architecture, train

# Published final losses of runs 2 and 3 on I.12.11, small architecture, 2,000 steps.
PUBLISHED = {
    init.Baseline(): (1.0726e-05, 1.4368e-05),
    init.Glorot(): (1.3039e-05, 2.9270e-05),
    init.PowerLaw(0.25, 1.75): (2.6332e-06, 9.915e-07),
}


def test_trainings_are_the_published_runs_themselves():
    members = [(scheme, 42 + run) for scheme in PUBLISHED for run in (2, 3)]
    shape = Architecture(width=8, depth=2, grid=5)
    results = train("I.12.11", shape, members, draws="published")
    losses = [result.loss for result in results]
    # GPUs round otherwise, and Glorot's moments are sampled there and exact here.
    np.testing.assert_allclose(losses, np.ravel(list(PUBLISHED.values())), rtol=0.03)


@pytest.mark.parametrize(
    ("name", "low"), [("f1", -1.0), ("I.18.4", -1 + 1e-6), ("I.6.2b", -1 + 1e-6)]
)
def test_points_are_those_that_old_jax_and_scikit_learn_give(name, low):
    selection = pytest.importorskip("sklearn.model_selection")
    problem = problems.get(name)
    with jax.threefry_partitionable(False):
        x = jax.random.uniform(jax.random.key(42), (5000, problem.n_in), minval=low, maxval=1.0)
    train_x, test_x = selection.train_test_split(np.asarray(x), test_size=0.2, random_state=42)
    found = problems.published(problem).arrays("float32")
    np.testing.assert_array_equal(found["x"], train_x)
    np.testing.assert_array_equal(found["x_test"], test_x)
    np.testing.assert_array_equal(found["y"], problem(train_x).astype(np.float32))


def test_points_near_a_pole_are_moved_away():
    for name in problems.FEYNMAN:
        data = problems.published(problems.get(name)).arrays("float64")
        for x in (data["x"], data["x_test"]):
            assert np.abs(x).min() >= np.float32(1e-6)
            assert x.min() > -1
            assert x.max() < 1


def test_only_the_points_change():
    problem = problems.get("f3")
    changed = problems.published(problem)
    assert changed.name == "f3"
    assert np.isin(changed.arrays()["x"], problem.arrays()["x"]).mean() < 0.01
    np.testing.assert_array_equal(changed.evaluation()[0], problem.evaluation()[0])
    assert problems.published(changed) is changed


@pytest.mark.parametrize(
    "problem",
    [
        problems.get("burgers"),
        problems.Function(lambda x: x, [(-1, 1)], name="own"),
        dataclasses.replace(problems.get("f1"), n_train=100),
        problems.Function(lambda x, y: x - y, [(-1, 1), (-1, 1)], name="f1"),
    ],
    ids=lambda problem: problem.name,
)
def test_problems_that_were_not_published_stay_as_they_are(problem):
    assert problems.published(problem) is problem


def test_own_points_can_be_given():
    x = np.linspace(2, 3, 12)[:, None]
    problem = problems.Function(
        np.square, [(2, 3)], name="own", n_train=10, n_test=2, points=lambda: x
    )
    data = problem.arrays("float64")
    np.testing.assert_array_equal(data["x"], x[:10])
    np.testing.assert_array_equal(data["y_test"], x[10:] ** 2)
    scaled = problem.scaled().arrays("float64")
    np.testing.assert_allclose(scaled["x"], np.linspace(-1, 1, 12)[:10, None], atol=1e-12)
    np.testing.assert_allclose(scaled["y"], data["y"], atol=1e-12)
    wrong = dataclasses.replace(problem, n_test=3)
    with pytest.raises(UserError, match=r"'points' of Function 'own'.*\(13, 1\).*\(12, 1\)"):
        wrong.arrays()
