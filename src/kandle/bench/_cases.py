"""What is timed: full-batch Adam steps of one network, or of many at once, on a problem's data."""

from collections.abc import Iterable
from dataclasses import dataclass

from kandle._errors import unknown


@dataclass(frozen=True)
class Case:
    """Train `batch` networks of one shape together; their time a step is divided by `batch`.

    A peer trains one network of that shape on the same points.
    """

    name: str
    problem: str
    width: int
    depth: int
    grid: int
    batch: int = 1
    backend: str | None = None

    @property
    def widths(self) -> tuple[int, ...]:
        return (2, *(self.width,) * self.depth, 1)

    @property
    def edges(self) -> int:
        return sum(a * b for a, b in zip(self.widths, self.widths[1:], strict=False))

    @property
    def pde(self) -> bool:
        return self.problem == PDE


FUNCTION, PDE = "f3", "allen-cahn"
_SMALL, _LARGE = (8, 2, 5), (32, 3, 20)

CASES = {
    case.name: case
    for case in (
        Case("functions-small", FUNCTION, *_SMALL),
        Case("functions-small-batch16", FUNCTION, *_SMALL, batch=16),
        Case("functions-large", FUNCTION, *_LARGE),
        Case("functions-large-dense", FUNCTION, *_LARGE, backend="dense"),
        Case("pde-small", PDE, *_SMALL),
        Case("pde-small-batch16", PDE, *_SMALL, batch=16),
        Case("pde-large", PDE, *_LARGE),
    )
}

# How much longer a step takes on a sixteen times finer grid: G=80 against G=5.
GROWTH = (Case("growth-g5", FUNCTION, 32, 2, 5), Case("growth-g80", FUNCTION, 32, 2, 80))

# The network whose training is weighed.
MEMORY = Case("memory", FUNCTION, 64, 4, 40)

# (case, peer) -> the least ratio to be content with.
BARS = {
    ("functions-small-batch16", "jaxkan"): 40.0,
    ("functions-large", "jaxkan"): 60.0,
    ("pde-small-batch16", "jaxkan"): 60.0,
    ("pde-large", "jaxkan"): 70.0,
    ("functions-large-dense", "jaxkan"): 10.0,
}
GROWTH_BAR = 1.5
MEMORY_BAR = 0.1
GROWTH_NAME = "growth"


def chosen(names: Iterable[str] | None) -> tuple[list[Case], bool]:
    """The cases of these names, all by default, and whether growth with G is among them."""
    if names is None:
        return list(CASES.values()), True
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        if name not in CASES and name != GROWTH_NAME:
            raise unknown("case", name, [*CASES, GROWTH_NAME])
    return [CASES[name] for name in wanted if name in CASES], GROWTH_NAME in wanted
