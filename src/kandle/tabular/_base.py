"""What the two scikit-learn estimators have in common."""

import dataclasses
import os
import sys
import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from kandle._errors import UserError, must
from kandle._seed import WORDS
from kandle.bases import BSpline
from kandle.nn import KAN
from kandle.tabular._fit import Outcome, Report, fit_rows
from kandle.tabular._networks import separate
from kandle.tabular._read import is_text
from kandle.tabular._rows import Block, InMemory, merge_equal_rows
from kandle.tabular._saved import (
    Fitted,
    damage_names_file,
    describe_scheme,
    load_fitted,
    plain,
    require,
    restore_scheme,
    restored,
    save_fitted,
)
from kandle.tabular._scaler import CONSTANT, IGNORED, Scaler, in_float32
from kandle.tabular._settings import FitSettings, with_recipe
from kandle.tabular._task import is_numeric_text

# Parameters that scikit-learn calls otherwise than `FitSettings`.
_NAMES = {"steps": "max_iter", "patience": "n_iter_no_change", "networks": "n_networks"}


class KANEstimator(BaseEstimator):
    """Parameters, training, saving and loading; the task is the subclass's."""

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
        warm_start=False,
        verbose=False,
        random_state=None,
    ):
        self.layers = layers
        self.grid = grid
        self.grids = grids
        self.degree = degree
        self.init = init
        self.max_iter = max_iter
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.smoothness = smoothness
        self.weight_decay = weight_decay
        self.n_networks = n_networks
        self.recipe = recipe
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    @property
    def model_(self) -> KAN:
        return self.fitted_.model

    def save(self, path: str | os.PathLike) -> None:
        """Write the fitted estimator to a safetensors file, which contains no code.

        A `random_state` that is a generator is not saved, and of a scheme of your own only its
        name: `load` restores the weights as they are, and warns.
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
            "networks": self._merged,
            "updates": int(self.n_iter_),
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
                "kandle.tabular.load_fitted."
            )
        if found != cls.__name__:
            raise must(f"{path}", f"a saved {cls.__name__}", found)
        with damage_names_file(path):
            parameters = fitted.extra["parameters"]
            require(isinstance(parameters, dict), "'parameters' is not an object")
            parameters = {k: restored(v) for k, v in parameters.items()}
            parameters["init"] = restore_scheme(path, fitted.extra["init"])
            estimator = cls(**parameters)
            estimator._restore(fitted)
        return estimator

    def _extra(self) -> dict[str, Any]:
        return {}

    def _restore(self, fitted: Fitted) -> None:
        self.fitted_ = fitted
        self._merged = fitted.extra.get("networks", 1)
        self.n_iter_ = fitted.extra.get("updates", self.max_iter)
        for count in (self._merged, self.n_iter_):
            require(
                type(count) is int and count >= 0,
                f"{count!r} is not a number of networks or updates",
            )
        hidden = fitted.model.widths[1:-1]
        require(
            self._merged > 0 and not any(width % self._merged for width in hidden),
            f"{self._merged} networks do not fit into the widths {hidden}",
        )
        self.loss_curve_, self.validation_scores_ = [], []
        self.n_features_in_ = len(fitted.inputs.columns)
        if fitted.extra["named"]:
            self.feature_names_in_ = np.asarray(fitted.inputs.columns, dtype=object)

    def _settings(self) -> FitSettings:
        try:
            seed = check_random_state(self.random_state).randint(2**31 - 1)
        except ValueError:
            requirement = f"{WORDS}, a RandomState or None"
            raise must("'random_state'", requirement, self.random_state) from None
        own = {field: getattr(self, _NAMES.get(field, field)) for field in FitSettings.names()}
        if self.recipe is not None:
            own = {name: v for name, v in own.items() if not _is_default(name, v)}
        return FitSettings.checked({**with_recipe(self.recipe, own), "seed": seed}, _NAMES)

    def _train(
        self, X: np.ndarray, y: np.ndarray, sample_weight: Any, goes_on: bool, one_pass: bool
    ) -> tuple[Outcome, Scaler, Scaler | None]:
        """Merge equal rows, scale them, train; y (N, n) as the subclass's `_targets` takes it."""
        settings = self._settings()
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not (weight > 0).any():
            raise UserError("'sample_weight' must be positive for some rows. All of it is zero.")
        x, y, weight = merge_equal_rows(X, y, weight)
        if goes_on:
            self._check_same_networks(settings)
            inputs, target = self.fitted_.inputs, self.fitted_.target
        else:
            # Rows of a later call may have other values in a column that is constant in these.
            continued = one_pass or self.warm_start
            inputs = self._input_scaler(x, 1.0 if continued else IGNORED)
            target = self._target_scaler(y, weight, 1.0 if continued else CONSTANT)
        block = Block(in_float32(inputs.apply(x)), self._targets(y, target), weight)
        loss = "classes" if target is None else "values"
        outcome = fit_rows(
            InMemory(block),
            loss,
            _one_pass(settings, len(x)) if one_pass else settings,
            self._report(),
            start=separate(self.fitted_.model, self._merged) if goes_on else None,
            resume=getattr(self, "_state", None) if goes_on and one_pass else None,
            constant_rate=one_pass,
        )
        return outcome, inputs, target

    def _set(self, outcome: Outcome, fitted: Fitted, X: np.ndarray, one_pass: bool) -> Self:
        before = self.n_iter_ if one_pass and hasattr(self, "fitted_") else 0
        curve = self.loss_curve_ if before else []
        self.fitted_ = fitted
        self._merged = len(outcome.networks)
        self._state = outcome.state if one_pass else None
        self.n_iter_ = before + outcome.updates
        self.loss_curve_ = [*curve, *outcome.loss_curve.tolist()]
        self.validation_scores_ = outcome.validation_scores.tolist()
        self.smoothness_ = outcome.smoothness
        decay = float(self.weight_decay)
        if decay > 0 and not one_pass and fitted.hardly_varies(fitted.inputs.apply(X)):
            warnings.warn(
                f"The predictions hardly vary: 'weight_decay' {decay:g} may be too large.",
                stacklevel=4,  # at the call of fit
            )
        return self

    def _goes_on(self) -> bool:
        """Whether `fit` continues from the networks that there are."""
        return bool(self.warm_start) and hasattr(self, "fitted_")

    def _check_same_networks(self, settings: FitSettings) -> None:
        """A fit that continues cannot change the networks it continues from."""
        if settings.grids is not None:
            raise UserError(
                "A schedule of grids cannot continue an earlier fit: its networks are on the last "
                "grid. Set warm_start=False, or call fit in place of partial_fit."
            )
        [first, *_] = separate(self.fitted_.model, self._merged)

        def check(names: str, same: bool) -> None:
            if not same:
                raise UserError(
                    f"{names} cannot differ from the last fit in one that continues it. "
                    "Set warm_start=False, or clone the estimator."
                )

        layers = tuple(map(int, settings.layers))
        check("'layers'", layers == first.widths[1:-1])
        grids = settings.grids_for(len(first.layers))
        bases = [BSpline(grid, int(settings.degree)) for grid in grids]
        check("'grid' or 'degree'", bases == [layer.basis for layer in first.layers])

    def _report(self) -> Report | None:
        if not self.verbose:
            return None
        name = type(self).__name__

        def report(done: int, total: int, loss: float) -> None:
            print(f"{name}: {done} of at most {total} updates, loss {loss:.4g}", file=sys.stderr)

        return report

    def _input_scaler(self, x: np.ndarray, flat: float) -> Scaler:
        names = getattr(self, "feature_names_in_", None)
        columns = [f"x{i}" for i in range(x.shape[1])] if names is None else list(names)
        return Scaler.to_interval(x, columns, flat=flat)

    def _checked(self, X: Any) -> np.ndarray:
        """Inputs to predict from."""
        check_is_fitted(self)
        check_numbers(X)
        return np.asarray(validate_data(self, X, reset=False, dtype=np.float64))

    def _target_scaler(self, y: np.ndarray, weight: np.ndarray, flat: float) -> Scaler | None:
        raise NotImplementedError

    def _targets(self, y: np.ndarray, target: Scaler | None) -> np.ndarray:
        raise NotImplementedError


def check_numbers(X: Any) -> None:
    """A column of text in a frame is an error that names it."""
    if not hasattr(X, "columns") or not hasattr(X, "iloc"):
        return
    for place, name in enumerate(X.columns):
        series = X.iloc[:, place]
        if is_text(series) and not is_numeric_text(series):
            raise UserError(
                f"Column {name!r} of X is text, such as {series.iloc[0]!r}, and no number. Encode "
                "it first, for example by scikit-learn's OneHotEncoder in a ColumnTransformer."
            )


def _is_default(name: str, value: Any) -> bool:
    """Whether a setting is the default, which a recipe replaces."""
    default = getattr(FitSettings, name)
    return type(value) is type(default) and value == default


def _one_pass(settings: FitSettings, rows: int) -> FitSettings:
    size = settings.rows_per_update(rows)
    smoothness = 0.0 if isinstance(settings.smoothness, str) else settings.smoothness
    return dataclasses.replace(
        settings,
        steps=1 if size is None else max(1, rows // size),
        early_stopping=False,
        smoothness=smoothness,
    )
