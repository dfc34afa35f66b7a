"""How a network is built and trained on rows of data: the defaults of estimators and commands."""

import itertools
import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from kandle._errors import must, unknown
from kandle._seed import check_seed
from kandle.init import Scheme
from kandle.train import recipe as recipe_of_train

# The values that smoothness="auto" chooses from.
SMOOTHNESS = (1e-4, 1e-3, 1e-2, 1e-1)

# Least squares also tries this one, since it gets far enough for it to matter.
SMALL_SMOOTHNESS = 1e-6

OPTIMIZERS = ("adam", "levenberg-marquardt")

# Without a given batch size an update sees all of few rows, and batches of more.
_WHOLE, _MEDIUM = 512, 2048
_BATCH_OF_MEDIUM, _BATCH = 256, 512


@dataclass(frozen=True)
class FitSettings:
    """How networks are built and trained on rows.

    With the loss L of the rows (mean squared error in units of the target's variance, or
    cross-entropy), an update lowers

        L + smoothness · Σ_edges ∫ φ''(x)² dx + weight_decay · Σ (r² + (c·b)²),

    where φ = c Σ_m b_m B_m is the spline of an edge.

    Args:
        layers: widths of the hidden layers.
        grid: spline intervals; one number, or one per layer.
        grids: a schedule in place of `grid`, such as (5, 10, 20): up to `steps` updates on each
            grid, from the function that the one before ended with (`KAN.widen`, `KAN.refine`). The
            optimizer and its rate are reset, the rows held out stay the same, and `smoothness` is
            chosen on the first grid.
        degree: of the splines.
        init: a scheme of `kandle.init`, or its name.
        steps: the largest number of updates, of each grid if there are several.
        optimizer: "adam", or "levenberg-marquardt" for numbers as targets: least squares in double
            precision on all rows. One of its iterations counts as 20 updates.
        learning_rate: of Adam at the start; it falls to zero along a cosine over `steps`.
        batch_size: rows per update; "auto" is all of up to 512 rows, 256 of up to 2,048 and 512 of
            more.
        early_stopping: whether each network holds out rows, keeps the weights that predicted them
            best, and stops when they get no better. It needs at least ten rows.
        validation_fraction: the share of rows that each network holds out.
        patience: updates without a better validation loss after which training stops.
        smoothness: the penalty on curvature; "auto" chooses among 1e-4, 1e-3, 1e-2 and 1e-1 by the
            validation loss, with least squares also 1e-6, and is 0 without early stopping.
        weight_decay: the penalty on the size of weights.
        networks: how many networks are trained, from other weights and with other rows held out.
            Their average is one network, which is the result.
        seed: of the weights, of the rows held out and of the batches.
    """

    layers: Sequence[int] = (16,)
    grid: int | Sequence[int] = 5
    grids: Sequence[int] | None = None
    degree: int = 3
    init: str | Scheme = "power-law"
    steps: int = 2000
    optimizer: str = "adam"
    learning_rate: float = 1e-2
    batch_size: int | str = "auto"
    early_stopping: bool = True
    validation_fraction: float = 0.1
    patience: int = 200
    smoothness: float | str = "auto"
    weight_decay: float = 0.0
    networks: int = 5
    seed: int = 0

    def __post_init__(self):
        object.__setattr__(self, "seed", check_seed("'seed'", self.seed))
        for name, (is_valid, requirement) in _REQUIREMENTS.items():
            if not is_valid(value := getattr(self, name)):
                raise must(f"'{name}' of FitSettings", requirement, plain_number(value))

    @classmethod
    def names(cls) -> list[str]:
        """The names of all settings but the seed."""
        return [field.name for field in fields(cls) if field.name != "seed"]

    @property
    def total_steps(self) -> int:
        """The largest number of updates on all grids together."""
        return int(self.steps) * len(self.grids or (1,))

    @property
    def finest(self) -> int | Sequence[int]:
        """The grid of the fitted network."""
        return self.grids[-1] if self.grids else self.grid

    def grids_for(self, layers: int, *, finest: bool = False) -> list[int]:
        """The grid of each of so many layers, as plain integers: those of `grid`, or the finest."""
        grid = self.finest if finest else self.grid
        if not isinstance(grid, Sequence):
            return [int(grid)] * layers
        grids = [int(each) for each in grid]
        if len(grids) != layers:
            raise must("'grid'", f"one integer, or {layers}, one per layer", grid)
        return grids

    @classmethod
    def checked(cls, values: Mapping[str, Any], names: Mapping[str, str]) -> "FitSettings":
        """Settings of these values, where an error calls them by the names that the user wrote."""
        for field, (is_valid, requirement) in _REQUIREMENTS.items():
            if field in values and not is_valid(values[field]):
                raise must(f"'{names.get(field, field)}'", requirement, plain_number(values[field]))
        return cls(**values)

    def rows_per_update(self, rows: int) -> int | None:
        """The batch size for so many training rows; None if every update sees all of them."""
        if is_auto(self.batch_size):
            if rows <= _WHOLE:
                return None
            return _BATCH_OF_MEDIUM if rows <= _MEDIUM else _BATCH
        size = int(self.batch_size)
        return None if size >= rows else size


def _from_training(name: str) -> dict[str, Any]:
    """What a recipe of `kandle.train` says of the optimizer and the grids."""
    recipe = recipe_of_train(name)
    values: dict[str, Any] = {"optimizer": recipe.optimizer.name}
    if recipe.optimizer.least_squares is None:
        values["learning_rate"] = recipe.optimizer.learning_rate
    if recipe.refinements:
        values["grids"] = recipe.grids(FitSettings.grid)  # pyright: ignore[reportArgumentType]
    return values


# Settings by name: what they differ from the defaults in. A given grid replaces the first of a
# schedule, see `with_recipe`.
RECIPES: dict[str, dict[str, Any]] = {
    "default": {},
    "quick": {"networks": 2, "smoothness": 1e-3, "steps": 500, "patience": 100},
    "thorough": {"layers": (32,), "networks": 10, "steps": 5000, "patience": 500},
    "noise-free": {
        "layers": (8, 8),
        "networks": 1,
        "smoothness": 0.0,
        "early_stopping": False,
        "steps": 5000,
    },
    "accurate": _from_training("accurate"),
    "paper": {
        **_from_training("paper"),
        "layers": (8, 8),
        "networks": 1,
        "smoothness": 0.0,
        "early_stopping": False,
    },
}
# The name that `kandle.train` has for a short training.
RECIPES["fast"] = RECIPES["quick"]


def with_recipe(recipe: str | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a recipe with those that the user gave in place of its own.

    A given `grid` G turns a schedule (a, b, …) into (G, G b/a, …), and a grid for each layer turns
    it off.

    >>> with_recipe("accurate", {"grid": 8})["grids"]
    (8, 16)
    """
    if recipe is None:
        return dict(given)
    if not isinstance(recipe, str) or recipe not in RECIPES:
        raise unknown("recipe", str(recipe), RECIPES)
    values = {**RECIPES[recipe], **given}
    if "grid" in given and "grids" not in given and "grids" in values:
        first, G = values["grids"][0], given["grid"]
        values["grids"] = tuple(G * b // first for b in values["grids"]) if _is_count(G) else None
    return values


def plain_number(value: Any) -> Any:
    """A NumPy number as Python's, so that a message shows 0.0 and not np.float64(0.0)."""
    return value.item() if isinstance(value, np.generic) else value


def is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool | np.bool_)


def _is_count(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not _is_bool(value) and int(value) >= 1


def _is_nonnegative(value: Any) -> bool:
    real = isinstance(value, numbers.Real) and not _is_bool(value)
    return real and 0 <= float(value) < math.inf


def _is_positive(value: Any) -> bool:
    return _is_nonnegative(value) and float(value) > 0


def _is_grids(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(map(_is_count, value))


def _is_schedule(value: Any) -> bool:
    ordered = _is_grids(value) and all(a < b for a, b in itertools.pairwise(value))
    return ordered and len(value) > 0


def _is_widths(value: Any) -> bool:
    try:
        return not isinstance(value, str) and all(_is_count(width) for width in value)
    except TypeError:
        return False


# What the settings must be, in the order in which they are checked.
_COUNT = (_is_count, "an integer of at least 1")
_REQUIREMENTS = {
    "layers": (_is_widths, "a sequence of widths of at least 1, such as (16,) or (8, 8)"),
    "grid": (lambda v: _is_count(v) or _is_grids(v), "an integer of at least 1, or one per layer"),
    "grids": (
        lambda v: v is None or _is_schedule(v),
        "None, or increasing integers of at least 1, such as [5, 10, 20]",
    ),
    "degree": _COUNT,
    "steps": _COUNT,
    "optimizer": (lambda v: v in OPTIMIZERS, " or ".join(map(repr, OPTIMIZERS))),
    "learning_rate": (_is_positive, "a positive finite number"),
    "batch_size": (
        lambda v: is_auto(v) or _is_count(v),
        '"auto" or an integer of at least 1',
    ),
    "early_stopping": (_is_bool, "True or False"),
    "validation_fraction": (
        lambda v: _is_positive(v) and v < 1,
        "a number above 0 and below 1",
    ),
    "patience": _COUNT,
    "smoothness": (
        lambda v: is_auto(v) or _is_nonnegative(v),
        '"auto" or a finite number of at least 0',
    ),
    "weight_decay": (_is_nonnegative, "a finite number of at least 0"),
    "networks": _COUNT,
}
