"""What a training takes and what comes out of it."""

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from kandle import init
from kandle._seed import check_seed
from kandle.nn import KAN


@dataclass(frozen=True)
class Member:
    """One model of a training: how it starts. The data do not depend on it.

    Args:
        scheme: of `kandle.init`, or its name.
        seed: of the weights.
    """

    scheme: init.Scheme | str
    seed: int

    def __post_init__(self):
        object.__setattr__(self, "scheme", init.get(self.scheme))
        object.__setattr__(self, "seed", check_seed("'seed' of Member", self.seed))


@dataclass
class Result:
    """The outcome of training one model; one that diverged is a result too.

    Attributes:
        status: "ok", or "diverged" where the loss stopped being finite.
        diverged_at: the first step with a loss that is not finite, None if there was none.
        loss: the loss before the last update.
        l2: relative L² error on the evaluation grid, after the last update.
        l2_robust: median relative error there.
        test_mse: mean squared error on held-out samples.
        curve_steps: steps, counted from 1; step s is the s-th update.
        curve_loss: the loss before each of those updates.
        wall_s: this model's share of the time that its batch took, in seconds.
        model: the trained network, if it was asked for.
        extra: whatever a checkpoint's hook put there.

    Numbers that do not exist, or do not any more, are NaN.
    """

    status: Literal["ok", "diverged"]
    diverged_at: int | None
    loss: float
    l2: float
    l2_robust: float
    test_mse: float
    curve_steps: np.ndarray
    curve_loss: np.ndarray
    wall_s: float = math.nan
    model: KAN | None = None
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Checkpoint:
    """One model on the way, as a checkpoint's hook sees it.

    Attributes:
        index: the model's place among the members.
        member: how it started.
        model: the network after so many updates.
        rba: the weights α of the PDE's points, `pde` and `bc`; empty for a function, or without.
        extra: becomes `Result.extra`: what the hook puts here is kept.
    """

    index: int
    member: Member
    model: KAN
    rba: dict[str, np.ndarray]
    extra: dict[str, Any]


def curve_steps(steps: int, kind: str, points: int = 200) -> np.ndarray:
    """The steps whose loss is kept: all, or about 200 log-spaced ones with the first and last."""
    kept = np.arange(1, steps + 1)
    if kind == "all" or steps <= points:
        return kept
    # Rounding merges the first of them, so more are laid out than are kept.
    laid_out = points
    while len(kept := np.unique(np.rint(np.geomspace(1, steps, laid_out)).astype(int))) < points:
        laid_out += points // 10
    return kept
