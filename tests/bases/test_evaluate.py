"""Basis functions: SciPy, the naive recursion, partition of unity, supports, derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import export
from scipy.interpolate import BSpline as ScipySpline

from kandle.bases import (
    BSpline,
    cardinal_coefficients,
    evaluate,
    local_taps,
    locate,
    recursion,
)


def cox_de_boor(x, knots, degree, order=0):
    """The recursion in JAX, with the functions along the last axis."""
    compiled = jax.jit(lambda x: jnp.moveaxis(recursion(x, knots, degree, order, jnp), 0, -1))
    return compiled(jnp.asarray(x))


DEGREES = (1, 2, 3, 4, 5)
BASES = [
    BSpline(grid, degree, domain)
    for degree in DEGREES
    for grid, domain in ((1, (-1.0, 1.0)), (5, (-1.0, 1.0)), (23, (-2.0, 0.3)))
]


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def points(basis: BSpline, n: int = 301) -> np.ndarray:
    """Points on and around the augmented interval, none of them on a knot to rounding."""
    t = basis.knots
    x = np.random.default_rng(0).uniform(t[0] - 2 * basis.step, t[-1] + 2 * basis.step, n)
    return x[np.abs(x[:, None] - t).min(axis=1) > 1e-9 * basis.step]


def scipy_basis(x: np.ndarray, knots: np.ndarray, degree: int, order: int) -> np.ndarray:
    columns = []
    for m in range(len(knots) - degree - 1):
        element = ScipySpline.basis_element(knots[m : m + degree + 2], extrapolate=False)
        columns.append(np.nan_to_num(element.derivative(order)(x) if order else element(x)))
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("basis", BASES, ids=str)
def test_agrees_with_scipy(basis):
    x = points(basis)
    for order in range(basis.degree + 1):
        expected = scipy_basis(x, basis.knots, basis.degree, order)
        scale = basis.step**-order
        np.testing.assert_allclose(
            evaluate(x, basis, order) / scale, expected / scale, rtol=0, atol=1e-12
        )


def naive(x: float, t: np.ndarray, m: int, p: int, order: int) -> float:
    """The textbook recursion for one function at one point."""

    def quotient(a, b):
        return a / b if b else 0.0

    if p == 0:
        return float(t[m] <= x < t[m + 1]) if order == 0 else 0.0
    left, right = t[m + p] - t[m], t[m + p + 1] - t[m + 1]
    if order == 0:
        return quotient(x - t[m], left) * naive(x, t, m, p - 1, 0) + quotient(
            t[m + p + 1] - x, right
        ) * naive(x, t, m + 1, p - 1, 0)
    return p * (
        quotient(naive(x, t, m, p - 1, order - 1), left)
        - quotient(naive(x, t, m + 1, p - 1, order - 1), right)
    )


@pytest.mark.parametrize("degree", DEGREES)
def test_agrees_with_the_naive_recursion(degree):
    basis = BSpline(4, degree, (-0.5, 2.0))
    x = points(basis, 40)
    for order in range(degree + 2):
        expected = [
            [naive(xi, basis.knots, m, degree, order) for m in range(basis.n_basis)] for xi in x
        ]
        scale = basis.step**-order
        for B in (evaluate(x, basis, order), cox_de_boor(x, basis.knots, degree, order)):
            np.testing.assert_allclose(B / scale, np.array(expected) / scale, rtol=0, atol=1e-12)


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
@pytest.mark.parametrize("clamped", [False, True])
def test_recursion_on_uneven_and_repeated_knots(degree, clamped):
    inner = np.array([-1.0, -0.7, -0.1, 0.0, 0.9, 1.3])
    t = np.concatenate([[inner[0]] * degree, inner, [inner[-1]] * degree]) if clamped else inner
    x = np.random.default_rng(1).uniform(-1.5, 1.8, 60)
    for order in range(degree + 1):
        expected = [
            [naive(xi, t, m, degree, order) for m in range(len(t) - degree - 1)] for xi in x
        ]
        np.testing.assert_allclose(
            cox_de_boor(x, t, degree, order), expected, rtol=1e-12, atol=1e-12
        )


@settings(max_examples=15, deadline=None)
@given(
    grid=st.integers(1, 30),
    degree=st.sampled_from(DEGREES),
    lo=st.floats(-10, 10),
    width=st.floats(0.1, 20),
    fractions=st.lists(st.floats(0, 1), min_size=4, max_size=4),
)
def test_partition_of_unity(grid, degree, lo, width, fractions):
    with jax.enable_x64(True):
        basis = BSpline(grid, degree, (lo, lo + width))
        x = lo + width * np.array(fractions)
        B = np.asarray(evaluate(x, basis))
        np.testing.assert_allclose(B.sum(axis=-1), 1.0, rtol=0, atol=1e-12)
        assert B.min() > -1e-14
        inner = np.minimum(x, lo + 0.999 * width)  # at the end itself a linear slope is outside's
        slopes = np.asarray(evaluate(inner, basis, 1)) * basis.step
        np.testing.assert_allclose(slopes.sum(axis=-1), 0.0, rtol=0, atol=1e-11)


@pytest.mark.parametrize("basis", BASES[1::3], ids=str)
def test_zero_outside_the_augmented_interval(basis):
    t, h = basis.knots, basis.step
    outside = np.array([t[0] - 1e-6 * h, t[0] - h, -1e300, t[-1] + 1e-6 * h, t[-1] + h, 1e300])
    inside = np.array([t[0] + 1e-3 * h, t[-1] - 1e-3 * h])
    for order in range(basis.degree + 2):
        assert (np.asarray(evaluate(outside, basis, order)) == 0).all()
    assert (np.asarray(cox_de_boor(outside, t, basis.degree)) == 0).all()
    assert (np.count_nonzero(evaluate(inside, basis), axis=-1) == 1).all()


@pytest.mark.parametrize("degree", DEGREES)
def test_at_most_k_plus_one_functions_are_non_zero(degree):
    basis = BSpline(9, degree)
    x = np.random.default_rng(2).uniform(-1, 1, 200)
    cell, u = locate(jnp.asarray(x), basis, jnp)
    B = np.asarray(evaluate(x, basis))
    taps = np.stack(local_taps(u, degree, xp=jnp), axis=-1)
    for i, c in enumerate(np.asarray(cell).astype(int)):
        np.testing.assert_allclose(B[i, c : c + degree + 1], taps[i], rtol=0, atol=1e-15)
        assert np.count_nonzero(B[i]) <= degree + 1


def test_cubic_pieces_are_the_known_ones():
    known = np.array([[1, -3, 3, -1], [4, 0, -6, 3], [1, 3, 3, -3], [0, 0, 0, 1]]) / 6
    np.testing.assert_array_equal(cardinal_coefficients(3), known)
    assert cardinal_coefficients(3, order=3).shape == (4, 1)
    assert cardinal_coefficients(3, order=4).shape == (4, 0)


@pytest.mark.parametrize("degree", DEGREES)
def test_right_continuous_at_the_knots(degree):
    basis = BSpline(4, degree, (-1.0, 1.0))  # a step of 1/2: the knots are exact
    for order in range(degree + 1):
        at, after = (evaluate(basis.knots + e, basis, order) for e in (0.0, 1e-13))
        np.testing.assert_allclose(at, after, rtol=0, atol=1e-10)
    np.testing.assert_allclose(
        evaluate(basis.knots, basis, degree),
        cox_de_boor(basis.knots, basis.knots, degree, degree),
        rtol=0,
        atol=1e-10,
    )


def slope(f):
    """The derivative of an elementwise function, in forward mode."""
    return jax.jit(lambda x: jax.jvp(f, (x,), (jnp.ones_like(x),))[1])


@pytest.mark.parametrize("degree", DEGREES)
def test_jax_derivative_is_the_next_order(degree):
    basis = BSpline(5, degree, (0.0, 2.0))
    x = jnp.asarray(points(basis, 40))
    for order in range(degree + 1):
        got = slope(lambda x, order=order: evaluate(x, basis, order))(x)
        np.testing.assert_array_equal(got, evaluate(x, basis, order + 1))
    by_recursion = slope(lambda x: cox_de_boor(x, basis.knots, degree))(x)
    np.testing.assert_allclose(by_recursion, evaluate(x, basis, 1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("degree", [1, 3])
def test_jax_derivatives_nest(degree):
    basis = BSpline(5, degree, (0.0, 2.0))
    x = jnp.asarray(points(basis, 20))

    def B(x):
        return evaluate(x, basis)

    third = evaluate(x, basis, 3)
    nestings = (
        jax.vmap(jax.jacfwd(jax.jacrev(jax.jacfwd(B)))),
        jax.vmap(jax.jacrev(jax.jacrev(jax.jacrev(B)))),
        slope(slope(slope(B))),
    )
    for nested in nestings:
        np.testing.assert_allclose(jax.jit(nested)(x), third, rtol=1e-12)


def test_gradients_of_a_composition():
    basis = BSpline(6, 4)
    w = jnp.linspace(-1, 1, basis.n_basis)

    def f(x):
        return jnp.sin(evaluate(jnp.tanh(x), basis) @ w)

    x, e = 0.37, 1e-4
    below, at, above = (float(f(x + s * e)) for s in (-1, 0, 1))
    first, second = (above - below) / (2 * e), (above - 2 * at + below) / e**2
    assert float(jax.grad(f)(x)) == pytest.approx(first, rel=1e-6)
    assert float(jax.jit(jax.grad(jax.grad(f)))(x)) == pytest.approx(second, rel=1e-5)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_points_give_nan(bad):
    basis = BSpline(5)
    x = jnp.array([0.1, bad])
    for order in (0, 1, 4):
        for B in (evaluate(x, basis, order), cox_de_boor(x, basis.knots, 3, order)):
            assert np.isfinite(B[0]).all()
            assert np.isnan(B[1]).all()
    assert np.isnan(jax.jacfwd(lambda x: evaluate(x, basis))(bad)).all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_keeps_shape_and_dtype(dtype):
    basis = BSpline(5)
    x = jnp.linspace(-1, 1, 24, dtype=dtype).reshape(2, 3, 4)
    for B in (evaluate(x, basis), cox_de_boor(x, basis.knots, 3)):
        assert B.shape == (2, 3, 4, 8)
        assert B.dtype == dtype
    assert evaluate(0, basis).dtype == jnp.float64


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
def test_lowers_for_accelerators(platform):
    basis = BSpline(5)
    f = jax.jit(jax.grad(lambda x: evaluate(x, basis).sum()))
    x = jax.ShapeDtypeStruct((7,), jnp.float32)
    text = export.export(f, platforms=[platform])(x).mlir_module()
    assert "custom_call" not in text
