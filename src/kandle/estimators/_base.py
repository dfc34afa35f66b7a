"""What the two scikit-learn estimators have in common."""

import numbers
import os
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from kandle._errors import UserError, must
from kandle._seed import WORDS
from kandle.estimators._fit import FitSettings
from kandle.estimators._saved import (
    Fitted,
    describe_scheme,
    load_fitted,
    plain,
    restore_scheme,
    restored,
    save_fitted,
)
from kandle.problems import Scaler


class KANEstimator(BaseEstimator):
    """Parameters, input scaling, saving and loading; the task is the subclass's."""

    def __init__(
        self,
        layers=(8, 8),
        *,
        grid=5,
        degree=3,
        init="power-law",
        max_iter=1000,
        learning_rate=1e-2,
        weight_decay=0.0,
        random_state=None,
    ):
        self.layers = layers
        self.grid = grid
        self.degree = degree
        self.init = init
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.random_state = random_state

    def save(self, path: str | os.PathLike) -> None:
        """Write the fitted estimator to a safetensors file; no code is in it.

        A `random_state` that is a generator is not kept, and of a scheme of your own only its name:
        `load` gives the weights as they are, and warns.
        """
        check_is_fitted(self)
        parameters = self.get_params(deep=False)
        scheme = describe_scheme(parameters.pop("init"))
        if isinstance(parameters["random_state"], np.random.RandomState):
            parameters["random_state"] = None
        extra = {
            "estimator": type(self).__name__,
            "parameters": {k: plain(f"Parameter {k!r}", v) for k, v in parameters.items()},
            "init": scheme,
            "named": hasattr(self, "feature_names_in_"),
            **self._extra(),
        }
        f = self.fitted_
        save_fitted(Fitted(f.model, f.inputs, f.target, f.classes, extra), path)

    @classmethod
    def load(cls, path: str | os.PathLike) -> Self:
        """Read an estimator that `save` wrote."""
        fitted = load_fitted(path)
        found = fitted.extra.get("estimator")
        if found is None:
            raise UserError(
                f"{path} was written by `kandle fit` and not by an estimator: read it with "
                "kandle.estimators.load_fitted."
            )
        if found != cls.__name__:
            raise must(f"{path}", f"a saved {cls.__name__}", found)
        parameters = {k: restored(v) for k, v in fitted.extra["parameters"].items()}
        parameters["init"] = restore_scheme(path, fitted.extra["init"])
        estimator = cls(**parameters)
        estimator._restore(fitted)
        return estimator

    def _extra(self) -> dict[str, Any]:
        return {}

    def _restore(self, fitted: Fitted) -> None:
        self.fitted_ = fitted
        self.n_features_in_ = len(fitted.inputs.columns)
        if fitted.extra["named"]:
            self.feature_names_in_ = np.asarray(fitted.inputs.columns, dtype=object)
        self.n_iter_ = self.max_iter

    def _settings(self) -> FitSettings:
        try:
            seed = check_random_state(self.random_state).randint(2**31 - 1)
        except ValueError:
            requirement = f"{WORDS}, a RandomState or None"
            raise must("'random_state'", requirement, self.random_state) from None
        try:
            layers = None if isinstance(self.layers, str) else tuple(self.layers)
        except TypeError:
            layers = None
        if layers is None:
            raise must("'layers'", "a sequence of widths, such as (8, 8)", self.layers)
        steps = self.max_iter
        if isinstance(steps, bool) or not isinstance(steps, numbers.Integral) or steps < 1:
            raise must("'max_iter'", "an integer of at least 1", steps)
        return FitSettings(
            layers=layers,
            grid=self.grid,
            degree=self.degree,
            init=self.init,
            steps=int(steps),
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            seed=seed,
        )

    def _input_scaler(self, x: np.ndarray) -> Scaler:
        names = getattr(self, "feature_names_in_", None)
        columns = [f"x{i}" for i in range(x.shape[1])] if names is None else list(names)
        return Scaler.to_interval(x, columns, flat=1.0)

    def _checked(self, X: Any) -> np.ndarray:
        """Inputs to predict from."""
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, reset=False, dtype=np.float64))
