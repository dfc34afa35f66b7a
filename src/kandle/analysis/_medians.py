"""From seeds to one result per variant: nearest-to-median runs, medians, best exponents."""

import numpy as np
import pandas as pd

from kandle.analysis._frames import (
    ARCHITECTURE,
    TRAINING,
    VARIANT,
    distinct,
    finished,
    power_law,
)

CELL = ("problem", *ARCHITECTURE, *VARIANT)


def _cell(runs: pd.DataFrame) -> list[str]:
    """The columns of a cell, and those of the training in which runs of one cell differ.

    Runs that were trained in different ways are never merged.
    """
    cell: list[str] = list(CELL)
    groups = runs.groupby(cell, dropna=False)
    for column in TRAINING:
        if column in runs.columns and (groups[column].nunique(dropna=False) > 1).any():
            cell.append(column)
    return cell


def representatives(runs: pd.DataFrame, *, diverged_as_inf: bool = False) -> pd.DataFrame:
    """The run of each cell whose loss is nearest the median loss over finished runs, with its L².

    Of n finished losses sorted upwards the nearest to the median is the middle one when n is odd;
    when n is even the two middle ones are equally near, and the lower is taken. Both are number (n
    - 1) // 2, counted from 0, which needs no arithmetic on the losses and so cannot be upset by
    rounding. Cells without a finished run are left out.

    With `diverged_as_inf`, diverged runs count with an infinite loss and L², so that a scheme which
    diverges loses. The published results leave them out, which is the default.

    Each row is a run of the input with the columns `runs` (counted) and `attempted` added.
    """
    unique = distinct(runs)
    cell = _cell(unique)
    attempted = unique.groupby(cell, dropna=False).size().rename("attempted")
    if diverged_as_inf:
        lost = unique["status"].eq("diverged")
        infinite = {c: unique[c].astype(float).mask(lost, np.inf) for c in ("loss", "l2")}
        done = unique.assign(**infinite)
        done = done[lost | done.index.isin(finished(unique).index)]
    else:
        done = finished(unique)
    done = done.sort_values([*cell, "loss", "seed"], kind="stable")
    groups = done.groupby(cell, dropna=False)
    middle = groups.cumcount().eq((groups["loss"].transform("size") - 1) // 2)
    kept = done[middle].assign(runs=groups["loss"].transform("size")[middle])
    return kept.merge(attempted.reset_index(), on=cell, how="left").reset_index(drop=True)


def medians(runs: pd.DataFrame) -> pd.DataFrame:
    """Medians of loss, L² and robust L² taken separately over the finished runs of each cell."""
    columns = [c for c in ("loss", "l2", "l2_robust") if c in runs.columns]
    done = finished(distinct(runs))
    groups = done.groupby(_cell(done), dropna=False)
    return groups[columns].median().assign(runs=groups.size()).reset_index()


def best_exponents(cells: pd.DataFrame) -> pd.DataFrame:
    """Of the power-law cells of each problem and architecture the one with the lowest loss.

    `cells` is the frame of `representatives`; cells of other schemes pass unchanged.
    """
    power = power_law(cells)
    lowest = (
        cells[power]
        .sort_values(["loss", "alpha", "beta"], kind="stable")
        .drop_duplicates(["scheme", "problem", *ARCHITECTURE])
    )
    return pd.concat([cells[~power], lowest]).sort_index()


def fixed_exponents(cells: pd.DataFrame, pair: tuple[float, float]) -> pd.DataFrame:
    """The cells with only one (α, β) of the power law kept; cells of other schemes pass
    unchanged."""
    alpha, beta = pair
    return cells[~power_law(cells) | (cells["alpha"].eq(alpha) & cells["beta"].eq(beta))]
