"""Loss curves over seeds: their mean and its standard error."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class MeanCurve:
    """Mean over runs at the steps that all of them recorded, and std/√n with the population std."""

    steps: np.ndarray
    mean: np.ndarray
    error: np.ndarray
    runs: int


def mean_curve(curves: Sequence[tuple[np.ndarray, np.ndarray]]) -> MeanCurve | None:
    """The mean of (steps, losses) curves; None if there are none or they share no step.

    A non-finite loss is left out of the mean of its step, and steps without any finite loss are
    dropped.
    """
    if not curves:
        return None
    steps = np.asarray(curves[0][0])
    for other, _ in curves[1:]:
        steps = np.intersect1d(steps, other)
    if steps.size == 0:
        return None
    rows = [np.asarray(loss, float)[np.isin(own, steps)] for own, loss in curves]
    losses = np.stack(rows)
    losses = np.where(np.isfinite(losses), losses, np.nan)
    count = np.sum(~np.isnan(losses), axis=0)
    seen = count > 0
    losses, count = losses[:, seen], count[seen]
    mean = np.nansum(losses, axis=0) / count
    spread = np.sqrt(np.nansum((losses - mean) ** 2, axis=0) / count)
    return MeanCurve(steps[seen], mean, spread / np.sqrt(count), len(curves))


def thin(steps: np.ndarray, points: int) -> np.ndarray:
    """Indices of `points` of the given rising steps, log-spaced, with the first and the last; all
    if there are no more than that.

    Where log spacing asks for one step several times, as it does early on, the following steps are
    taken instead, so that no point is lost.
    """
    steps = np.asarray(steps, dtype=float)
    if steps.size <= points:
        return np.arange(steps.size)
    wanted = np.geomspace(1.0, steps[-1] - steps[0] + 1.0, points) + steps[0] - 1.0
    after = np.searchsorted(steps, wanted).clip(1, steps.size - 1)
    nearer = np.where(wanted - steps[after - 1] <= steps[after] - wanted, after - 1, after)
    place = np.arange(points)
    # Rising by one at least, and never so far that the rest would not fit before the end.
    rising = np.maximum.accumulate(nearer - place) + place
    return np.minimum(rising, steps.size - points + place)
