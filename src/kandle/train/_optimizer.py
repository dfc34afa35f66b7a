"""Optimizers and learning-rate schedules of Optax, by name with their arguments."""

import dataclasses
import functools
import inspect
import json
import math
import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import jax
import jax.numpy as jnp
import optax

from kandle._errors import UserError, must, unknown

Schedule = Callable[[Any], Any]


def _exponential(init_value: float, *, factor: float, every: float) -> Schedule:
    """rate · factor^(step / every), continuously: no staircase."""
    if not (factor > 0 and every > 0):
        raise ValueError("'factor' and 'every' must be above 0")
    return lambda step: init_value * factor ** (step / every)


def _optimizers() -> dict[str, Callable]:
    """Every optimizer that Optax itself exports, which are its functions of a learning rate."""
    found = {}
    for name in dir(optax):
        value = getattr(optax, name)
        # What scales is a part of an optimizer.
        made = isinstance(value, FunctionType | functools.partial)
        if made and not name.startswith(("_", "scale_by_")) and _rate_parameter(value, _STEP_RATES):
            found[name] = value
    return found


def _schedules() -> dict[str, Callable]:
    """Optax's schedules without their suffix, and `exponential` in the paper's words."""
    names = [name for name in dir(optax) if name.endswith("_schedule")]
    found = {name.removesuffix("_schedule"): getattr(optax, name) for name in names}
    del found["scale_by"]  # a transformation of gradients
    del found["sgdr"]  # a list of schedules, each with a rate of its own
    return {"exponential_decay": optax.exponential_decay, **found, "exponential": _exponential}


# The parameter that is the learning rate, the first that there is: of optimizers, of schedules.
_STEP_RATES = ("learning_rate", "max_learning_rate")
_RATES = ("peak_value", "init_value", "value")


def _rate_parameter(function: Callable, names: tuple[str, ...]) -> str | None:
    parameters = inspect.signature(function).parameters
    return next((name for name in names if name in parameters), None)


OPTIMIZERS = _optimizers()
SCHEDULES = _schedules()


@dataclass(frozen=True)
class Optimizer:
    """How weights are updated: the name of an Optax optimizer and of a schedule, with arguments.

    Args:
        name: of a function in Optax, such as "adam", "adamw", "sgd", "lbfgs".
        learning_rate: the rate, where a schedule starts. L-BFGS finds its steps by line search and
            does not use it, unless that is turned off with `arguments={"linesearch": None}`.
        schedule: "constant", or a mapping with the schedule's "name" and its arguments:
            {"name": "exponential", "factor": 0.9, "every": 50} multiplies the rate by 0.9 in every
            50 steps, continuously; any other schedule of Optax goes by its name there, such as
            {"name": "cosine_decay", "decay_steps": 2000}.
        arguments: further arguments of the optimizer, by name.

    All weights of a network are one vector to the optimizer. Those that work element by element
    (Adam and most others) cannot tell; those that take norms or factors of each array by itself
    (LAMB, LARS, Fromage, NovoGrad, Adafactor, SM3) take them of the whole network.

    Example:
        >>> Optimizer("adamw", arguments={"weight_decay": 1e-3}).to_dict()["arguments"]
        {'weight_decay': 0.001}
    """

    name: str = "adam"
    learning_rate: float = 1e-3
    schedule: str | Mapping[str, Any] = "constant"
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        if self.name not in OPTIMIZERS:
            raise unknown("optimizer", self.name, OPTIMIZERS)
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
                "The arguments of an Optimizer", "plain values, fit for JSON", given
            ) from None
        self._check_rate()
        self.build()

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_dict(), sort_keys=True))

    def to_dict(self) -> dict[str, Any]:
        """The optimizer as plain values; `Optimizer(**d)` undoes it exactly."""
        schedule = self.schedule if isinstance(self.schedule, str) else dict(self.schedule)
        return {
            "name": self.name,
            "learning_rate": self.learning_rate,
            "schedule": schedule,
            "arguments": dict(self.arguments),
        }

    def _check_rate(self) -> None:
        """Take the rate of the first step, so that a schedule's arguments are known to work."""
        try:
            first = jax.eval_shape(lambda step: jnp.asarray(_at(self.rate(), step)), 0)
        except UserError:
            raise
        except Exception as error:
            raise UserError(f"The schedule {self.schedule!r} does not work: {error}.") from None
        if first.shape or not jnp.issubdtype(first.dtype, jnp.floating):
            raise must("'schedule' of Optimizer", "a real rate a step", self.schedule)

    def rate(self) -> float | Schedule:
        """The learning rate as Optax takes it: a number, or a function of the step from 0."""
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

    def build(self) -> optax.GradientTransformationExtraArgs:
        """The Optax transformation."""
        searches = self.name == "lbfgs" and "linesearch" not in self.arguments
        optimizer = OPTIMIZERS[self.name]
        rate = _rate_parameter(optimizer, _STEP_RATES)
        assert rate is not None
        made = _call(
            optimizer,
            f"optimizer {self.name!r}",
            {rate: None if searches else self.rate()},
            self.arguments,
        )
        return optax.with_extra_args_support(made)

    def try_out(self) -> None:
        """Make one update in the abstract: an argument of the wrong type is found here, not by the
        first training.
        """

        def update(weight: jax.Array) -> Any:
            made = self.build()
            loss = jnp.vdot(weight, weight)
            extra = {"value": loss, "grad": weight, "value_fn": lambda w: jnp.vdot(w, w)}
            return made.update(weight, made.init(weight), weight, **extra)

        try:
            jax.eval_shape(update, jax.ShapeDtypeStruct((2,), jnp.float32))
        except Exception as error:
            given, words = dict(self.arguments), str(error).strip().splitlines()
            scheduled = "" if self.schedule == "constant" else f" under {self.schedule}"
            raise UserError(
                f"The arguments {given} of optimizer {self.name!r}{scheduled} do not work: "
                f"{words[0] if words else type(error).__name__}."
            ) from None


def as_optimizer(given: "Optimizer | str | Mapping[str, Any]") -> Optimizer:
    """An optimizer, its name, or its fields by name, as an optimizer."""
    if isinstance(given, Optimizer):
        return given
    if isinstance(given, str):
        return Optimizer(given)
    if isinstance(given, Mapping):
        known = [field.name for field in dataclasses.fields(Optimizer)]
        for name in given:
            if name not in known:
                raise unknown("field of Optimizer", str(name), known)
        return Optimizer(**given)
    raise must("'optimizer'", "an Optimizer, its name or its fields", given)


def _at(rate: float | Schedule, step: Any) -> Any:
    """The rate of a step, be it constant or scheduled."""
    return rate(step) if callable(rate) else rate


def _with_step_keys(schedule: Mapping[str, Any]) -> dict[str, Any]:
    """A schedule with the steps of a piecewise one as whole numbers, which files have as text."""

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
    """`function(**given, **arguments)` with arguments checked against its signature."""
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
    except Exception as error:
        raise UserError(
            f"The arguments {dict(arguments)} of {what} do not work: {error}."
        ) from None
