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
    """Root mean square errors of one target in its units, and R² on the test rows."""

    name: str
    target: str
    train: float
    test: float
    r2: float


def fit_table(
    table: Table, settings: FitSettings, report: Report | None = None
) -> tuple[Fitted, list[Score]]:
    """The fitted network, and for every target its score after those of the mean and of ridge
    regression. All are fitted to the training rows alone.
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
    scores = [score for name, p in predictors.items() for score in _scores(name, p, table, data)]
    return fitted, sorted(scores, key=lambda score: table.target.index(score.target))


def check_rows(table: Table) -> None:
    """A table with too few rows to learn from, and to say how well, is an error."""
    if (rows := len(table)) < LEAST_ROWS:
        raise UserError(
            f"Table {table.name!r} has {rows} rows. Fitting needs at least {LEAST_ROWS}, some of "
            "them to test on."
        )


def ridge(x: np.ndarray, y: np.ndarray) -> Predictor:
    """Linear regression with an L2 penalty, for each target that of least leave-one-out error.

    With centred x = U S Vᵀ the prediction is U S²/(S² + λ) Uᵀ y, and leaving out row n changes its
    residual by the factor 1/(1 - h_n), h_n = 1/N + Σ_j U_nj² S_j²/(S_j² + λ).
    """
    x_mean, y_mean = x.mean(axis=0), y.mean(axis=0)
    U, S, Vt = np.linalg.svd(x - x_mean, full_matrices=False)
    projected = U.T @ (y - y_mean)
    best, weights = np.full(y.shape[1], np.inf), np.zeros((x.shape[1], y.shape[1]))
    for penalty in len(x) * np.logspace(-8, 2, 41):
        shrink = S**2 / (S**2 + penalty)
        residual = y - y_mean - U @ (shrink[:, None] * projected)
        leverage = 1 / len(x) + (U**2) @ shrink
        error = np.mean((residual / np.maximum(1 - leverage, 1e-12)[:, None]) ** 2, axis=0)
        found = Vt.T @ ((S / (S**2 + penalty))[:, None] * projected)
        best, weights = np.minimum(error, best), np.where(error < best, found, weights)
    return lambda x: y_mean + (x - x_mean) @ weights


def _scores(
    name: str, predictor: Predictor, table: Table, data: dict[str, np.ndarray]
) -> list[Score]:
    units = np.asarray(table.target_scaler.scale)
    errors = {part: predictor(data[f"x{part}"]) - data[f"y{part}"] for part in ("", "_test")}
    # A test row may be that far out: an infinite error is what it is.
    with np.errstate(over="ignore", invalid="ignore"):
        train, test = (units * np.sqrt(np.mean(errors[part] ** 2, axis=0)) for part in errors)
        spread = np.sum((data["y_test"] - data["y_test"].mean(axis=0)) ** 2, axis=0)
        unexplained = np.sum(errors["_test"] ** 2, axis=0)
    return [
        Score(name, target, float(train[t]), float(test[t]), _r2(unexplained[t], spread[t]))
        for t, target in enumerate(table.target)
    ]


def _r2(unexplained: float, spread: float) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(1 - unexplained / spread) if spread > 0 else float("nan")


def _named(scheme: str | Scheme) -> str:
    return get(scheme).name
