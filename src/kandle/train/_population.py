"""Models in training that a search can inspect, discard, and train further."""

from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kandle import kernels
from kandle.nn import KAN
from kandle.train._batch import build_program, chunks
from kandle.train._objective import Objective
from kandle.train._optimizer import Optimizer, Transformation
from kandle.train._program import State
from kandle.train._solve import network_of, trainable


class Population:
    """Models of one shape in training, for searches that discard most of them early.

    The remaining models train exactly as if they had never been interrupted.

    Args:
        models: initialized networks that differ only in their weights.
        data: the arrays that the objective reads.
        objective: what is minimised.
        optimizer: the update rule.
        backend: of the kernels; None selects the default.

    Attributes:
        steps: number of updates so far.
    """

    def __init__(
        self,
        models: Sequence[KAN],
        data: Mapping[str, np.ndarray],
        objective: Objective,
        *,
        optimizer: Optimizer | Transformation = Optimizer(),  # noqa: B008 (frozen)
        backend: str | None = None,
    ):
        checked = kernels.check_backend(backend)
        self.steps = 0
        models = [trainable(objective, model) for model in models]
        self._program = build_program(models[0], objective, optimizer, checked)
        self._data = {name: jnp.asarray(data[name]) for name in objective.arrays}
        self._state: State = self._program.start(models, self._data)

    def __len__(self) -> int:
        return self._state.models

    def advance(
        self, steps: int, report: Callable[[int, np.ndarray], None] | None = None
    ) -> Float[np.ndarray, "steps P"]:
        """Train for `steps` updates and return the loss before each.

        `report(steps so far, losses)` is called about twice per second.
        """
        losses = []
        for done, state, part in chunks(self._program, self._state, self._data, steps, ()):
            self._state = state
            losses.append(part)
            if report is not None:
                report(self.steps + done, part[-1])
        self.steps += steps
        return np.concatenate(losses)

    @property
    def converged(self) -> bool:
        """Whether a least-squares method has stopped for all models."""
        return bool(np.all(getattr(self._state.optimizer, "converged", False)))

    def losses(self, data: Mapping[str, np.ndarray]) -> Float[np.ndarray, " P"]:
        """The current loss of every model on other data, such as validation rows."""
        given = {name: jnp.asarray(data[name]) for name in self._program.objective.arrays}
        return np.asarray(self._program.losses(self._state, given))

    def keep(self, rows: Sequence[int]) -> None:
        """Discard all models but these, and put them in this order."""
        chosen = np.asarray(rows)
        self._state = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)[chosen]), self._state)

    def models(self) -> list[KAN]:
        """The networks with their current weights."""
        weights = np.asarray(self._program.evaluated(self._state))
        return [network_of(self._program.model(row)) for row in weights]
