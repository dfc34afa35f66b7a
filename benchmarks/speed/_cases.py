"""What is timed: Adam steps of one network, or of many at once, and evaluations of one."""

from collections.abc import Iterable
from dataclasses import dataclass

from kandle._errors import unknown


@dataclass(frozen=True)
class Case:
    """Train `batch` networks of one shape together; their time per step is divided by `batch`.

    A peer trains one network of that shape on the same points.

    Args:
        problem: whose data are trained on; `RANDOM` is `rows` rows of uniform inputs and normal
            targets, trained as a user of Kandle and Optax writes it.
        width, depth, ends: the hidden layers, and the numbers of inputs and outputs.
        grid: G.
        backend: of Kandle's kernels, None for the default.
        predict: evaluate the network instead of training it.
        fused: train with `kandle.train.adam` instead of Optax's.
    """

    name: str
    problem: str
    width: int
    depth: int
    grid: int
    batch: int = 1
    backend: str | None = None
    ends: tuple[int, int] = (2, 1)
    rows: int = 0
    predict: bool = False
    fused: bool = False

    @property
    def widths(self) -> tuple[int, ...]:
        return (self.ends[0], *(self.width,) * self.depth, self.ends[1])

    @property
    def edges(self) -> int:
        return sum(a * b for a, b in zip(self.widths, self.widths[1:], strict=False))

    @property
    def pde(self) -> bool:
        return self.problem == PDE


FUNCTION, PDE, RANDOM = "f3", "allen-cahn", "random"
_SMALL, _LARGE = (8, 2, 5), (32, 3, 20)


def _wide(name: str, *, fused: bool = False) -> Case:
    return Case(name, RANDOM, 1000, 1, 5, ends=(1000, 1), rows=100, fused=fused)


def _predict(name: str, rows: int) -> Case:
    return Case(name, RANDOM, *_LARGE, rows=rows, predict=True)


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
        Case("tabular", RANDOM, 64, 2, 8, ends=(20, 1), rows=1024),
        Case("tabular-minibatch", RANDOM, 64, 2, 8, ends=(20, 1), rows=128),
        Case("images", RANDOM, 64, 1, 5, ends=(784, 10), rows=128),
        _wide("wide"),
        _wide("wide-fused", fused=True),
        _predict("predict-one-row", 1),
        _predict("predict-100k-rows", 100_000),
    )
}

# How much longer a step takes on a sixteen times finer grid: G=80 against G=5.
GROWTH = (Case("growth-g5", FUNCTION, 32, 2, 5), Case("growth-g80", FUNCTION, 32, 2, 80))

# The networks whose training is weighed: of the latter, what is held beside weights, gradients and
# Adam's two moments.
MEMORY = Case("memory", FUNCTION, 64, 4, 40)
WIDE = CASES["wide"]

# (case, peer) -> the least ratio to be content with.
BARS = {
    ("functions-small", "jaxkan"): 60.0,
    ("functions-small-batch16", "jaxkan"): 100.0,
    ("functions-large", "jaxkan"): 100.0,
    ("pde-small-batch16", "jaxkan"): 100.0,
    ("pde-large", "jaxkan"): 100.0,
    ("functions-large-dense", "jaxkan"): 10.0,
    ("predict-one-row", "mlp-jax"): 0.5,
    **{("predict-100k-rows", name): 20.0 for name in ("efficient-kan", "pykan", "jaxkan")},
}
for _names, _efficient_kan, _fast_kan in (
    (("functions-small", "functions-large", "tabular"), 25.0, 8.0),
    (("images",), 4.0, 2.0),
    (("wide",), 2.5, 1.5),
    (("wide-fused",), 4.0, 2.0),
):
    for _name in _names:
        BARS[_name, "efficient-kan"], BARS[_name, "fast-kan"] = _efficient_kan, _fast_kan
GROWTH_BAR = 1.3
MEMORY_BAR = 0.1
WIDE_BAR = 50 * 2**20
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
