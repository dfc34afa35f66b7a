"""Optimizers and schedules by name: those of Optax, and least-squares methods."""

import dataclasses
import functools
import inspect
import json
import math
import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import optax

from kandle._errors import UserError, must, unknown
from kandle.train import _contrib
from kandle.train._adam import FusedAdam, adam
from kandle.train._levenberg_marquardt import LevenbergMarquardt

Schedule = Callable[[Any], Any]


def _exponential(init_value: float, *, factor: float, every: float) -> Schedule:
    """rate · factor^(step / every), continuously: no staircase."""
    if not (factor > 0 and every > 0):
        raise ValueError("'factor' and 'every' must be above 0")
    return lambda step: init_value * factor ** (step / every)


def _optimizers() -> dict[str, Callable]:
    """The optimizers of Optax: the functions it exports that take a learning rate."""
    found: dict[str, Callable] = dict(_contrib.OPTIMIZERS)
    for name in dir(optax):
        value = getattr(optax, name)
        function = isinstance(value, FunctionType | functools.partial)
        # `scale_by_…` functions are components of optimizers.
        named = function and not name.startswith(("_", "scale_by_"))
        if named and _rate_parameter(value, _STEP_RATES):
            found[name] = value
    return found


def _schedules() -> dict[str, Callable]:
    """Optax's schedules without their suffix, and the paper's `exponential`."""
    names = [name for name in dir(optax) if name.endswith("_schedule")]
    found = {name.removesuffix("_schedule"): getattr(optax, name) for name in names}
    del found["scale_by"]  # a transformation of gradients
    del found["sgdr"]  # takes a list of schedules, each with its own rate
    return {"exponential_decay": optax.exponential_decay, **found, "exponential": _exponential}


# Names of the learning-rate parameter, of optimizers and of schedules; the first match counts.
_STEP_RATES = ("learning_rate", "max_learning_rate")
_RATES = ("peak_value", "init_value", "value")


def _rate_parameter(function: Callable, names: tuple[str, ...]) -> str | None:
    parameters = inspect.signature(function).parameters
    return next((name for name in names if name in parameters), None)


OPTIMIZERS = _optimizers()
LEAST_SQUARES = {"levenberg-marquardt": LevenbergMarquardt}
SCHEDULES = _schedules()


@dataclass(frozen=True)
class Optimizer:
    """The update rule: an Optax optimizer and a schedule, by name and with their arguments.

    Args:
        name: name of an optimizer in Optax, such as "adam", "adamw", "sgd", "lbfgs", one of
            `optax.contrib` ("muon", "schedule_free_adamw", "schedule_free_sgd", "prodigy", "adopt",
            "ademamix"), or "levenberg-marquardt", which has no learning rate and takes the fields
            of `LevenbergMarquardt` as arguments.
        learning_rate: the rate, or the initial rate of a schedule. L-BFGS uses a line search and
            ignores the rate, unless `arguments={"linesearch": None}` turns the search off.
        schedule: "constant", or a mapping with the schedule's "name" and its arguments:
            {"name": "exponential", "factor": 0.9, "every": 50} multiplies the rate by 0.9 in every
            50 steps, continuously. Any schedule of Optax can be given by name, such as
            {"name": "cosine_decay", "decay_steps": 2000}.
        arguments: further arguments of the optimizer, by name.

    The optimizer sees all weights as one flat vector. Elementwise optimizers (Adam and most others)
    are unaffected; optimizers that use norms or factors of each array (LAMB, LARS, Fromage,
    NovoGrad, Adafactor, SM3) treat the whole network as one array. Muon is an exception: it updates
    the maps r and b of each layer as matrices and all other weights by AdamW. A schedule-free
    method reports the loss at the weights whose gradient it takes; the model and its errors are
    those of the averaged weights.

    Example:
        >>> Optimizer("adamw", arguments={"weight_decay": 1e-3}).to_dict()["arguments"]
        {'weight_decay': 0.001}
    """

    name: str = "adam"
    learning_rate: float = 1e-3
    schedule: str | Mapping[str, Any] = "constant"
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        if self.name not in OPTIMIZERS and self.name not in LEAST_SQUARES:
            raise unknown("optimizer", self.name, [*OPTIMIZERS, *LEAST_SQUARES])
        rate = self.learning_rate
        real = isinstance(rate, numbers.Real) and not isinstance(rate, bool)
        if not real or not math.isfinite(rate) or rate <= 0:
            raise must("'learning_rate' of Optimizer", "a positive finite number", rate)
        if not isinstance(self.arguments, Mapping):
            raise must("'arguments' of Optimizer", "a mapping of names to values", self.arguments)
        object.__setattr__(self, "learning_rate", float(rate))
        object.__setattr__(self, "arguments", dict(self.arguments))
        if isinstance(self.schedule, Mapping):
            object.__setattr__(self, "schedule", _with_step_keys(self.schedule))
        elif not isinstance(self.schedule, str):
            raise must("'schedule' of Optimizer", "a name or a mapping", self.schedule)
        try:
            json.dumps(self.to_dict(), allow_nan=False)
        except (TypeError, ValueError):
            given = self.to_dict()
            raise must(
                "The arguments of an Optimizer", "plain values that JSON can store", given
            ) from None
        self._check_rate()
        if self.least_squares is None:
            self.build()

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_dict(), sort_keys=True))

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values, such that `Optimizer(**d)` is equal to the optimizer."""
        schedule = self.schedule if isinstance(self.schedule, str) else dict(self.schedule)
        return {
            "name": self.name,
            "learning_rate": self.learning_rate,
            "schedule": schedule,
            "arguments": dict(self.arguments),
        }

    def _check_rate(self) -> None:
        """Evaluate the rate of the first step, to validate the arguments of the schedule."""
        try:
            first = jax.eval_shape(lambda step: jnp.asarray(_at(self.rate(), step)), 0)
        except UserError:
            raise
        except Exception as error:
            raise UserError(f"The schedule {self.schedule!r} does not work: {error}.") from None
        if first.shape or not jnp.issubdtype(first.dtype, jnp.floating):
            raise must("'schedule' of Optimizer", "a real rate per step", self.schedule)

    def rate(self) -> float | Schedule:
        """The learning rate for Optax: a number, or a function of the step, counted from 0."""
        arguments = {} if isinstance(self.schedule, str) else dict(self.schedule)
        name = self.schedule if isinstance(self.schedule, str) else arguments.pop("name", None)
        if name == "constant" and not arguments:
            return self.learning_rate
        if not isinstance(name, str) or name not in SCHEDULES:
            raise unknown("schedule", str(name), SCHEDULES)
        schedule = SCHEDULES[name]
        rate = _rate_parameter(schedule, _RATES)
        assert rate is not None
        return _call(schedule, f"schedule {name!r}", {rate: self.learning_rate}, arguments)

    @functools.cached_property
    def least_squares(self) -> LevenbergMarquardt | None:
        """The settings of a least-squares method, or None for an optimizer of Optax."""
        if self.name not in LEAST_SQUARES:
            return None
        method = LEAST_SQUARES[self.name]
        return _call(method, f"optimizer {self.name!r}", {}, self.arguments)

    @property
    def by_array(self) -> bool:
        """Whether the transformation must see the arrays of the layers, not one flat vector."""
        return self.name == "muon"

    def fused(self) -> FusedAdam | None:
        """Kandle's own Adam, which also adds the update to the weights, if this is Adam."""
        known = inspect.signature(adam).parameters
        if self.name != "adam" or any(name not in known for name in self.arguments):
            return None
        return adam(self.rate(), **self.arguments)

    def build(self) -> optax.GradientTransformationExtraArgs:
        """The Optax transformation."""
        searches = self.name == "lbfgs" and "linesearch" not in self.arguments
        optimizer = OPTIMIZERS[self.name]
        rate = _rate_parameter(optimizer, _STEP_RATES)
        assert rate is not None
        transformation = _call(
            optimizer,
            f"optimizer {self.name!r}",
            {rate: None if searches else self.rate()},
            self.arguments,
        )
        return optax.with_extra_args_support(transformation)

    def try_out(self) -> None:
        """Trace one update, so that an argument of the wrong type is found before a training."""
        if self.least_squares is not None:
            return
        try:
            built = self.build()
            # An optimizer of matrices would treat a vector differently.
            _trace_update(_contrib.by_array(built, ["b"], [(1, 1, 2)]) if self.by_array else built)
        except Exception as error:
            scheduled = "" if self.schedule == "constant" else f" under {self.schedule}"
            raise UserError(
                f"The arguments {dict(self.arguments)} of optimizer {self.name!r}{scheduled} do "
                f"not work: {_first_line(error)}."
            ) from None


@dataclass(frozen=True)
class Transformation:
    """An Optax transformation passed to `train` as it is.

    Two transformations are equal if they are the same object: reuse one object to reuse the
    compiled program. Studies take named optimizers only, because a run must be hashable.
    """

    transformation: optax.GradientTransformation

    least_squares: ClassVar[None] = None
    by_array: ClassVar[bool] = False

    def fused(self) -> FusedAdam | None:
        """The transformation, if it is Kandle's own Adam."""
        return self.transformation if isinstance(self.transformation, FusedAdam) else None

    def build(self) -> optax.GradientTransformationExtraArgs:
        """The transformation, accepting the arguments of a line search."""
        return optax.with_extra_args_support(self.transformation)

    def try_out(self) -> None:
        """Trace one update, so that a broken transformation is found before a training."""
        try:
            _trace_update(self.build())
        except Exception as error:
            raise UserError(
                f"The transformation given as 'optimizer' does not work: {_first_line(error)}."
            ) from None


AnyOptimizer = Optimizer | str | Mapping[str, Any] | optax.GradientTransformation | Transformation
"""All forms in which `train` accepts an optimizer."""


def _trace_update(transformation: optax.GradientTransformationExtraArgs) -> None:
    def update(weight: jax.Array) -> Any:
        loss = jnp.vdot(weight, weight)
        extra = {"value": loss, "grad": weight, "value_fn": lambda w: jnp.vdot(w, w)}
        return transformation.update(weight, transformation.init(weight), weight, **extra)

    jax.eval_shape(update, jax.ShapeDtypeStruct((2,), jnp.float32))


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def as_optimizer(given: AnyOptimizer) -> Optimizer | Transformation:
    """The optimizer given as one, by name, by its fields, or as an Optax transformation."""
    if isinstance(given, Optimizer | Transformation):
        return given
    if isinstance(given, optax.GradientTransformation):
        return Transformation(given)
    if isinstance(given, str):
        return Optimizer(given)
    if isinstance(given, Mapping):
        known = [field.name for field in dataclasses.fields(Optimizer)]
        for name in given:
            if name not in known:
                raise unknown("field of Optimizer", str(name), known)
        return Optimizer(**given)
    requirement = "an Optimizer, its name, its fields or an optax.GradientTransformation"
    raise must("'optimizer'", requirement, given)


def _at(rate: float | Schedule, step: Any) -> Any:
    """The rate at a step, constant or scheduled."""
    return rate(step) if callable(rate) else rate


def _with_step_keys(schedule: Mapping[str, Any]) -> dict[str, Any]:
    """The schedule with integer steps as keys of a piecewise one; in files they are text."""

    def keyed(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        try:
            return {int(step): factor for step, factor in value.items()}
        except ValueError:
            raise must("The steps of a piecewise schedule", "whole numbers", dict(value)) from None

    return {name: keyed(value) for name, value in schedule.items()}


def _call(
    function: Callable, what: str, given: Mapping[str, Any], arguments: Mapping[str, Any]
) -> Any:
    """Call `function(**given, **arguments)` after checking arguments against its signature."""
    parameters = inspect.signature(function).parameters
    known = [name for name in parameters if name not in given]
    for name in arguments:
        if name not in known:
            raise unknown(f"argument of {what}:", name, known)
    for name in known:
        if parameters[name].default is inspect.Parameter.empty and name not in arguments:
            raise must(f"'{name}' of {what}", "given", None)
    try:
        return function(**given, **arguments)
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"The arguments {dict(arguments)} of {what} do not work: {error}."
        ) from None
