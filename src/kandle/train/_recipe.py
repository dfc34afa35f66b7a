"""Recipes: settings of a training by one name."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kandle._errors import unknown
from kandle.train._optimizer import Optimizer


@dataclass(frozen=True)
class Recipe:
    """How to train, for users who do not want to choose.

    Attributes:
        optimizer: the update rule, with the rate of its first step.
        dtype: the precision.
        steps: updates per grid by kind of problem ("function", "pde"); a kind that is missing has
            the default number of the problem.
        refinements: after training on G intervals, train on these multiples of G as well.
        decay: a schedule of `Optimizer` that takes `decay_steps`, along which the rate falls over
            the updates on each grid, however many they are; None leaves the rate as it is.
    """

    optimizer: Optimizer = Optimizer()  # noqa: RUF009 (frozen)
    dtype: str = "float32"
    steps: Mapping[str, int] = field(default_factory=dict)
    refinements: tuple[int, ...] = ()
    decay: str | None = None

    def __hash__(self) -> int:
        steps = tuple(sorted(self.steps.items()))
        return hash((self.optimizer, self.dtype, steps, self.refinements, self.decay))

    def optimizer_for(self, steps: int) -> Optimizer:
        """The update rule of a training with so many updates per grid."""
        if self.decay is None:
            return self.optimizer
        schedule = {"name": self.decay, "decay_steps": steps}
        return dataclasses.replace(self.optimizer, schedule=schedule)

    def steps_for(self, problem: Any) -> int:
        """Updates per grid on a problem."""
        return self.steps.get(problem.kind, problem.default_steps)

    def grids(self, grid: int | None) -> tuple[int, ...] | None:
        """The schedule of grids that begins with G intervals; None without refinement."""
        if grid is None or not self.refinements:
            return None
        return (grid, *(factor * grid for factor in self.refinements))


RECIPES = {
    "accurate": Recipe(
        Optimizer("levenberg-marquardt"), "float64", {"function": 15, "pde": 60}, (2,)
    ),
    "paper": Recipe(),
    "fast": Recipe(
        Optimizer("adam", 1e-2), steps={"function": 500, "pde": 500}, decay="cosine_decay"
    ),
}


def recipe(name: str) -> Recipe:
    """The recipe of a name: "accurate", "paper" or "fast".

    Example:
        >>> recipe("accurate").optimizer.name
        'levenberg-marquardt'
        >>> recipe("accurate").grids(5)
        (5, 10)
        >>> recipe("fast").optimizer_for(2000).schedule
        {'name': 'cosine_decay', 'decay_steps': 2000}
    """
    if not isinstance(name, str) or name not in RECIPES:
        raise unknown("recipe", str(name), RECIPES)
    return RECIPES[name]
