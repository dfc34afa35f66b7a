"""Models in training that can be looked at, thinned out, and trained on."""

from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kandle import kernels
from kandle.nn import KAN
from kandle.train._batch import chunks
from kandle.train._objective import Objective
from kandle.train._optimizer import Optimizer
from kandle.train._program import Program, State


class Population:
    """Models of one shape and how far they are trained, for searches that end most of them early.

    A model that is kept goes on exactly as if it had been trained without a stop.

    Args:
        models: the networks to start from, equal in all but their weights.
        data: the arrays that the objective reads.
        objective: what is minimised.
        optimizer: how weights are updated.
        backend: of the kernels; None is the best here.

    Attributes:
        steps: updates made so far.
    """

    def __init__(
        self,
        models: Sequence[KAN],
        data: Mapping[str, np.ndarray],
        objective: Objective,
        *,
        optimizer: Optimizer = Optimizer(),  # noqa: B008 (frozen)
        backend: str | None = None,
    ):
        checked = kernels.check_backend(backend)
        self.steps = 0
        self._program = Program.of(models[0], objective, optimizer, checked)
        self._data = {name: jnp.asarray(data[name]) for name in objective.arrays}
        self._state: State = self._program.start(models, self._data)

    def __len__(self) -> int:
        return len(self._state.weights)

    def advance(
        self, steps: int, report: Callable[[int, np.ndarray], None] | None = None
    ) -> Float[np.ndarray, "steps P"]:
        """Make updates; the loss before each. `report(steps made, losses)` is called on the way."""
        losses = []
        for done, state, part in chunks(self._program, self._state, self._data, steps, ()):
            self._state = state
            losses.append(part)
            if report is not None:
                report(self.steps + done, part[-1])
        self.steps += steps
        return np.concatenate(losses)

    def losses(self, data: Mapping[str, np.ndarray]) -> Float[np.ndarray, " P"]:
        """The objective of every model as it is now, on other data than it is trained on."""
        given = {name: jnp.asarray(data[name]) for name in self._program.objective.arrays}
        return np.asarray(self._program.losses(self._state, given))

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these models alone, in this order."""
        chosen = np.asarray(rows)
        self._state = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)[chosen]), self._state)

    def models(self) -> list[KAN]:
        """The networks as they are now."""
        return [self._program.model(row) for row in np.asarray(self._state.weights)]
