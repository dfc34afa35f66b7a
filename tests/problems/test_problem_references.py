"""The digits of the reference solutions: convergence, a second method, the equation itself."""

import mpmath
import numpy as np
import pytest

from kandle import problems
from kandle.nn import Derivatives
from kandle.problems import _allen_cahn, _burgers
from kandle.problems._allen_cahn import allen_cahn
from kandle.problems._burgers import cole_hopf

T, X = np.linspace(0, 1, 201), np.linspace(-1, 1, 512)
BOUNDARIES = ("dirichlet", "periodic")


def solve(boundary, t=T, x=X, **settings):
    return allen_cahn(t, x, 1e-4, 5.0, boundary=boundary, **settings)


def shipped(name, reference=None):
    problem = problems.get(name)
    problem = problem.with_reference(reference) if reference else problem
    points, u = problem.evaluation()
    np.testing.assert_array_equal(points[:: len(X), 0], T)
    np.testing.assert_array_equal(points[: len(X), 1], X)
    return u.reshape(len(T), len(X))


def test_burgers_converges():
    finer = cole_hopf(T[:, None], X[None], _burgers.NU, step=0.1, reach=20.0)
    assert problems.relative_l2(shipped("burgers"), finer) < 1e-14
    # The rule is not simply blind to its step: coarse ones are off.
    coarse = cole_hopf(T[::20, None], X[None], _burgers.NU, step=0.4)
    assert 1e-9 < problems.relative_l2(coarse, finer[::20]) < 1e-5


@pytest.mark.parametrize(
    ("i", "j"), [(1, 40), (20, 200), (64, 255), (100, 250), (200, 254), (200, 3)]
)
def test_burgers_against_adaptive_quadrature(i, j):
    with mpmath.workdps(30):
        nu, t, x = mpmath.mpf("0.01") / mpmath.pi, mpmath.mpf(i) / 200, mpmath.mpf(float(X[j]))

        def weight(y):  # over the source point y, not over the scaled distance
            return mpmath.exp(
                -mpmath.cos(mpmath.pi * y) / (2 * mpmath.pi * nu) - (x - y) ** 2 / (4 * nu * t)
            )

        cuts = mpmath.linspace(x - 2, x + 2, 81)
        top = mpmath.quad(lambda y: (x - y) / t * weight(y), cuts)
        expected = float(top / mpmath.quad(weight, cuts))
    assert shipped("burgers")[i, j] == pytest.approx(expected, rel=1e-12)


def test_burgers_conditions_and_symmetry():
    u = shipped("burgers")
    np.testing.assert_allclose(u[0], -np.sin(np.pi * X), atol=1e-15)
    assert np.abs(u[:, [0, -1]]).max() < 1e-14
    np.testing.assert_allclose(u, -u[:, ::-1], atol=1e-13)


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_allen_cahn_converges_in_space_and_in_time(boundary):
    u = shipped("allen-cahn", boundary)
    assert problems.relative_l2(u, solve(boundary, modes=4096)) < 1e-10
    assert problems.relative_l2(u, solve(boundary, step=1 / 1600)) < 1e-10


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_allen_cahn_steps_are_of_fourth_order(boundary):
    t = np.linspace(0, 1, 11)
    exact = solve(boundary, t, modes=512, step=1 / 1600)
    coarse, fine = (
        problems.relative_l2(solve(boundary, t, modes=512, step=h), exact)
        for h in (1 / 50, 1 / 100)
    )
    assert 3.5 < np.log2(coarse / fine) < 4.5


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_allen_cahn_conditions_and_symmetry(boundary):
    u = shipped("allen-cahn", boundary)
    np.testing.assert_array_equal(u[0], X**2 * np.cos(np.pi * X))
    np.testing.assert_allclose(u, u[:, ::-1], atol=1e-12)
    if boundary == "dirichlet":
        np.testing.assert_allclose(u[:, [0, -1]], -1.0, atol=1e-12)
    else:
        # The ends leave -1 while the corner of the initial state spreads, and come back.
        assert u[:, 0].max() == pytest.approx(-0.9969, abs=1e-4)
        assert u[-1, 0] < -0.9999
        ends = solve(boundary, T[:40], [1 - 2e-4, 1 - 1e-4, 1.0])[20:]
        slope = (3 * ends[:, 2] - 4 * ends[:, 1] + ends[:, 0]) / 2e-4
        assert np.abs(slope).max() < 1e-3


def test_allen_cahn_ends_matter_little_inside():
    a, b = shipped("allen-cahn"), shipped("allen-cahn", "periodic")
    inside = np.abs(X) < 0.8
    assert np.abs(a - b)[:, inside].max() < 1e-8
    assert np.abs(a - b).max() > 1e-3


def by_differences(solution, t, x, dt=1e-3, dx=5e-4):
    """A field on the grid t × x with its derivatives, by central differences of order six."""
    offsets = np.arange(-3, 4)
    d1 = np.array([-1, 9, -45, 0, 45, -9, 1]) / 60
    d2 = np.array([2, -27, 270, -490, 270, -27, 2]) / 180
    times = np.unique(np.concatenate([[0.0], (t[:, None] + dt * offsets).ravel()]))
    places = (x[:, None] + dx * offsets).ravel()
    u = solution(times[:, None], places[None])[1:].reshape(len(t), 7, len(x), 7)
    return Derivatives(
        value=u[:, 3, :, 3, None],
        first={
            0: (np.einsum("aibj,i->abj", u, d1)[..., 3] / dt)[..., None],
            1: (np.einsum("aibj,j->aib", u, d1)[:, 3] / dx)[..., None],
        },
        second={1: (np.einsum("aibj,j->aib", u, d2)[:, 3] / dx**2)[..., None]},
    )


@pytest.mark.parametrize(
    ("problem", "solution"),
    [
        ("burgers", lambda t, x: cole_hopf(t, x, _burgers.NU)),
        ("allen-cahn", lambda t, x: solve("dirichlet", t.ravel(), x.ravel())),
        ("allen-cahn", lambda t, x: solve("periodic", t.ravel(), x.ravel())),
    ],
)
def test_references_solve_their_equation(problem, solution):
    """Well posed, with the conditions above: there is no other solution."""
    t, x = np.array([0.1, 0.25, 0.5, 0.9]), np.array([-0.95, -0.52, -0.2, 0.03, 0.47, 0.5, 0.8])
    d = by_differences(solution, t, x)
    r = problems.get(problem).residual(None, d)
    assert np.abs(d.first[0]).max() > 0.5
    assert np.abs(r).max() < 2e-5


def test_references_by_name():
    problem = problems.get("allen-cahn")
    assert problem.reference is _allen_cahn.dirichlet
    assert problem.reference_name == "dirichlet"
    assert problem.with_reference("periodic").reference_name == "periodic"
    assert problem.with_reference("periodic").residual is problem.residual
    assert problems.get("burgers").reference_name == ""
    with pytest.raises(ValueError, match=r"neumann.*Known: dirichlet, periodic"):
        problem.with_reference("neumann")
