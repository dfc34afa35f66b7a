"""What the two scikit-learn estimators have in common."""

import os
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from kandle import init
from kandle._errors import UserError, must
from kandle.estimators._fit import FitSettings
from kandle.estimators._saved import Fitted, load_fitted, save_fitted
from kandle.init import Scheme
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
        """Write the fitted estimator to a safetensors file; no code is in it."""
        check_is_fitted(self)
        parameters = self.get_params(deep=False)
        if not isinstance(parameters["random_state"], int | None):
            parameters["random_state"] = None
        parameters["layers"] = list(parameters["layers"])
        if isinstance(parameters["init"], Scheme):
            parameters["init"] = init.to_dict(parameters["init"])
        extra = {
            "estimator": type(self).__name__,
            "parameters": {k: _plain(v) for k, v in parameters.items()},
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
        if found != cls.__name__:
            raise must(f"{path}", f"a saved {cls.__name__}", found)
        parameters = dict(fitted.extra["parameters"])
        parameters["layers"] = tuple(parameters["layers"])
        if isinstance(parameters["init"], dict):
            parameters["init"] = init.from_dict(parameters["init"])
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
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        try:
            layers = tuple(self.layers)
        except TypeError:
            raise must("'layers'", "a sequence of widths, such as (8, 8)", self.layers) from None
        return FitSettings(
            layers=layers,
            grid=self.grid,
            degree=self.degree,
            init=self.init,
            steps=self.max_iter,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            seed=seed,
        )

    def _input_scaler(self, x: np.ndarray) -> Scaler:
        names = getattr(self, "feature_names_in_", None)
        columns = [f"x{i}" for i in range(x.shape[1])] if names is None else list(names)
        low, high = x.min(axis=0), x.max(axis=0)
        return affine(columns, low / 2 + high / 2, high / 2 - low / 2)

    def _checked(self, X: Any) -> np.ndarray:
        """Inputs to predict from."""
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, reset=False, dtype=np.float64))


def affine(columns: list[str], offset: np.ndarray, scale: np.ndarray) -> Scaler:
    """A scaler that leaves a column without spread at zero, and is exact about the others."""
    if not np.isfinite(scale).all():
        raise UserError("The data spread over more than float64 can hold.")
    scale = np.where(scale > 0, scale, 1.0)
    return Scaler(tuple(columns), tuple(offset.tolist()), tuple(scale.tolist()))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
