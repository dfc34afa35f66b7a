"""Regression with scikit-learn's interface."""

from typing import Any, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import validate_data

from kandle.estimators._base import KANEstimator
from kandle.estimators._fit import fit_values
from kandle.estimators._saved import Fitted
from kandle.problems import Scaler


class KANRegressor(MultiOutputMixin, RegressorMixin, KANEstimator):
    """A spline KAN fitted in the mean square.

    Inputs are mapped to [-1, 1] and targets to unit spread, and predictions back; nothing has to be
    scaled before. Inputs beyond those of the training reach the residual function alone.

    Args:
        layers: widths of the hidden layers.
        grid: G, the number of spline intervals.
        degree: k of the splines.
        init: a scheme of `kandle.init`, or its name.
        max_iter: number of updates, each on all rows.
        learning_rate: of Adam where it starts; it falls to zero along a cosine.
        weight_decay: of AdamW; zero is Adam.
        random_state: of the weights.

    Attributes:
        model_: the network, from scaled inputs to scaled targets.
        n_iter_: the number of updates made.

    Example:
        >>> x = np.linspace(0, 1, 50)[:, None]
        >>> regressor = KANRegressor(layers=(2,), max_iter=300, random_state=0)
        >>> regressor.fit(x, x[:, 0] ** 2).score(x, x[:, 0] ** 2) > 0.99
        True
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to X (N, n_in) and y (N,) or (N, n_out)."""
        X, y = validate_data(
            self, X, y, multi_output=True, y_numeric=True, dtype=np.float64, ensure_min_samples=2
        )
        self._flat = y.ndim == 1
        targets = np.asarray(y, np.float64).reshape(len(X), -1)
        inputs = self._input_scaler(X)
        names = [f"y{i}" if targets.shape[1] > 1 else "y" for i in range(targets.shape[1])]
        target = Scaler.standard(targets, names, flat=1.0)
        model = fit_values(inputs.apply(X), target.apply(targets), self._settings())
        self.fitted_ = Fitted(model, inputs, target)
        self.n_iter_ = self.max_iter
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predictions in the units of y."""
        x = self._checked(X)
        values = self.fitted_.values(x)
        return values[:, 0] if self._flat else values

    @property
    def model_(self):
        return self.fitted_.model

    def _extra(self) -> dict[str, Any]:
        return {"flat": self._flat}

    def _restore(self, fitted: Fitted) -> None:
        super()._restore(fitted)
        self._flat = bool(fitted.extra["flat"])
