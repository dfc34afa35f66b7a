"""Twenty dimensionless equations of the Feynman dataset, by their index.

Inputs are uniform over (-1, 0) ∪ (0, 1). The evaluation grid (200² or 30³) is uniform over
[-1, 1], with a point on -1 or 0 moved up by 10⁻⁶, while +1 stays. On `AT_POLES` single points of
it reach 10⁶, so that the relative L² error is 1.00 whatever was learned: read the robust error
there. An even number of points has none on 0, which agrees with the published errors on I.6.2 and
I.13.12: with a point 10⁻⁶ from 0 they would be 1.00 as well.
"""

from collections.abc import Callable

import numpy as np
from numpy import arcsin, cos, exp, pi, sin, sqrt

from kandle.problems._function import Function

AT_POLES = ("I.18.4", "I.27.6")
"""Equations with a pole 10⁻⁶ away from the evaluation grid."""

HEAVY_TAILED = ("I.13.12", "I.18.4")
"""Equations whose loss is decided by the few training points drawn nearest to a pole."""


def punctured(low: float, high: float, n: int, gap: float = 1e-6) -> np.ndarray:
    """`linspace(low, high, n)` with its points at `low` and 0 moved up by `gap`; `high` stays.

    With an even `n` no point falls on 0, the nearest being half a step away.
    """
    x = np.linspace(low, high, n)
    return np.where((x == low) | (np.abs(x) < 1e-12), x + gap, x)


def _equation(index: str, latex: str, f: Callable, n_in: int = 2) -> Function:
    return Function(f, ((-1.0, 1.0),) * n_in, name=index, latex=latex, axis=punctured)


_EQUATIONS = (
    _equation(
        "I.6.2",
        r"f_1(x_1, x_2) = \exp\left(-\frac{x_1^2}{2 x_2^2}\right) \left(2 \pi x_2^2\right)^{-1/2}",
        lambda x1, x2: exp(-(x1**2) / (2 * x2**2)) * (2 * pi * x2**2) ** -0.5,
    ),
    _equation(
        "I.6.2b",
        r"f_2(x_1, x_2, x_3) = \exp\left(-\frac{(x_1 - x_2)^2}{2 x_3^2}\right)"
        r" \left(2 \pi x_3^2\right)^{-1/2}",
        lambda x1, x2, x3: exp(-((x1 - x2) ** 2) / (2 * x3**2)) * (2 * pi * x3**2) ** -0.5,
        n_in=3,
    ),
    _equation(
        "I.12.11",
        r"f_3(x_1, x_2) = 1 + x_1 \sin(x_2)",
        lambda x1, x2: 1 + x1 * sin(x2),
    ),
    _equation(
        "I.13.12",
        r"f_4(x_1, x_2) = x_1 (1/x_2 - 1)",
        lambda x1, x2: x1 * (1 / x2 - 1),
    ),
    _equation(
        "I.16.6",
        r"f_5(x_1, x_2) = (x_1 + x_2)/(1 + x_1 x_2)",
        lambda x1, x2: (x1 + x2) / (1 + x1 * x2),
    ),
    _equation(
        "I.18.4",
        r"f_6(x_1, x_2) = (1 + x_1 x_2)/(1 + x_1)",
        lambda x1, x2: (1 + x1 * x2) / (1 + x1),
    ),
    _equation(
        "I.26.2",
        r"f_7(x_1, x_2) = \arcsin(x_1 \sin(x_2))",
        lambda x1, x2: arcsin(x1 * sin(x2)),
    ),
    _equation(
        "I.27.6",
        r"f_8(x_1, x_2) = 1/(1 + x_1 x_2)",
        lambda x1, x2: 1 / (1 + x1 * x2),
    ),
    _equation(
        "I.29.16",
        r"f_9(x_1, x_2, x_3) = \sqrt{1 + x_1^2 - 2 x_1 \cos(x_2 - x_3)}",
        lambda x1, x2, x3: sqrt(1 + x1**2 - 2 * x1 * cos(x2 - x3)),
        n_in=3,
    ),
    _equation(
        "I.30.3",
        r"f_{10}(x_1, x_2) = \sin^2(x_1 x_2 / 2)/\sin^2(x_2/2)",
        lambda x1, x2: sin(x1 * x2 / 2) ** 2 / sin(x2 / 2) ** 2,
    ),
    _equation(
        "I.40.1",
        r"f_{11}(x_1, x_2) = x_1 \exp(-x_2)",
        lambda x1, x2: x1 * exp(-x2),
    ),
    _equation(
        "I.50.26",
        r"f_{12}(x_1, x_2) = \cos(x_1) + x_2 \cos^2(x_1)",
        lambda x1, x2: cos(x1) + x2 * cos(x1) ** 2,
    ),
    _equation(
        "II.2.42",
        r"f_{13}(x_1, x_2) = (x_1 - 1) x_2",
        lambda x1, x2: (x1 - 1) * x2,
    ),
    _equation(
        "II.6.15a",
        r"f_{14}(x_1, x_2, x_3) = \frac{x_3}{4\pi} \sqrt{x_1^2 + x_2^2}",
        lambda x1, x2, x3: x3 / (4 * pi) * sqrt(x1**2 + x2**2),
        n_in=3,
    ),
    _equation(
        "II.11.7",
        r"f_{15}(x_1, x_2, x_3) = x_1 (1 + x_2 \cos(x_3))",
        lambda x1, x2, x3: x1 * (1 + x2 * cos(x3)),
        n_in=3,
    ),
    _equation(
        "II.11.27",
        r"f_{16}(x_1, x_2) = (x_1 x_2)/\left(1 - \frac{x_1 x_2}{3}\right)",
        lambda x1, x2: (x1 * x2) / (1 - x1 * x2 / 3),
    ),
    _equation(
        "II.35.18",
        r"f_{17}(x_1, x_2) = x_1/(\exp(x_2) + \exp(-x_2))",
        lambda x1, x2: x1 / (exp(x2) + exp(-x2)),
    ),
    _equation(
        "II.36.38",
        r"f_{18}(x_1, x_2, x_3) = x_1 + x_2 x_3",
        lambda x1, x2, x3: x1 + x2 * x3,
        n_in=3,
    ),
    _equation(
        "III.10.19",
        r"f_{19}(x_1, x_2) = \sqrt{1 + x_1^2 + x_2^2}",
        lambda x1, x2: sqrt(1 + x1**2 + x2**2),
    ),
    _equation(
        "III.17.37",
        r"f_{20}(x_1, x_2, x_3) = x_2 (1 + x_1 \cos(x_3))",
        lambda x1, x2, x3: x2 * (1 + x1 * cos(x3)),
        n_in=3,
    ),
)

FEYNMAN = {equation.name: equation for equation in _EQUATIONS}
