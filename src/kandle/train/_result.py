"""The members of a training and their results."""

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from kandle import init
from kandle._seed import check_seed
from kandle.kernels import Route
from kandle.nn import KAN


@dataclass(frozen=True)
class Member:
    """One model of a training: its initialization. All members see the same data.

    Args:
        scheme: a scheme of `kandle.init`, or its name.
        seed: seed of the weights.
    """

    scheme: init.Scheme | str
    seed: int

    def __post_init__(self):
        object.__setattr__(self, "scheme", init.get(self.scheme))
        object.__setattr__(self, "seed", check_seed("'seed' of Member", self.seed))


@dataclass
class Result:
    """The outcome of training one model, whether it converged or diverged.

    Attributes:
        status: "ok", or "diverged" if the loss became infinite or NaN.
        diverged_at: the first step with a loss that is not finite, or None.
        loss: the loss before the last update.
        l2: relative L² error on the evaluation grid, after the last update.
        l2_robust: median relative error on the same grid.
        test_mse: mean squared error on held-out samples.
        curve_steps: the recorded steps; step s is the s-th update, counted from 1.
        curve_loss: the loss before each of these updates.
        backend: what computed the training: a backend of `kandle.kernels`, or "dense" where a part
            of it was computed in plain JAX (least squares of general PDEs, derivatives of orders
            above two).
        route: how losses and their derivatives were computed, see `kandle.kernels.route`.
        wall_s: wall time of the batch divided by its number of models, in seconds.
        model: the trained network if `keep_weights`, else None.
        extra: values stored by the checkpoint hook.
        coefficients: trained coefficients of a PDE by name, after the last update.
        curve_coefficients: the same after each of the recorded steps.

    Errors that the problem does not define, or that a diverged model lacks, are NaN.
    """

    status: Literal["ok", "diverged"]
    diverged_at: int | None
    loss: float
    l2: float
    l2_robust: float
    test_mse: float
    curve_steps: Int[np.ndarray, " recorded"]
    curve_loss: Float[np.ndarray, " recorded"]
    backend: str
    route: Route | None = None
    wall_s: float = math.nan
    model: KAN | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    coefficients: dict[str, float] = field(default_factory=dict)
    curve_coefficients: dict[str, Float[np.ndarray, " recorded"]] = field(default_factory=dict)


@dataclass(frozen=True)
class Checkpoint:
    """One model during training, as passed to the checkpoint hook.

    Attributes:
        index: the model's position among the members.
        member: its initialization.
        model: the network at the checkpoint.
        rba: the attention weights α of a PDE's points, by kind (`pde`, `bc`); empty otherwise.
        extra: becomes `Result.extra`; the hook may store values here.
    """

    index: int
    member: Member
    model: KAN
    rba: dict[str, np.ndarray]
    extra: dict[str, Any]


def curve_steps(steps: int, kind: str, points: int = 200) -> Int[np.ndarray, " recorded"]:
    """The steps whose loss is recorded: all, or about 200 log-spaced ones with both ends.

    >>> curve_steps(1000, "log", points=5)
    array([   1,    6,   32,  178, 1000])
    """
    if kind == "all" or steps <= points:
        return np.arange(1, steps + 1)
    # Rounding merges the smallest steps, so the number of points before rounding must be larger.
    spaced = points
    while len(found := np.unique(np.rint(np.geomspace(1, steps, spaced)).astype(int))) < points:
        spaced += max(1, points // 10)
    return found
