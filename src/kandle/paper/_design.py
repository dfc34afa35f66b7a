"""The paper's design: its problems, architectures, exponents, and how it names things."""

from kandle.paper._studies import FEYNMAN as _FEYNMAN
from kandle.paper._studies import FUNCTIONS as _FUNCTIONS
from kandle.paper._studies import PDES as _PDES
from kandle.paper._studies import STUDIES as _STUDIES

FUNCTIONS, PDES, FEYNMAN = tuple(_FUNCTIONS), tuple(_PDES), tuple(_FEYNMAN)
STUDIES = tuple(_STUDIES)
SMALL, LARGE = (5, 8, 2), (20, 32, 3)
"""(G, width, depth) of the two named architectures."""
EXPONENTS = tuple(i / 4 for i in range(9))
"""The values of α and β that were searched."""
POWER_LAW = (0.25, 1.75)
"""(α, β) recommended by the paper, and of `power-law` by name alone."""
CURVE_SCHEMES = ("baseline", "lecun-numerical", "glorot", "power-law")
"""The schemes whose loss curves and kernel spectra the paper shows."""
STEPS = {"function": 2000, "pde": 5000}


def steps(problem: str) -> int:
    """The number of updates that the paper trains a problem for."""
    return STEPS["pde" if problem in PDES else "function"]
