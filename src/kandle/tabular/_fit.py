"""Train networks on scaled rows, on one grid or on several that become finer."""

import dataclasses
import itertools
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from kandle._errors import UserError
from kandle.nn import KAN
from kandle.nn._refine import finer
from kandle.tabular._compilation import cached_compilation
from kandle.tabular._least_squares import LeastSquaresTraining
from kandle.tabular._loop import State
from kandle.tabular._outcome import Outcome, Report
from kandle.tabular._rows import Block, InMemory, RowSource
from kandle.tabular._settings import FitSettings
from kandle.tabular._training import Training

__all__ = ["Outcome", "Report", "fit_classes", "fit_rows", "fit_values"]


def fit_values(
    x: Float[np.ndarray, "N n_in"],
    y: Float[np.ndarray, "N n_out"],
    settings: FitSettings,
    report: Report | None = None,
) -> KAN:
    """The network fitted to y by least squares; x on [-1, 1], y of unit variance."""
    return fit_rows(InMemory(Block(x, y, np.ones(len(x)))), "values", settings, report).model


def fit_classes(
    x: Float[np.ndarray, "N n_in"],
    y: Int[np.ndarray, " N"],
    n_classes: int,
    settings: FitSettings,
    report: Report | None = None,
) -> KAN:
    """The network whose softmax is fitted to the classes y = 0, 1, … by cross-entropy."""
    block = Block(x, np.eye(n_classes)[y], np.ones(len(x)))
    return fit_rows(InMemory(block), "classes", settings, report).model


def fit_rows(
    source: RowSource,
    loss: str,
    settings: FitSettings,
    report: Report | None = None,
    start: Sequence[KAN] | None = None,
    resume: State | None = None,
    constant_rate: bool = False,
) -> Outcome:
    """Train on rows.

    Args:
        source: scaled rows.
        loss: "values" or "classes".
        settings: how.
        report: called on the way.
        start: networks to continue from, on the only grid.
        resume: the state that their training ended with; None restarts the optimizer.
        constant_rate: whether the learning rate stays as it is.
    """
    if constant_rate and settings.optimizer != "adam":
        raise UserError("'partial_fit' needs optimizer='adam': least squares sees all rows.")
    kind = Training if settings.optimizer == "adam" else LeastSquaresTraining
    grids = settings.grids or (settings.grid,)
    settings = dataclasses.replace(settings, grid=grids[0])
    with cached_compilation():
        training = kind(source, loss, settings, start)
        if resume is not None:
            training.resume(resume)
        if constant_rate:
            training.decay_steps = np.inf
        outcome = training.run(_counted(report, settings, 0, len(grids)))
        for stage, (before, after) in enumerate(itertools.pairwise(settings.grids or ()), 1):
            # The first grid has chosen the penalty.
            settings = dataclasses.replace(settings, grid=after, smoothness=outcome.smoothness)
            layers = finer(outcome.networks, jnp.asarray(training.inputs), before, after)
            networks = [KAN.from_layers(one) for one in layers]
            training = kind(source, loss, settings, networks, refined=True)
            found = training.run(_counted(report, settings, stage, len(grids)))
            outcome = _joined(outcome, found)
    return outcome


def _counted(
    report: Report | None, settings: FitSettings, stage: int, stages: int
) -> Report | None:
    """A report of one grid as a part of all."""
    if report is None:
        return None
    return lambda made, most, loss: report(stage * settings.steps + made, stages * most, loss)


def _joined(earlier: Outcome, later: Outcome) -> Outcome:
    """The later outcome with the curves and updates of both."""

    def curve(name: str) -> np.ndarray:
        return np.concatenate([getattr(earlier, name), getattr(later, name)])

    return dataclasses.replace(
        later,
        loss_curve=curve("loss_curve"),
        validation_scores=curve("validation_scores"),
        updates=earlier.updates + later.updates,
    )
