"""Regression with scikit-learn's interface."""

from typing import Any, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import validate_data

from kandle._errors import UserError, must
from kandle.tabular._base import KANEstimator, check_numbers
from kandle.tabular._saved import Fitted
from kandle.tabular._scaler import Scaler


class KANRegressor(MultiOutputMixin, RegressorMixin, KANEstimator):
    """KANs fitted by least squares and averaged.

    Inputs are mapped to [-1, 1] and targets to unit variance, and predictions back: nothing has to
    be scaled before. Several networks are trained side by side. Each holds out other rows, keeps
    the weights that predicted them best and stops when they get no better. It is not refitted to
    all rows: every row trains most of the networks, and their average, which is one network, is the
    fitted model.

    Args:
        layers: widths of the hidden layers.
        grid: G, the number of spline intervals.
        grids: a schedule in place of `grid`, such as [5, 10, 20]: `max_iter` updates on each grid,
            from the function that the one before ended with.
        degree: k of the splines.
        init: a scheme of `kandle.init`, or its name.
        max_iter: the largest number of updates.
        optimizer: "adam", or "levenberg-marquardt": least squares in double precision on all rows,
            for tables with little noise. One of its iterations counts as 20 updates.
        learning_rate: of Adam at the start; it falls to zero along a cosine over `max_iter`.
        batch_size: rows per update; "auto" is all of up to 512 rows, 256 of up to 2,048 and 512 of
            more.
        early_stopping: whether rows are held out for validation. It needs at least ten rows.
        validation_fraction: the share of rows that each network holds out.
        n_iter_no_change: updates without a better validation loss after which training stops.
        smoothness: the factor of Σ_edges ∫ φ''(x)² dx, the curvature of the edge functions, in the
            training loss. "auto" chooses among 1e-4, 1e-3, 1e-2 and 1e-1 by validation, with least
            squares also 1e-6, and is 0 without early stopping.
        weight_decay: the factor of Σ (r² + (c·b)²), the squared weights, in the training loss.
        n_networks: how many networks are averaged.
        recipe: settings by one name: "accurate" (least squares on 5 and then 10 intervals),
            "paper", or those of `kandle fit --recipe`, of which "fast" is another name for
            "quick". Parameters that differ from their defaults take precedence.
        warm_start: whether `fit` continues from the networks of the last fit and their scaling.
        verbose: whether to print the loss on the way.
        random_state: of the weights, of the rows held out and of the batches.

    Attributes:
        model_: the network, from scaled inputs to scaled targets.
        n_iter_: the number of updates made.
        loss_curve_: the training loss with its penalties before every update.
        validation_scores_: R² on the rows held out, at the start, and after every 25 updates
            or every 50 on batches.
        smoothness_: the factor that was used.

    Example:
        >>> x = np.linspace(0, 1, 50)[:, None]
        >>> regressor = KANRegressor(layers=(2,), max_iter=300, random_state=0)
        >>> regressor.fit(x, x[:, 0] ** 2).score(x, x[:, 0] ** 2) > 0.99
        True
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to X (N, n_in) and y (N,) or (N, n_out), rows weighted by `sample_weight` (N,)."""
        return self._fit(X, y, sample_weight, self._goes_on())

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Make one pass over these rows, from where the networks are, at a constant rate.

        Nothing is held out. Inputs and targets are scaled as the rows of the first call need it.
        """
        return self._fit(X, y, sample_weight, hasattr(self, "fitted_"), one_pass=True)

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, goes_on: bool, one_pass: bool = False
    ) -> Self:
        if _is_text(y):
            raise UserError("'y' of KANRegressor must be numbers. Got text: use KANClassifier.")
        check_numbers(X)
        X, y = validate_data(
            self,
            X,
            y,
            reset=not goes_on,
            multi_output=True,
            y_numeric=True,
            dtype=np.float64,
            ensure_min_samples=1 if goes_on else 2,
        )
        flat, targets = y.ndim == 1, np.asarray(y, np.float64).reshape(len(X), -1)
        if goes_on and targets.shape[1] != (known := self.model_.widths[-1]):
            raise must("'y'", f"of {known} targets, as in the fit before", targets.shape[1])
        outcome, inputs, target = self._train(X, targets, sample_weight, goes_on, one_pass)
        self._flat = flat
        return self._set(outcome, Fitted(outcome.model, inputs, target), X, one_pass)

    def predict(self, X: Any) -> np.ndarray:
        """Predictions in the units of y."""
        x = self._checked(X)
        values = self.fitted_.values(x)
        return values[:, 0] if self._flat else values

    def _target_scaler(self, y: np.ndarray, weight: np.ndarray, flat: float) -> Scaler:
        names = [f"y{i}" if y.shape[1] > 1 else "y" for i in range(y.shape[1])]
        return Scaler.standard(y, names, flat=flat, weight=weight)

    def _targets(self, y: np.ndarray, target: Scaler | None) -> np.ndarray:
        assert target is not None
        return target.apply(y)

    def _extra(self) -> dict[str, Any]:
        return {"flat": self._flat}

    def _restore(self, fitted: Fitted) -> None:
        super()._restore(fitted)
        self._flat = bool(fitted.extra["flat"])


def _is_text(y: Any) -> bool:
    """Whether it is text that cannot be read as numbers."""
    values = np.asarray(y)
    if values.dtype.kind not in "OSU" or not values.size:
        return False
    try:
        values.astype(np.float64)
    except (TypeError, ValueError):
        return all(isinstance(value, str) for value in values.ravel())
    return False
