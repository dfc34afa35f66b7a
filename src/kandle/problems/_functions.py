"""The five two-dimensional functions of the study, on [-1, 1]²."""

import functools

import numpy as np
import scipy  # its parts are imported when first used

from kandle.problems._function import Function

_SQUARE = ((-1.0, 1.0), (-1.0, 1.0))


def f1(x, y):
    return x * y


def f2(x, y):
    return np.exp(np.sin(np.pi * x) + y**2)


def f3(x, y):
    """I₁ is the modified Bessel function of the first kind and order one."""
    i1 = functools.partial(scipy.special.iv, 1)
    return i1(x) + np.exp(np.exp(-np.abs(y)) * i1(y)) + np.sin(x * y)


def f4(x, y):
    """S(z) C(z) of the Fresnel integrals at z = f₃ + erf⁻¹(y).

    At y = ±1, z is ±∞, where S = C = ±1/2: the function takes its limit 1/4.
    """
    S, C = scipy.special.fresnel(f3(x, y) + scipy.special.erfinv(y))
    return S * C


def f5(x, y):
    """The text has min(xy, 1/(xy)) where this has xy.

    The published results took 1/(xy) only where xy > 1, which is nowhere on the domain; the minimum
    to the letter is unbounded below where xy < 0.
    """
    return y * np.sign(0.5 - x) + scipy.special.erf(x) * x * y


FUNCTIONS = {
    problem.name: problem
    for problem in (
        Function(f1, _SQUARE, latex=r"f_1(x, y) = x y"),
        Function(f2, _SQUARE, latex=r"f_2(x, y) = \exp\left(\sin(\pi x) + y^2\right)"),
        Function(
            f3,
            _SQUARE,
            latex=r"f_3(x, y) = I_1(x) + \exp\left[\exp(-|y|)\, I_1(y)\right] + \sin(x y)",
        ),
        Function(
            f4,
            _SQUARE,
            latex=r"f_4(x, y) = S\left[f_3(x, y) + \mathrm{erf}^{-1}(y)\right]"
            r" \times C\left[f_3(x, y) + \mathrm{erf}^{-1}(y)\right]",
        ),
        Function(
            f5,
            _SQUARE,
            latex=r"f_5(x, y) = y\, \mathrm{sgn}(0.5 - x) + \mathrm{erf}(x)\, x y",
        ),
    )
}
