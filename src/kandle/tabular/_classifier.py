"""Classification with scikit-learn's interface."""

import numbers
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

from kandle._errors import UserError, must
from kandle.tabular._base import KANEstimator, check_numbers
from kandle.tabular._saved import Fitted, require
from kandle.tabular._scaler import Scaler
from kandle.tabular._settings import FitSettings, plain_number

# In bytes, the longest class that is read from a file: text of 16,000 characters.
_LONGEST_LABEL = 64_000


class KANClassifier(ClassifierMixin, KANEstimator):
    """KANs with one output per class, whose softmax is fitted by cross-entropy, averaged.

    Inputs are mapped to [-1, 1]: nothing has to be scaled before. Validation and parameters are
    those of `KANRegressor`, and

    Args:
        class_weight: None, "balanced" (each class has the same weight in total), or a mapping of
            classes to weights.

    Attributes:
        classes_: the classes, in the order of the network's outputs.
        model_: the network, from scaled inputs to the logarithms of unnormalised probabilities.
        validation_scores_: the accuracy on the rows held out, at the start, and after every 25
            updates or every 50 on batches.
        n_iter_, loss_curve_, smoothness_: those of `KANRegressor`.

    Example:
        >>> x = np.linspace(-1, 1, 60)[:, None]
        >>> classifier = KANClassifier(layers=(2,), max_iter=300, random_state=0)
        >>> classifier.fit(x, np.where(abs(x[:, 0]) < 0.5, "in", "out")).predict([[0.0], [0.9]])
        array(['in', 'out'], dtype='<U3')
    """

    def __init__(
        self,
        layers=FitSettings.layers,
        *,
        grid=FitSettings.grid,
        grids=FitSettings.grids,
        degree=FitSettings.degree,
        init=FitSettings.init,
        max_iter=FitSettings.steps,
        optimizer=FitSettings.optimizer,
        learning_rate=FitSettings.learning_rate,
        batch_size=FitSettings.batch_size,
        early_stopping=FitSettings.early_stopping,
        validation_fraction=FitSettings.validation_fraction,
        n_iter_no_change=FitSettings.patience,
        smoothness=FitSettings.smoothness,
        weight_decay=FitSettings.weight_decay,
        n_networks=FitSettings.networks,
        recipe=None,
        class_weight=None,
        warm_start=False,
        verbose=False,
        random_state=None,
    ):
        super().__init__(
            layers,
            grid=grid,
            grids=grids,
            degree=degree,
            init=init,
            max_iter=max_iter,
            optimizer=optimizer,
            learning_rate=learning_rate,
            batch_size=batch_size,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            smoothness=smoothness,
            weight_decay=weight_decay,
            n_networks=n_networks,
            recipe=recipe,
            warm_start=warm_start,
            verbose=verbose,
            random_state=random_state,
        )
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to X (N, n_in) and the classes y (N,), rows weighted by `sample_weight` (N,)."""
        return self._fit(X, y, sample_weight, self._goes_on())

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Make one pass over these rows, from where the networks are, at a constant rate.

        Nothing is held out. Inputs are scaled as the rows of the first call need it.

        Args:
            X, y, sample_weight: as of `fit`.
            classes: all classes that will occur; needed in the first call if y lacks some.
        """
        goes_on = hasattr(self, "fitted_")
        return self._fit(X, y, sample_weight, goes_on, one_pass=True, classes=classes)

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        goes_on: bool,
        one_pass: bool = False,
        classes: Any = None,
    ) -> Self:
        check_numbers(X)
        X, y = validate_data(self, X, y, reset=not goes_on, dtype=np.float64)
        _check_one_type(y)
        check_classification_targets(y)
        if not goes_on:
            known = np.unique(y if classes is None else classes)
            if len(known) < 2:
                only = plain_number(y[0])
                raise UserError(
                    f"A classifier needs two classes. Got one class: {only!r}. "
                    "Pass all of them as 'classes' if others follow in later calls of partial_fit."
                    if one_pass
                    else f"A classifier needs two classes. Got one class: {only!r}."
                )
            self.classes_ = known
        if (new := ~np.isin(y, self.classes_)).any():
            raise must(
                "'y'", f"of the classes {self.classes_.tolist()}", np.unique(y[new]).tolist()
            )
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        if self.class_weight is not None:
            _check_class_weight(self.class_weight)
            weight = weight * compute_sample_weight(self.class_weight, y)
        chosen = np.searchsorted(self.classes_, y)[:, None].astype(np.float64)
        outcome, inputs, _ = self._train(X, chosen, weight, goes_on, one_pass)
        fitted = Fitted(outcome.model, inputs, classes=_labels(self.classes_))
        return self._set(outcome, fitted, X, one_pass)

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of every class: (N, n_classes)."""
        x = self._checked(X)
        return self.fitted_.probabilities(x)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of every row."""
        chosen = self.predict_proba(X).argmax(axis=1)
        return self.classes_[chosen]

    def _target_scaler(self, y: np.ndarray, weight: np.ndarray, flat: float) -> None:
        return None

    def _targets(self, y: np.ndarray, target: Scaler | None) -> np.ndarray:
        return np.eye(len(self.classes_))[y[:, 0].astype(int)]

    def _extra(self) -> dict[str, Any]:
        kind = self.classes_.dtype
        return {"dtype": "object" if kind.kind == "O" else kind.str}

    def _restore(self, fitted: Fitted) -> None:
        super()._restore(fitted)
        kind = np.dtype(fitted.extra["dtype"])
        require(kind.itemsize <= _LONGEST_LABEL, f"its classes are of the type {kind}")
        self.classes_ = np.asarray(fitted.classes, dtype=kind)
        # Text may be cut off, and numbers rounded, by a type that is not theirs.
        same = repr(_labels(self.classes_)) == repr(fitted.classes)
        require(same, f"its classes {fitted.classes} are not of the type {kind}")


def _check_one_type(y: np.ndarray) -> None:
    """Classes are sorted, which text and numbers together cannot be."""
    types = {type(label).__name__ for label in y} if y.dtype.kind == "O" else set()
    if len(types) > 1 and types - {"int", "float", "bool"}:
        raise must("'y' of KANClassifier", "classes of one type", ", ".join(sorted(types)))


def _check_class_weight(given: Any) -> None:
    if isinstance(given, Mapping):
        for label, weight in given.items():
            if not (isinstance(weight, numbers.Real) and 0 <= float(weight) < np.inf):
                raise must(f"'class_weight' of {label!r}", "a finite number of at least 0", weight)
    elif not (isinstance(given, str) and given == "balanced"):
        requirement = "None, 'balanced' or a mapping of classes to weights"
        raise must("'class_weight'", requirement, given)


def _labels(classes: np.ndarray) -> list:
    """Classes as plain values, from which their array can be built again: dates as text."""
    return (classes.astype(str) if classes.dtype.kind == "M" else classes).tolist()
