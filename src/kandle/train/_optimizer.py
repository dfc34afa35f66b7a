"""Optimizers and learning-rate schedules of Optax, by name with their arguments."""

import inspect
import json
import math
import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import optax

from kandle._errors import UserError, must, unknown

Schedule = Callable[[Any], Any]


def _exponential(init_value: float, *, factor: float, every: float) -> Schedule:
    """rate · factor^(step / every), continuously: no staircase."""
    return lambda step: init_value * factor ** (step / every)


def _optimizers() -> dict[str, Callable]:
    """Every optimizer that Optax exports, which are its functions of a learning rate."""
    found = {}
    for name in dir(optax):
        value = getattr(optax, name)
        # What scales is a part of an optimizer.
        if name.startswith(("_", "scale_by_")) or not inspect.isfunction(value):
            continue
        if "learning_rate" in inspect.signature(value).parameters:
            found[name] = value
    return found


def _schedules() -> dict[str, Callable]:
    """Optax's schedules without their suffix, and `exponential` in the paper's words."""
    names = [name for name in dir(optax) if name.endswith("_schedule")]
    found = {name.removesuffix("_schedule"): getattr(optax, name) for name in names}
    del found["scale_by"]  # a transformation of gradients
    return {"exponential_decay": optax.exponential_decay, **found, "exponential": _exponential}


OPTIMIZERS = _optimizers()
SCHEDULES = _schedules()

# The parameter of a schedule that is the learning rate, the first that it has.
_RATES = ("peak_value", "init_value", "value")


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
            object.__setattr__(self, "schedule", dict(self.schedule))
        try:
            json.dumps(self.to_dict(), allow_nan=False)
        except (TypeError, ValueError):
            given = self.to_dict()
            raise must(
                "The arguments of an Optimizer", "plain values, fit for JSON", given
            ) from None
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

    def rate(self) -> float | Schedule:
        """The learning rate as Optax takes it: a number, or a function of the step from 0."""
        arguments = {} if isinstance(self.schedule, str) else dict(self.schedule)
        name = self.schedule if isinstance(self.schedule, str) else arguments.pop("name", None)
        if name == "constant" and not arguments:
            return self.learning_rate
        if name not in SCHEDULES:
            raise unknown("schedule", str(name), SCHEDULES)
        schedule = SCHEDULES[name]
        parameters = inspect.signature(schedule).parameters
        rate = next(parameter for parameter in _RATES if parameter in parameters)
        return _call(schedule, f"schedule {name!r}", {rate: self.learning_rate}, arguments)

    def build(self) -> optax.GradientTransformationExtraArgs:
        """The Optax transformation."""
        searches = self.name == "lbfgs" and "linesearch" not in self.arguments
        given = {"learning_rate": None if searches else self.rate()}
        made = _call(OPTIMIZERS[self.name], f"optimizer {self.name!r}", given, self.arguments)
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
            raise UserError(
                f"The arguments {given} of optimizer {self.name!r} do not work: "
                f"{words[0] if words else type(error).__name__}."
            ) from None


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
