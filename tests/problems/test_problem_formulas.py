"""Every function and equation against mpmath or SymPy, written down a second time."""

import matplotlib.mathtext
import mpmath
import numpy as np
import pytest
import sympy

from kandle import problems

FUNCTIONS = {
    "f1": lambda x, y: x * y,
    "f2": lambda x, y: mpmath.e ** (mpmath.sin(mpmath.pi * x) + y * y),
    "f3": lambda x, y: (
        mpmath.besseli(1, x)
        + mpmath.exp(mpmath.exp(-abs(y)) * mpmath.besseli(1, y))
        + mpmath.sin(x * y)
    ),
    "f4": lambda x, y: (
        mpmath.fresnels(FUNCTIONS["f3"](x, y) + mpmath.erfinv(y))
        * mpmath.fresnelc(FUNCTIONS["f3"](x, y) + mpmath.erfinv(y))
    ),
    "f5": lambda x, y: y * mpmath.sign(mpmath.mpf("0.5") - x) + mpmath.erf(x) * x * y,
}

FEYNMAN = {
    "I.6.2": "exp(-(a/b)**2/2)/sqrt(2*pi*b**2)",
    "I.6.2b": "exp(-((a - b)/c)**2/2)/sqrt(2*pi*c**2)",
    "I.12.11": "1 + a*sin(b)",
    "I.13.12": "a/b - a",
    "I.16.6": "(a + b)/(1 + a*b)",
    "I.18.4": "(1 + a*b)/(1 + a)",
    "I.26.2": "asin(a*sin(b))",
    "I.27.6": "1/(1 + a*b)",
    "I.29.16": "sqrt(1 + a**2 - 2*a*cos(b - c))",
    "I.30.3": "(1 - cos(a*b))/(1 - cos(b))",
    "I.40.1": "a/exp(b)",
    "I.50.26": "cos(a)*(1 + b*cos(a))",
    "II.2.42": "a*b - b",
    "II.6.15a": "c*sqrt(a**2 + b**2)/(4*pi)",
    "II.11.7": "a + a*b*cos(c)",
    "II.11.27": "3*a*b/(3 - a*b)",
    "II.35.18": "a/(2*cosh(b))",
    "II.36.38": "a + b*c",
    "III.10.19": "sqrt(1 + a**2 + b**2)",
    "III.17.37": "b + a*b*cos(c)",
}


def test_all_are_covered():
    assert list(problems.FUNCTIONS) == list(FUNCTIONS)
    assert list(problems.FEYNMAN) == list(FEYNMAN)
    assert len(FEYNMAN) == 20


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_against_mpmath(name):
    problem = problems.get(name)
    x = problem.arrays(np.float64)["x"][:40]
    expected = [float(FUNCTIONS[name](*map(mpmath.mpf, point))) for point in x.tolist()]
    np.testing.assert_allclose(problem(x)[:, 0], expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", FEYNMAN)
def test_feynman_equations_against_sympy(name):
    problem = problems.get(name)
    expression = sympy.sympify(FEYNMAN[name])
    symbols = sympy.symbols("a b c")[: problem.n_in]
    assert expression.free_symbols == set(symbols)
    exact = sympy.lambdify(symbols, expression, "mpmath")
    x = problem.arrays(np.float64)["x"][:40]
    with mpmath.workdps(30):
        expected = [float(exact(*map(mpmath.mpf, point))) for point in x.tolist()]
    np.testing.assert_allclose(problem(x)[:, 0], expected, rtol=1e-11, atol=1e-15)


def test_f4_takes_its_limit_on_the_edge():
    x, y = problems.get("f4").evaluation()
    edge = np.abs(x[:, 1]) == 1.0
    assert edge.sum() == 400
    assert (y[edge] == 0.25).all()
    assert np.isfinite(y).all()
    # It is the limit: S(z) C(z) nears 1/4 as z grows without bound.
    assert abs(float(mpmath.fresnels(200) * mpmath.fresnelc(200)) - 0.25) < 2e-3


def test_f5_jumps_at_one_half_and_is_bounded():
    f5 = problems.get("f5")
    left, at, right = f5([[0.499999, 1.0], [0.5, 1.0], [0.500001, 1.0]])[:, 0]
    assert left - right == pytest.approx(2.0, abs=1e-5)
    assert at == pytest.approx((left + right) / 2, abs=1e-5)
    assert np.abs(f5.evaluation()[1]).max() < 2.0


@pytest.mark.parametrize("name", problems.names())
def test_latex_can_be_typeset(name):
    latex = problems.get(name).latex
    assert "=" in latex
    assert "$" not in latex
    matplotlib.mathtext.MathTextParser("path").parse(f"${latex}$")
