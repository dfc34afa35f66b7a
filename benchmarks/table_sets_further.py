"""Sets of data without a part in the choice of defaults: `benchmarks/tables.py --further`."""

import numpy as np
from sklearn import datasets
from table_sets import Data, Loader, from_r


def heavy_tail() -> Data:
    """y = exp(1.2 (x₀ + x₁ x₂ / 2) + noise): a few targets are far larger than all others."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(800, 8))
    return x, np.exp(1.2 * (x[:, 0] + 0.5 * x[:, 1] * x[:, 2]) + 0.5 * rng.standard_normal(800))


def student_noise() -> Data:
    """Noise of infinite variance: Student's t with two degrees of freedom."""
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, (600, 6))
    return x, 3 * np.sin(3 * x[:, 0]) + 2 * x[:, 1] + rng.standard_t(2, 600)


def irrelevant_columns() -> Data:
    """Friedman's first function of 5 columns, among 55 others."""
    rng = np.random.default_rng(3)
    x = rng.uniform(0, 1, (1000, 60))
    y = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2
    return x, y + 10 * x[:, 3] + 5 * x[:, 4] + rng.standard_normal(1000)


def log_normal_columns() -> Data:
    """Inputs of which most rows lie in a small part of the range."""
    rng = np.random.default_rng(4)
    z = 1.5 * rng.normal(size=(1500, 6))
    y = z[:, 0] * z[:, 1] + np.sin(2 * z[:, 2]) + z[:, 3]
    return np.exp(z), y + 0.3 * rng.standard_normal(1500)


def mostly_noise() -> Data:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(200, 10))
    return x, 0.4 * x[:, 0] + rng.standard_normal(200)


def many_rows() -> Data:
    rng = np.random.default_rng(6)
    x = rng.normal(size=(100_000, 15))
    y = np.sin(2 * x[:, 0]) * x[:, 1] + np.abs(x[:, 2]) + 0.5 * x[:, 3] * x[:, 4]
    return x, y + 0.3 * rng.standard_normal(100_000)


def steps() -> Data:
    """Jumps, which trees are made for."""
    rng = np.random.default_rng(7)
    x = rng.uniform(0, 1, (3000, 10))
    y = 2.0 * (x[:, 0] > 0.3) + 3 * (x[:, 1] > 0.6) * (x[:, 2] > 0.5)
    return x, y + 0.3 * rng.standard_normal(3000)


def outliers() -> Data:
    """Five of 500 rows are 50 times further out than the others."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=(500, 5))
    x[:5] *= 50
    return x, x[:, 0].clip(-3, 3) + np.tanh(x[:, 1]) + 0.2 * rng.standard_normal(500)


REGRESSION: dict[str, Loader] = {
    "heavy tail": heavy_tail,
    "Student noise": student_noise,
    "55 irrelevant columns": irrelevant_columns,
    "log-normal columns": log_normal_columns,
    "mostly noise": mostly_noise,
    "10⁵ rows": many_rows,
    "steps": steps,
    "outliers": outliers,
    "mtcars": from_r("datasets", "mtcars", "mpg"),
    "Boston": from_r("MASS", "Boston", "medv"),
    "airquality": from_r("datasets", "airquality", "Ozone"),
    "Hitters": from_r("ISLR", "Hitters", "Salary"),
    "ames, complete rows": from_r("modeldata", "ames", "Sale_Price"),
    "sparse": lambda: datasets.make_sparse_uncorrelated(500, 20, random_state=1),
    "CPS1985": from_r("AER", "CPS1985", "wage"),
    "Sacramento": from_r("modeldata", "Sacramento", "price"),
}
CLASSIFICATION: dict[str, Loader] = {
    "imbalanced": lambda: datasets.make_classification(
        3000, 15, n_informative=6, weights=[0.97], random_state=1
    ),
    "circles": lambda: datasets.make_circles(400, noise=0.15, factor=0.5, random_state=1),
    "quantiles": lambda: datasets.make_gaussian_quantiles(
        n_samples=2000, n_features=10, n_classes=3, random_state=1
    ),
    "hastie": lambda: datasets.make_hastie_10_2(4000, random_state=1),
    "wide": lambda: datasets.make_classification(200, 300, n_informative=10, random_state=2),
    "8 classes": lambda: datasets.make_classification(
        3000, 20, n_informative=12, n_classes=8, random_state=3
    ),
    "Pima": from_r("MASS", "Pima.tr", "type"),
    "Titanic": from_r("carData", "TitanicSurvival", "survived"),
    "penguins": from_r("modeldata", "penguins", "species"),
    "glass": from_r("MASS", "fgl", "type"),
    "Default": from_r("ISLR", "Default", "default"),
    "churn": from_r("modeldata", "mlc_churn", "churn"),
    "biopsy": from_r("MASS", "biopsy", "class", without=("ID",)),
    "leafshape17": from_r("DAAG", "leafshape17", "arch"),
}
