"""The data of the page: cells, curves of median runs, spectra and win rates of every study."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from kandle.analysis import (
    CELL,
    METRICS,
    confidence,
    describe,
    distinct,
    favourable_region,
    full_length,
    power_law,
    representatives,
    thin,
    trained_alike,
    variants_apart,
    win_rates,
)
from kandle.report import _names
from kandle.report.explorer._pack import logarithms, packed
from kandle.store import Curve, Spectrum

CURVE_POINTS = 40
SPECTRUM_POINTS = 64
_BATCH = 2000
_NONE = 65535

Curves = Callable[[list[str]], Mapping[str, Curve]]
Spectra = Callable[[list[str]], Mapping[str, list[Spectrum]]]


def payload(
    runs: pd.DataFrame, curves: Curves, spectra: Spectra, plain_studies: Collection[str] = ()
) -> dict[str, Any]:
    """Everything the page shows, as plain values; `curves` and `spectra` are queried in batches.

    Variants of a scheme (its gain, say) are shown as schemes of their own, except in
    `plain_studies`, where only the variant with the most runs is shown.
    """
    parts = [_study(name, part, curves, spectra) for name, part in _parts(runs, plain_studies)]
    studies = [p for p in parts if p is not None]
    schemes = {name: _names.scheme(name) for study in studies for name in study["schemes"]}
    return {"schemes": _names.SCHEMES | schemes, "studies": studies}


def _parts(
    runs: pd.DataFrame, plain_studies: Collection[str]
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Studies by name; one with constant and scheduled rates is shown as two, one with several
    bases as one for each."""
    for name, study in runs.groupby("study", sort=False):
        if name not in plain_studies:
            study = variants_apart(study)
        for title, part in _by_basis(str(name), study):
            scheduled = part["schedule"].ne("constant")
            if scheduled.any() and not scheduled.all():
                yield title, part[~scheduled]
                yield f"{title}, scheduled rate", part[scheduled]
            else:
                yield title, part


def _by_basis(name: str, study: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    if "basis" not in study.columns or study["basis"].nunique(dropna=False) == 1:
        yield name, study
        return
    labels = _names.labels(study, "basis")
    for label in _names.ordered_labels(study, "basis"):
        yield f"{name}, {label}", study[labels.eq(label)]


def _study(
    name: str, runs: pd.DataFrame, curves: Curves, spectra: Spectra
) -> dict[str, Any] | None:
    choice = trained_alike(runs)
    cells = _cells(choice.runs)
    if cells.empty:
        return None
    problems = _names.ordered(cells["problem"].tolist())
    schemes = _names.ordered_schemes(cells["scheme"].tolist())
    axes = {
        column: sorted(cells[column].dropna().unique().tolist())
        for column in ("G", "width", "depth", "alpha", "beta")
    }
    code = {"problem": problems, "scheme": schemes, **axes}
    kept = cells["identity"].tolist()
    return {
        "name": name,
        "problems": [{"name": p, "label": _names.problem(p)} for p in problems],
        "schemes": schemes,
        **axes,
        "steps": sorted({int(s) for s in choice.runs["steps"]}),
        "shortened": _shortened(choice.runs),
        "seeds": int(choice.runs.groupby("scheme")["seed"].nunique().max()),
        "runs": len(distinct(choice.runs)),
        "left_out": list(choice.left_out),
        "regions": _regions(choice.runs),
        "count": len(cells),
        "cells": {
            **{
                column: packed(_codes(cells[column], known), "u2") for column, known in code.items()
            },
            "loss": packed(cells["loss"], "f8"),
            "l2": packed(cells["l2"], "f8"),
            "runs": packed(cells["runs"].clip(upper=255), "u1"),
            "attempted": packed(cells["attempted"].clip(upper=255), "u1"),
        },
        "curves": _curves(kept, curves),
        "spectra": _spectra(kept, spectra),
        "wins": _wins(cells, problems, schemes),
    }


def _regions(runs: pd.DataFrame) -> dict[str, str]:
    """The favourable exponents in words, of every scheme that was searched over several pairs."""
    regions = {}
    for scheme, own in runs[power_law(runs)].groupby("scheme"):
        if len(own.drop_duplicates(["alpha", "beta"])) > 1:
            region = favourable_region(own)
            regions[str(scheme)] = f"{describe(region)} ({confidence(region)})"
    return regions


def _shortened(runs: pd.DataFrame) -> bool:
    """Whether any run of a built-in problem was trained for less than that problem takes."""
    return bool((runs["steps"] < full_length(runs["problem"])).any())


def _cells(runs: pd.DataFrame) -> pd.DataFrame:
    """The representative of every cell that was tried; where none finished, its results are NaN."""
    tried = distinct(runs).groupby(list(CELL), dropna=False).size().rename("attempted")
    found = representatives(runs).drop(columns="attempted")
    columns = [*CELL, "loss", "l2", "runs", "identity"]
    cells = tried.reset_index().merge(found[columns], on=list(CELL), how="left")
    return cells.assign(runs=cells["runs"].fillna(0), identity=cells["identity"].fillna(""))


def _codes(column: pd.Series, known: list) -> np.ndarray:
    codes = {value: i for i, value in enumerate(known)}
    return np.array([codes.get(value, _NONE) for value in column])


def _batches(identities: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(identities), _BATCH):
        yield identities[start : start + _BATCH]


def _curves(identities: list[str], curves: Curves) -> dict[str, Any]:
    """Curves of the cells that have one: `cell` says whose, `grid` which list of steps it has."""
    grids: dict[tuple[int, ...], int] = {}
    thinned: dict[bytes, np.ndarray] = {}
    owners, which, losses = [], [], []
    for start, batch in enumerate(_batches(identities)):
        found = curves([i for i in batch if i])
        for offset, identity in enumerate(batch):
            if identity not in found:
                continue
            steps, loss = found[identity]
            if not len(steps):
                continue
            recorded = np.asarray(steps, dtype=np.int64).tobytes()
            if recorded not in thinned:
                thinned[recorded] = thin(steps, CURVE_POINTS)
            kept = thinned[recorded]
            grid = tuple(int(s) for s in np.asarray(steps)[kept])
            owners.append(start * _BATCH + offset)
            which.append(grids.setdefault(grid, len(grids)))
            losses.append(np.asarray(loss, dtype=np.float32)[kept])
    flat = np.concatenate(losses) if losses else np.zeros(0)
    return {
        "steps": [list(grid) for grid in grids],
        "cell": packed(owners, "u4"),
        "grid": packed(which, "u2"),
        "loss": logarithms(flat),
    }


def _spectra(identities: list[str], spectra: Spectra) -> list[dict[str, Any]]:
    """Spectra of the cells that have some, each at about 64 log-spaced indices."""
    rows = []
    for start, batch in enumerate(_batches(identities)):
        found = spectra([i for i in batch if i])
        for offset, identity in enumerate(batch):
            for block, group in _by_block(found.get(identity, [])):
                n = min(len(s.eigenvalues) for s in group)
                index = thin(np.arange(1, n + 1), SPECTRUM_POINTS) if n else np.zeros(0, int)
                values = np.concatenate([np.asarray(s.eigenvalues)[index] for s in group])
                rows.append(
                    {
                        "cell": start * _BATCH + offset,
                        "block": block,
                        "steps": [int(s.step) for s in group],
                        "index": (index + 1).tolist(),
                        "values": logarithms(values),
                    }
                )
    return rows


def _by_block(spectra: Iterable[Spectrum]) -> Iterator[tuple[str, list[Spectrum]]]:
    listed = list(spectra)
    for block in dict.fromkeys(s.block for s in listed):
        yield block, sorted((s for s in listed if s.block == block), key=lambda s: s.step)


def _wins(cells: pd.DataFrame, problems: list[str], schemes: list[str]) -> list[dict[str, Any]]:
    done = cells[cells["runs"] > 0]
    if "baseline" not in set(done["scheme"]):
        return []
    rows: list[dict[str, Any]] = [
        {str(key): None if pd.isna(value) else value for key, value in row.items()}
        for row in win_rates(done).to_dict("records")
    ]
    place = {name: i for i, name in enumerate((*problems, *schemes, *METRICS))}
    return sorted(rows, key=lambda r: [place[r[c]] for c in ("problem", "scheme", "metric")])
