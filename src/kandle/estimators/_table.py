"""Fit a network to a table, and say how good it is beside simpler answers."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kandle._errors import UserError
from kandle.estimators._fit import FitSettings, Report, fit_values
from kandle.estimators._saved import Fitted, describe_scheme
from kandle.init import Scheme, get
from kandle.problems import Table

LEAST_ROWS = 10

Predictor = Callable[[np.ndarray], np.ndarray]  # scaled (N, n_in) -> scaled (N, n_out)


@dataclass(frozen=True)
class Score:
    """Root mean square errors in the target's units, and R² on the test rows."""

    name: str
    train: float
    test: float
    r2: float


def fit_table(
    table: Table, settings: FitSettings, report: Report | None = None
) -> tuple[Fitted, list[Score]]:
    """The fitted network, and its score after those of the mean and of ridge regression.

    All are fitted to the training rows alone; errors of several targets are pooled, each target in
    its own units.
    """
    check_rows(table)
    data = table.arrays(np.float64)
    model = fit_values(data["x"], data["y"], settings, report)
    kept = {
        "init": describe_scheme(get(settings.init)),
        "steps": settings.steps,
        "seed": settings.seed,
    }
    fitted = Fitted(model, table.scaler, table.target_scaler, extra=kept)

    mean = data["y"].mean(axis=0)
    predictors: dict[str, Predictor] = {
        "mean": lambda x: np.broadcast_to(mean, (len(x), len(mean))),
        "ridge": ridge(data["x"], data["y"]),
        f"KAN ({_named(settings.init)})": lambda x: fitted.outputs(table.scaler.invert(x)),
    }
    return fitted, [_score(name, p, table, data) for name, p in predictors.items()]


def check_rows(table: Table) -> None:
    """A table with too few rows to learn from, and to say how well, is an error."""
    if (rows := len(table)) < LEAST_ROWS:
        raise UserError(
            f"Table {table.name!r} has {rows} rows. Fitting needs at least {LEAST_ROWS}, some of "
            "them to test on."
        )


def ridge(x: np.ndarray, y: np.ndarray) -> Predictor:
    """Linear regression with an L2 penalty, the one with the least leave-one-out error.

    With centred x = U S Vᵀ the prediction is U S²/(S² + λ) Uᵀ y, and leaving out row n changes its
    residual by the factor 1/(1 - h_n), h_n = 1/N + Σ_j U_nj² S_j²/(S_j² + λ).
    """
    x_mean, y_mean = x.mean(axis=0), y.mean(axis=0)
    U, S, Vt = np.linalg.svd(x - x_mean, full_matrices=False)
    projected = U.T @ (y - y_mean)
    best, weights = np.inf, np.zeros((x.shape[1], y.shape[1]))
    for penalty in len(x) * np.logspace(-8, 2, 41):
        shrink = S**2 / (S**2 + penalty)
        residual = y - y_mean - U @ (shrink[:, None] * projected)
        leverage = 1 / len(x) + (U**2) @ shrink
        error = np.mean((residual / np.maximum(1 - leverage, 1e-12)[:, None]) ** 2)
        if error < best:
            best, weights = error, Vt.T @ ((S / (S**2 + penalty))[:, None] * projected)
    return lambda x: y_mean + (x - x_mean) @ weights


def _score(name: str, predictor: Predictor, table: Table, data: dict[str, np.ndarray]) -> Score:
    units = np.asarray(table.target_scaler.scale)
    errors = {
        part: (predictor(data[f"x{part}"]) - data[f"y{part}"]) * units for part in ("", "_test")
    }
    # A test row may be that far out: an infinite error is what it is.
    with np.errstate(over="ignore", invalid="ignore"):
        train, test = (float(np.sqrt(np.mean(errors[part] ** 2))) for part in ("", "_test"))
        spread = np.sum((data["y_test"] - data["y_test"].mean(axis=0)) ** 2)
        r2 = 1 - np.sum((errors["_test"] / units) ** 2) / spread if spread > 0 else np.nan
    return Score(name, train, test, float(r2))


def _named(scheme: str | Scheme) -> str:
    return get(scheme).name
