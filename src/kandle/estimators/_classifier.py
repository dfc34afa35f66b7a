"""Classification with scikit-learn's interface."""

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from kandle._errors import UserError
from kandle.estimators._base import KANEstimator
from kandle.estimators._fit import fit_classes
from kandle.estimators._saved import Fitted


class KANClassifier(ClassifierMixin, KANEstimator):
    """A spline KAN with one output a class, whose softmax is fitted by cross-entropy.

    Inputs are mapped to [-1, 1]; nothing has to be scaled before. Parameters are those of
    `KANRegressor`.

    Attributes:
        classes_: the classes, in the order of the network's outputs.
        model_: the network, from scaled inputs to the logarithms of unnormalised probabilities.
        n_iter_: the number of updates made.

    Example:
        >>> x = np.linspace(-1, 1, 60)[:, None]
        >>> classifier = KANClassifier(layers=(2,), max_iter=300, random_state=0)
        >>> classifier.fit(x, np.where(abs(x[:, 0]) < 0.5, "in", "out")).predict([[0.0], [0.9]])
        array(['in', 'out'], dtype='<U3')
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to X (N, n_in) and the classes y (N,)."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, chosen = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise UserError(f"A classifier needs two classes. Got one class: {y[0]!r}.")
        inputs = self._input_scaler(X)
        model = fit_classes(inputs.apply(X), chosen, len(self.classes_), self._settings())
        self.fitted_ = Fitted(model, inputs, classes=_labels(self.classes_))
        self.n_iter_ = self.max_iter
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of every class: (N, n_classes)."""
        x = self._checked(X)
        return self.fitted_.probabilities(x)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of every row."""
        chosen = self.predict_proba(X).argmax(axis=1)
        return self.classes_[chosen]

    @property
    def model_(self):
        return self.fitted_.model

    def _extra(self) -> dict[str, Any]:
        kind = self.classes_.dtype
        return {"dtype": "object" if kind.kind == "O" else kind.str}

    def _restore(self, fitted: Fitted) -> None:
        super()._restore(fitted)
        self.classes_ = np.asarray(fitted.classes, dtype=fitted.extra["dtype"])


def _labels(classes: np.ndarray) -> list:
    """Classes as plain values, from which their array can be made again: dates as text."""
    return (classes.astype(str) if classes.dtype.kind == "M" else classes).tolist()
