"""What a basis is, and what it refuses to be."""

import numpy as np
import pytest

from kandle import UserError
from kandle.bases import BSpline, Knots, evaluate


def test_augmented_uniform_knots():
    basis = BSpline(grid=5, degree=3, domain=(0.0, 2.0))
    assert basis.n_basis == 8
    assert basis.step == 0.4
    np.testing.assert_allclose(basis.knots, 0.4 * np.arange(-3, 9), rtol=0, atol=1e-15)
    assert basis.knots.dtype == np.float64
    assert basis.knots[3] == 0.0
    assert basis.knots[-4] == 2.0


def test_is_a_hashable_value():
    a, b = BSpline(5, 3, (-1, 1)), BSpline(np.int64(5), domain=[-1.0, 1.0])  # pyright: ignore
    assert a == b
    assert len({a, b, BSpline(6)}) == 2
    with pytest.raises(ValueError, match="read-only"):
        a.knots[0] = 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"grid": 0}, "'grid' must be an integer of at least 1. Got 0"),
        ({"grid": 2.5}, "'grid' must be an integer"),
        ({"grid": True}, "'grid' must be an integer"),
        ({"grid": "5"}, "'grid' must be an integer"),
        ({"grid": 5, "degree": 0}, "'degree' must be an integer from 1 to 5. Got 0"),
        ({"grid": 5, "degree": 6}, "'degree' must be an integer from 1 to 5. Got 6"),
        ({"grid": 5, "degree": 3.0}, "'degree' must be an integer"),
        ({"grid": 5, "domain": (1.0, -1.0)}, "'domain' must be a pair of finite numbers"),
        ({"grid": 5, "domain": (1.0, 1.0)}, "'domain' must be a pair"),
        ({"grid": 5, "domain": (0.0, np.inf)}, "'domain' must be a pair"),
        ({"grid": 5, "domain": (np.nan, 1.0)}, "'domain' must be a pair"),
        ({"grid": 5, "domain": (-1e308, 1e308)}, "'domain' must be a pair"),
        ({"grid": 5, "domain": (0.0, 1.0, 2.0)}, "'domain' must be a pair"),
        ({"grid": 5, "domain": 1.0}, "'domain' must be a pair"),
        ({"grid": 5, "domain": "ab"}, "'domain' must be a pair"),
        ({"grid": 1000, "domain": (1e15, 1e15 + 1)}, "'domain' must be wide enough"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(UserError, match=message):
        BSpline(**arguments)


@pytest.mark.parametrize("order", [-1, 1.0, True, "1"])
def test_refuses_an_order(order):
    basis = BSpline(5)
    with pytest.raises(UserError, match="'order' must be"):
        evaluate(0.0, basis, order)
    with pytest.raises(UserError, match="'order' must be"):
        basis.values(0.0, order)


@pytest.mark.parametrize(
    "knots", [[0.0, 1.0], [0, 2, 1, 3, 4], [[0, 1, 2, 3, 4]], [0, 1, 2, np.inf]]
)
def test_refuses_knots(knots):
    with pytest.raises(UserError, match=r"'knots'.* must be"):
        Knots.from_full(knots, 2)
