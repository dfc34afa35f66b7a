"""Residuals vanish on exact solutions alone; conditions and collocation are as stated."""

import jax
import numpy as np
import pytest
import sympy

from kandle import KAN, problems
from kandle.nn import Derivatives

t, x, y = sympy.symbols("t x y")
nu = sympy.Float("0.01", 30) / sympy.pi
D, c = sympy.Rational(1, 10**4), 5

# A viscous shock of speed 1/10; a front of Allen–Cahn from 1 to 0; the stated solution.
EXACT = {
    "burgers": sympy.Rational(1, 10)
    - sympy.Rational(1, 50) * sympy.tanh((x - t / 10) / (100 * nu)),
    "allen-cahn": 1
    / (1 + sympy.exp(sympy.sqrt(c / (2 * D)) * (x - 3 * sympy.sqrt(c * D / 2) * t))),
    "helmholtz": sympy.sin(sympy.pi * x) * sympy.sin(4 * sympy.pi * y),
}
WRONG = {
    "burgers": EXACT["burgers"].subs(t, 2 * t),
    "allen-cahn": EXACT["allen-cahn"].subs(t, -t),
    "helmholtz": sympy.sin(4 * sympy.pi * x) * sympy.sin(sympy.pi * y) / 2,
}


def residual(name: str, u: sympy.Expr) -> tuple[np.ndarray, float]:
    """The problem's residual on the field u, and the size of the terms that cancel in it."""
    problem = problems.get(name)
    inputs = (x, y) if name == "helmholtz" else (t, x)
    points = problem.arrays(np.float64)["collocation"] * 0.1  # where the fronts are

    def column(expression):
        value = sympy.lambdify(inputs, expression, "numpy")(*points.T)
        return np.broadcast_to(value, len(points))[:, None]

    with jax.enable_x64(True):
        d = Derivatives(
            column(u),
            first={i: column(u.diff(inputs[i])) for i in problem.first},
            second={i: column(u.diff(inputs[i], 2)) for i in problem.second},
        )
        r = np.asarray(problem.residual(points, d))
    return r, max(np.abs(term).max() for term in (*d.first.values(), d.value))


@pytest.mark.parametrize("name", EXACT)
def test_residual_vanishes_on_an_exact_solution(name):
    r, size = residual(name, EXACT[name])
    assert r.shape == (4096,)
    assert r.dtype == np.float64
    assert np.abs(r).max() < 1e-11 * size


@pytest.mark.parametrize("name", WRONG)
def test_residual_does_not_vanish_on_another_field(name):
    r, size = residual(name, WRONG[name])
    assert np.abs(r).max() > 1e-2 * size


@pytest.mark.parametrize("name", problems.PDES)
def test_residual_of_a_network(name):
    problem = problems.get(name)
    model = KAN([2, 4, 1], grid=5, key=jax.random.key(0))
    points = problem.arrays("float32")["collocation"][::64]
    d = model.derivatives(points, first=problem.first, second=problem.second)
    r = problem.residual(points, d)
    assert r.shape == (64,)
    assert r.dtype == np.float32
    assert np.isfinite(r).all()


@pytest.mark.parametrize("name", problems.PDES)
def test_collocation_is_the_whole_grid(name):
    problem = problems.get(name)
    data = problem.arrays(np.float64)
    assert data["collocation"].shape == (4096, 2)
    for i, (lo, hi) in enumerate(problem.domain):
        np.testing.assert_array_equal(np.unique(data["collocation"][:, i]), np.linspace(lo, hi, 64))
    assert len(np.unique(data["collocation"], axis=0)) == 4096
    assert (problem.kind, problem.n_in, problem.n_out) == ("pde", 2, 1)
    assert problem.default_steps == 5000
    assert problem.arrays("float32")["collocation"].dtype == np.float32


def test_conditions_of_the_evolution_equations():
    for name, start, wall in (
        ("allen-cahn", lambda x: x**2 * np.cos(np.pi * x), -1.0),
        ("burgers", lambda x: -np.sin(np.pi * x), 0.0),
    ):
        data = problems.get(name).arrays(np.float64)
        points, values = data["points"], data["values"]
        assert points.shape == (192, 2)
        assert values.shape == (192, 1)
        line = np.linspace(-1, 1, 64)
        np.testing.assert_array_equal(points[:64], np.stack([0 * line, line], 1))
        np.testing.assert_allclose(values[:64, 0], start(line), rtol=1e-15)
        for part, at in ((slice(64, 128), -1.0), (slice(128, 192), 1.0)):
            assert (points[part, 1] == at).all()
            np.testing.assert_array_equal(points[part, 0], np.linspace(0, 1, 64))
            assert (values[part] == wall).all()


def test_conditions_of_helmholtz():
    data = problems.get("helmholtz").arrays(np.float64)
    assert data["points"].shape == (256, 2)
    assert (np.abs(data["points"]).max(axis=1) == 1).all()
    assert len(np.unique(data["points"], axis=0)) == 256 - 4  # corners belong to two sides
    assert (data["values"] == 0).all()


def test_helmholtz_reference():
    points, u = problems.get("helmholtz").evaluation()
    assert points.shape == (512 * 512, 2)
    i = 512 * 100 + 33
    expected = np.sin(np.pi * points[i, 0]) * np.sin(4 * np.pi * points[i, 1])
    assert u[i, 0] == pytest.approx(expected, rel=1e-13)
    np.testing.assert_array_equal(np.unique(points[:, 1]), np.linspace(-1, 1, 512))
