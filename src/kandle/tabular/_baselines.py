"""Simple answers that a network is compared with."""

from collections.abc import Callable

import numpy as np

Predictor = Callable[[np.ndarray], np.ndarray]  # scaled (N, n_in) -> scaled (N, n_out)


def mean(y: np.ndarray) -> Predictor:
    """The mean of the training rows; of one-hot classes, their shares."""
    values = y.mean(axis=0)
    return lambda x: np.broadcast_to(values, (len(x), len(values)))


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
