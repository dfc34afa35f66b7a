"""Train one network on rows of data that are already scaled."""

import itertools
import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Float, Int

from kandle._errors import UserError, must
from kandle._seed import check_seed
from kandle.init import Scheme, get
from kandle.nn import KAN
from kandle.train import Classify, FitRows, Optimizer, Population

Report = Callable[[int, int, float], None]  # steps done, of how many, loss

# 0.4 GB, and with the state and gradients of the optimizer four times that.
MOST_WEIGHTS = 10**8

# Up to here a training takes less time than compiling it anew for one more number of rows.
_SMALL = 1024


@dataclass(frozen=True)
class FitSettings:
    """How a network is built and trained on rows.

    Args:
        layers: widths of the hidden layers.
        grid, degree: of the splines.
        init: a scheme of `kandle.init`, or its name.
        steps: number of updates, each on all rows.
        learning_rate: of Adam where it starts; it falls to zero along a cosine.
        weight_decay: of AdamW, relative to the learning rate.
        seed: of the weights.
    """

    layers: Sequence[int] = (8, 8)
    grid: int = 5
    degree: int = 3
    init: str | Scheme = "power-law"
    steps: int = 2000
    learning_rate: float = 1e-2
    weight_decay: float = 0.0
    seed: int = 0

    def __post_init__(self):
        object.__setattr__(self, "seed", check_seed("'seed' of FitSettings", self.seed))

    def optimizer(self) -> Optimizer:
        schedule = {"name": "cosine_decay", "decay_steps": int(self.steps)}
        decay = self.weight_decay
        real = isinstance(decay, numbers.Real) and not isinstance(decay, bool)
        if not real or not 0 <= decay < math.inf:
            raise must("'weight_decay'", "a finite number of at least 0", decay)
        if decay == 0:
            return Optimizer("adam", self.learning_rate, schedule)
        arguments = {"weight_decay": float(decay)}
        return Optimizer("adamw", self.learning_rate, schedule, arguments)


def fit_values(
    x: Float[np.ndarray, "N n_in"],
    y: Float[np.ndarray, "N n_out"],
    settings: FitSettings,
    report: Report | None = None,
) -> KAN:
    """The network fitted to y in the mean square; x on [-1, 1], y of unit spread."""
    weight = np.full(len(x), 1 / y.size)
    return _fit(x, y, weight, FitRows(), settings, report)


def fit_classes(
    x: Float[np.ndarray, "N n_in"],
    y: Int[np.ndarray, " N"],
    n_classes: int,
    settings: FitSettings,
    report: Report | None = None,
) -> KAN:
    """The network whose softmax is fitted to the classes y = 0, 1, … by cross-entropy."""
    weight = np.full(len(x), 1 / len(x))
    return _fit(x, np.eye(n_classes)[y], weight, Classify(), settings, report)


def _fit(
    x: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    objective: FitRows | Classify,
    settings: FitSettings,
    report: Report | None,
) -> KAN:
    s, scheme = settings, get(settings.init)
    whole = isinstance(s.steps, numbers.Integral) and not isinstance(s.steps, bool)
    if not whole or s.steps < 1:
        raise must("The number of training steps", "an integer of at least 1", s.steps)
    _check_size([x.shape[1], *s.layers, y.shape[1]], s)
    data = {"x": x, "y": y, "weight": weight}
    # Statistics of a batch would see the rows that fill it up.
    if not scheme.normalized:
        data = {name: _filled(values) for name, values in data.items()}
    data = {name: values.astype(np.float32) for name, values in data.items()}
    model = KAN(
        [x.shape[1], *s.layers, y.shape[1]],
        grid=s.grid,
        degree=s.degree,
        init=scheme,
        key=jax.random.key(s.seed),
    )
    if scheme.spread is not None:
        model = model.adapt(x, scheme.spread)
    population = Population([model], data, objective, optimizer=s.optimizer())

    def told(done: int, losses: np.ndarray) -> None:
        if report is not None:
            report(done, s.steps, float(losses[0]))

    losses = population.advance(s.steps, told)[:, 0]
    [model] = population.models()
    bad = np.flatnonzero(~np.isfinite(losses))
    if bad.size or not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(model)):
        step = int(bad[0]) + 1 if bad.size else s.steps
        raise UserError(
            f"Training diverged at step {step} of {s.steps}. "
            f"A learning rate below {s.learning_rate:g} or another init may help."
        )
    return model.freeze(data["x"])


def _check_size(widths: list, settings: FitSettings) -> None:
    """A network that no memory holds is an error before it is one."""
    s = settings
    # Shapes that are none at all are told by the network.
    sizes = (*widths, s.grid, s.degree)
    if not all(isinstance(size, int | np.integer) and size > 0 for size in sizes):
        return
    weights = sum(a * b for a, b in itertools.pairwise(widths)) * (s.grid + s.degree + 2)
    if weights > MOST_WEIGHTS:
        raise UserError(
            f"A network of widths {widths} and grid {s.grid} has {weights:.2g} weights, more than "
            f"the {MOST_WEIGHTS:.0e} that are fitted here. Smaller layers or a coarser grid help."
        )


def _filled(values: np.ndarray) -> np.ndarray:
    """Zero rows up to the next power of two, where a training is short."""
    rows = len(values)
    if rows > _SMALL:
        return values
    fill = max(16, 1 << (rows - 1).bit_length()) - rows
    return np.pad(values, [(0, fill)] + [(0, 0)] * (values.ndim - 1))
