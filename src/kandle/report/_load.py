"""From a store on disk to the frames that tables, figures and the explorer are made of."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from kandle._errors import UserError
from kandle.report import _names
from kandle.store import Curve, Spectrum, Store


@dataclass(frozen=True)
class Data:
    """Runs as exported rows, with the curves and spectra of some of them by identity."""

    runs: pd.DataFrame
    curves: Mapping[str, Curve] = field(default_factory=dict)
    spectra: Mapping[str, list[Spectrum]] = field(default_factory=dict)


def open_store(directory: str | Path) -> Store:
    """The store in `directory` for reading; one that holds nothing is an error that says so."""
    store = Store.open(directory, "r")
    if len(store) == 0:
        store.close()
        raise UserError(f"The store {directory} holds no runs yet.")
    _names.use_looks(store.schemes())
    return store


def study_runs(store: Store, study: str) -> pd.DataFrame:
    """The runs of `study`, or an error that lists the studies there are."""
    runs = store.frame(study)
    if runs.empty:
        rows = store.studies().items()
        available = ", ".join(f"{name} ({count:,} runs)" for name, count in rows)
        raise UserError(
            f"The store {store.directory} has no runs of study {study!r}. Available: {available}."
        )
    return runs


def restrict(runs: pd.DataFrame, where: Iterable[str]) -> pd.DataFrame:
    """The runs that fulfil every condition of `where`: texts like `steps=2000`.

    A value is given as it is exported or by its label in tables: `basis=chebyshev` is every basis
    of that name, `basis=chebyshev (degree 4)` one of several.
    """
    for condition in where:
        column, equals, value = condition.partition("=")
        if not equals or column not in runs.columns:
            known = ", ".join(runs.columns)
            raise UserError(f"'--where' takes COLUMN=VALUE. Got {condition!r}. Columns: {known}.")
        kept = runs[_matches(runs, column, value)]
        if kept.empty:
            values = runs[column] if column == "scheme" else _names.labels(runs, column)
            present = ", ".join(sorted(map(str, values.unique()))[:20])
            raise UserError(f"No run has {condition}. Values of {column}: {present}.")
        runs = kept
    return runs


def _matches(runs: pd.DataFrame, column: str, value: str) -> pd.Series:
    values = runs[column]
    if pd.api.types.is_numeric_dtype(values):
        try:
            return values.eq(float(value)).fillna(False).astype(bool)
        except ValueError:
            pass
    exact = values.astype(str).eq(value)
    if exact.any():
        return exact
    labels = _names.labels(runs, column)
    return labels.eq(value) | labels.str.partition(" (")[0].eq(value)


def load(
    directory: str | Path,
    study: str,
    *,
    curves: bool = False,
    spectra: bool = False,
    where: Iterable[str] = (),
) -> Data:
    """All of a study that a figure needs."""
    with open_store(directory) as store:
        runs = restrict(study_runs(store, study), where)
        wanted = runs["identity"].tolist()
        return Data(
            runs,
            store.curves(wanted) if curves else {},
            store.spectra(wanted) if spectra else {},
        )
