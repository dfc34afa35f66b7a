"""The power law judged on runs that did not choose its exponents.

The best of many pairs, chosen on the runs that judge it, wins too often: it would beat a baseline
even if all pairs were equally good. Here the pair is chosen on other seeds, or, where there is one
seed only, on the other problems.
"""

import warnings
from typing import NamedTuple

import numpy as np
import pandas as pd

from kandle.analysis._frames import ARCHITECTURE, distinct, finished
from kandle.analysis._medians import representatives

_SETTING = ["problem", *ARCHITECTURE]
_PAIR = ["alpha", "beta"]


class HeldOut(NamedTuple):
    """One result per problem and architecture, and how its exponents were chosen."""

    cells: pd.DataFrame
    chosen_on: str  # "other seeds" or "other problems"


def held_out(runs: pd.DataFrame) -> HeldOut | None:
    """Power-law results with exponents chosen without the runs that judge them, or None.

    With several seeds on every problem and architecture: for each seed the pair with the lowest
    nearest-to-median loss over the other seeds is judged by the run of that seed; the result is the
    nearest-to-median run of these. With one seed: the pair with the lowest median regret on the
    other problems (same architecture) is judged on the problem. A pair that did not finish where it
    is judged counts with an infinite loss. None if there is one seed and one problem, or one pair.

    Rows have problem, G, width, depth, alpha, beta, loss, l2.
    """
    power = distinct(runs[runs["scheme"].eq("power-law")])
    if len(power.drop_duplicates(_PAIR)) < 2:
        return None
    done = finished(power).index
    lost = ~power.index.isin(done)
    values = {c: power[c].astype(float).mask(lost, np.inf) for c in ("loss", "l2")}
    power = power.assign(**values)
    if power.groupby(_SETTING)["seed"].nunique().min() >= 2:
        return HeldOut(_by_seeds(power), "other seeds")
    if power["problem"].nunique() < 2:
        return None
    return HeldOut(_by_problems(power), "other problems")


def _cube(power: pd.DataFrame, *axes: list[str]) -> tuple[list[pd.DataFrame], np.ndarray]:
    """Rows of `power` by the codes of three groups of columns: their values, and the index of a row
    for each combination, or -1."""
    values, codes = [], []
    for columns in axes:
        grouped = power.groupby(columns, sort=False)
        codes.append(grouped.ngroup().to_numpy())
        values.append(power[columns].drop_duplicates().reset_index(drop=True))
    rows = np.full([len(found) for found in values], -1)
    rows[tuple(codes)] = np.arange(len(power))
    return values, rows


def _losses(power: pd.DataFrame, rows: np.ndarray) -> np.ndarray:
    losses = power["loss"].to_numpy(float)
    return np.where(rows >= 0, losses[rows], np.nan)


def _lower_middle(losses: np.ndarray) -> np.ndarray:
    """The nearest-to-median value along the last axis; NaN (not run) is left out."""
    ordered = np.sort(losses, axis=-1)  # NaN comes last
    at = np.maximum((np.sum(~np.isnan(losses), axis=-1) - 1) // 2, 0)
    return np.take_along_axis(ordered, at[..., None], axis=-1)[..., 0]


def _best(scores: np.ndarray) -> np.ndarray:
    """Position of the lowest score along the last axis, the first of equals; NaN never wins."""
    return np.argmin(np.where(np.isnan(scores), np.inf, scores), axis=-1)


def _by_seeds(power: pd.DataFrame) -> pd.DataFrame:
    _, rows = _cube(power, _SETTING, _PAIR, ["seed"])
    losses = _losses(power, rows)  # settings, pairs, seeds
    judged = np.full((losses.shape[0], losses.shape[2]), -1)
    for seed in range(losses.shape[2]):
        middle = _lower_middle(np.delete(losses, seed, axis=2))
        # Only a pair that this seed was trained with can be judged by it.
        best = _best(np.where(np.isnan(losses[:, :, seed]), np.nan, middle))
        judged[:, seed] = rows[np.arange(len(rows)), best, seed]
    judged_losses = _losses(power, judged)
    middle = _lower_middle(judged_losses)
    place = np.argmax(judged_losses == middle[:, None], axis=1)
    return _result(power, judged[np.arange(len(judged)), place])


def _by_problems(power: pd.DataFrame) -> pd.DataFrame:
    cells = representatives(power, diverged_as_inf=True)
    _, rows = _cube(cells, list(ARCHITECTURE), ["problem"], _PAIR)
    logs = np.log10(np.maximum(_losses(cells, rows), np.finfo(float).tiny))
    best = np.nanmin(np.where(np.isinf(logs), np.nan, logs), axis=2, keepdims=True, initial=np.inf)
    with np.errstate(invalid="ignore"):
        regret = logs - best  # shapes, problems, pairs
    chosen = []
    for problem in range(logs.shape[1]):
        others = np.delete(regret, problem, axis=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a pair that was tried nowhere else
            scores = np.nanmedian(others, axis=1)
        scores = np.where(rows[:, problem] < 0, np.nan, scores)
        chosen.append(rows[np.arange(len(rows)), problem, _best(scores)])
    return _result(cells, np.stack(chosen, axis=1).ravel())


def _result(runs: pd.DataFrame, rows: np.ndarray) -> pd.DataFrame:
    found = runs.iloc[rows[rows >= 0]]
    return found[[*_SETTING, *_PAIR, "loss", "l2"]].reset_index(drop=True)
