"""Problems of one's own: a function, a PDE, and `module:object`."""

import importlib
import sys

import jax.numpy as jnp
import numpy as np
import pytest

from kandle import UserError, problems
from kandle.train import Architecture, train

BOX = [(0, 1), (-1, 1)]


def paraboloid(x, y):
    return x**2 + y**2


def heat(**changes):
    arguments = {
        "name": "heat",
        "residual": lambda x, d: (d.first[0] - d.second[1])[..., 0],
        "domain": BOX,
        "conditions": [problems.side("left", BOX, axis=1, at=-1.0, value=0.0)],
        "first": (0, 1),
        "second": (1,),
    }
    return problems.PDE(**(arguments | changes))


def test_function_takes_its_name_from_python():
    problem = problems.Function(paraboloid, [(0, 2), (-3, 3)])
    assert (problem.name, problem.n_in, problem.n_out) == ("paraboloid", 2, 1)
    data = problem.arrays("float64")
    assert (data["x"] > [0, -3]).all()
    assert (data["x"] < [2, 3]).all()
    assert data["x"][:, 1].max() > 2.9
    np.testing.assert_allclose(data["y"][:, 0], (data["x"] ** 2).sum(1))


@pytest.mark.parametrize(("n_in", "points"), [(1, 1000), (2, 40_000), (3, 27_000), (5, 10_000)])
def test_evaluation_in_any_dimension(n_in, points):
    problem = problems.Function(lambda *x: sum(x), [(-1, 1)] * n_in, name="sum")
    x, y = problem.evaluation()
    assert x.shape == (points, n_in)
    np.testing.assert_allclose(y[:, 0], x.sum(1), atol=1e-12)


def test_function_in_jax_and_constant_function():
    problem = problems.Function(lambda x: jnp.sin(x), [(-1, 1)], name="sine", n_train=10, n_test=2)
    data = problem.arrays()
    np.testing.assert_allclose(data["y"], np.sin(data["x"]), rtol=1e-6)
    assert problems.Function(lambda x: 3.0, [(-1, 1)], name="three")([[0.5]]).tolist() == [[3.0]]


def test_scaled_function_has_the_same_values():
    problem = problems.Function(paraboloid, [(0, 2), (-3, 3)])
    scaled = problem.scaled()
    assert scaled.domain == ((-1.0, 1.0), (-1.0, 1.0))
    np.testing.assert_allclose(scaled.evaluation()[1], problem.evaluation()[1], atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"f": 3, "domain": [(-1, 1)]}, "'f' of Function"),
        ({"f": lambda x: x, "domain": [(-1, 1)]}, "'name' of Function"),
        ({"f": paraboloid, "domain": []}, "'domain' of Function 'paraboloid'"),
        ({"f": paraboloid, "domain": [(1, -1), (0, 1)]}, "low < high"),
        ({"f": paraboloid, "domain": [(0, np.nan), (0, 1)]}, "finite"),
        ({"f": paraboloid, "domain": (-1, 1)}, r"Got \(-1, 1\)"),
        ({"f": paraboloid, "domain": BOX, "n_train": 0}, "'n_train'.*at least 1"),
        ({"f": paraboloid, "domain": BOX, "n_train": 10.5}, "'n_train'.*an integer"),
        ({"f": paraboloid, "domain": BOX, "n_grid": 1}, "'n_grid'.*at least 2"),
        ({"f": paraboloid, "domain": BOX, "n_grid": "a"}, "'n_grid'.*at least 2"),
    ],
)
def test_wrong_functions(arguments, message):
    with pytest.raises(UserError, match=message):
        problems.Function(**arguments)


def test_function_with_a_pole_or_a_wrong_shape_says_where():
    with np.errstate(divide="ignore"), pytest.raises(UserError, match=r"is inf at \(0.0, 1.0\)"):
        problems.Function(lambda x, y: y / x, BOX, name="pole")([[0.5, 1.0], [0.0, 1.0]])
    with pytest.raises(UserError, match=r"'wave' of 1 inputs cannot be evaluated: .*positional"):
        problems.Function(lambda x, y: x, [(-1, 1)], name="wave").arrays()
    with pytest.raises(UserError, match=r"one value per point: \(2,\). Got \(2, 2\)"):
        problems.Function(lambda x: np.outer(x, x), [(-1, 1)], name="outer")([[0.5], [0.1]])


def test_pde_without_reference():
    problem = heat(collocation=(8, 16), n_evaluation=(5, 7))
    assert problem.arrays()["collocation"].shape == (128, 2)
    points, reference = problem.evaluation()
    assert points.shape == (35, 2)
    assert reference is None
    assert len(problem.ntk_points()["collocation"]) == 128


def test_pde_with_a_reference_in_three_inputs():
    box = [(0, 1), (-1, 1), (-2, 2)]
    start = problems.side("start", box, axis=0, at=0, value=lambda t, x, y: x * y, n=5)
    assert start.points.shape == (25, 3)
    np.testing.assert_allclose(start.values[:, 0], start.points[:, 1] * start.points[:, 2])
    problem = heat(
        domain=box, conditions=[start], reference=lambda t, x, y: t + x * y, n_evaluation=(3, 4, 5)
    )
    points, u = problem.evaluation()
    np.testing.assert_allclose(u[:, 0], points[:, 0] + points[:, 1] * points[:, 2])


def test_pde_with_two_fields():
    points = np.array([[0.0, 0.5], [1.0, 0.5]])
    both = problems.Condition("both", points, np.array([[1.0, 2.0], [3.0, 4.0]]))
    problem = heat(
        conditions=[both], n_out=2, reference=lambda t, x: np.stack(np.broadcast_arrays(t, x), -1)
    )
    assert problem.arrays()["values"].shape == (2, 2)
    where, u = problem.evaluation()
    np.testing.assert_array_equal(u, where)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"conditions": []}, "'conditions' of PDE 'heat'"),
        ({"first": (0, 2)}, "'first' of PDE 'heat' must be distinct inputs, 0 to 1"),
        ({"second": (1, 1)}, "'second' of PDE 'heat'"),
        ({"first": (0,)}, "among 'first'"),
        ({"collocation": (64,)}, "'collocation' of PDE 'heat'"),
        ({"collocation": 64}, "'collocation' of PDE 'heat' must be a sequence of integers"),
        ({"first": 0}, "'first' of PDE 'heat' must be a sequence of integers"),
        ({"residual": 3}, "'residual' of PDE 'heat' must be a function"),
        ({"n_out": 2}, "condition 'left' of PDE 'heat' must be .*values"),
        (
            {"conditions": [problems.Condition("bad", np.zeros((1, 2)), np.array([[np.nan]]))]},
            "Condition 'bad'",
        ),
    ],
)
def test_wrong_pdes(changes, message):
    with pytest.raises(UserError, match=message):
        heat(**changes)


def test_wrong_side():
    with pytest.raises(UserError, match="'axis' of condition 'left' must be an input, 0 to 1"):
        problems.side("left", BOX, axis=2, at=0.0, value=0.0)
    with pytest.raises(UserError, match="'at' of condition 'left' must be in the domain"):
        problems.side("left", BOX, axis=1, at=5, value=0.0)
    with pytest.raises(UserError, match=r"'value' of condition 'left' must be .*one per point"):
        problems.side("left", BOX, axis=1, at=1, value=lambda t, x: np.zeros(3))


@pytest.mark.parametrize("rba", ["off", "published", "text"])
@pytest.mark.parametrize(
    ("residual", "message"),
    [
        (lambda x, d: d.first[0] - 0.1 * d.second[1][..., 0], "one number per point, .* take"),
        (lambda x, d: (d.first[0] ** 2).mean(), "one number per point"),
        (lambda x, d: d.second[0][..., 0], "a derivative along input 0 that is not declared"),
    ],
)
def test_a_residual_of_another_shape_is_refused_before_training(residual, message, rba):
    small = Architecture(width=2, depth=1, grid=3)
    with pytest.raises(UserError, match=message):
        train(heat(residual=residual), small, [("glorot", 0)], steps=1, rba=rba)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (lambda t, x: np.zeros(7), r"'reference' of PDE 'heat' must be values on the grid"),
        (lambda t, x: t * x + np.nan, "The reference of PDE 'heat' is not finite"),
    ],
)
def test_a_reference_that_cannot_be_is_told_before_training(reference, message):
    calls = []
    small = Architecture(width=2, depth=1, grid=3)
    with pytest.raises(UserError, match=message):
        train(
            heat(reference=reference),
            small,
            [("glorot", 0)],
            steps=1,
            progress=lambda *made: calls.append(made),
        )
    assert not calls


def test_a_function_that_cannot_take_arrays_says_so():
    relu = problems.Function(lambda x: x if x > 0 else 0.0, [(-1, 1)], name="relu")
    with pytest.raises(UserError, match=r"Function 'relu' of 1 inputs cannot be .* ValueError"):
        relu.arrays()


def test_unknown_name_lists_the_known():
    with pytest.raises(UserError, match=r"problem 'burger'. Did you mean 'burgers'.*f1.*I.6.2"):
        problems.get("burger")
    with pytest.raises(UserError, match="a name, 'module:object' or a problem"):
        problems.get(3)  # pyright: ignore[reportArgumentType]


def test_names_are_the_contract():
    names = problems.names()
    assert names[:8] == ["f1", "f2", "f3", "f4", "f5", "allen-cahn", "burgers", "helmholtz"]
    assert len(names) == 28
    for name in names:
        assert problems.get(name).name == name
        assert problems.get(name) is problems.get(problems.get(name))


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    (tmp_path / "my_own_problems.py").write_text(
        "from kandle.problems import Function\n"
        "wave = Function(lambda x: x, [(-1, 1)], name='wave')\n"
        "class group: inner = wave\n"
        "number = 3\n"
    )
    (tmp_path / "my_broken_problems.py").write_text("import a_package_nobody_has\n")
    (tmp_path / "my_failing_problems.py").write_text("\n1 / 0\n")
    monkeypatch.chdir(tmp_path)
    yield
    for name in ("my_own_problems", "my_broken_problems"):
        sys.modules.pop(name, None)
    importlib.invalidate_caches()


def test_module_and_object_in_the_current_directory(own_module):
    before = list(sys.path)
    wave = problems.get("my_own_problems:wave")
    assert wave.name == "wave"
    assert problems.get("my_own_problems:group.inner") is wave
    assert sys.path == before


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("my_own_problems:number", "must be a problem object .*Got 'int'"),
        ("my_own_problems:wav", "Unknown object in my_own_problems 'wav'. Did you mean 'wave'"),
        ("no_such_module:wave", "there is no module 'no_such_module'"),
        ("my_own_problems:", "module:object"),
        (":wave", "module:object"),
        ("my_own_problems.py:wave", "given without .py: my_own_problems:wave"),
        ("data.csv", r"a table becomes a problem by kandle.problems.Table\('data.csv'"),
    ],
)
def test_module_and_object_that_are_not_there(own_module, name, message):
    with pytest.raises(UserError, match=message):
        problems.get(name)


def test_a_script_without_a_guard_does_not_end_the_program(tmp_path, monkeypatch):
    (tmp_path / "my_ending_problems.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="importing 'my_ending_problems' ends the program"):
        problems.get("my_ending_problems:wave")


def test_an_error_inside_the_users_module_says_what_and_where(own_module):
    with pytest.raises(UserError, match="imports 'a_package_nobody_has', which is not installed"):
        problems.get("my_broken_problems:wave")
    with pytest.raises(UserError, match=r"ZeroDivisionError: .*my_failing_problems.py, line 2"):
        problems.get("my_failing_problems:wave")
