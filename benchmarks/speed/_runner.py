"""What every library is to the clock: something that trains some steps and waits for the end."""

from abc import ABC, abstractmethod

import numpy as np

from kandle import problems
from speed._cases import RANDOM, Case


class Runner(ABC):
    """One library training one case; made ready by its constructor, compiled by its first steps."""

    @abstractmethod
    def run(self, steps: int) -> float:
        """Take so many full-batch Adam steps, wait for them, return the loss before the last.

        Of a case that predicts: evaluate so often, and return one of the outputs.
        """

    @property
    @abstractmethod
    def parameters(self) -> int:
        """Trained numbers of one network."""


def data(case: Case) -> dict[str, np.ndarray]:
    """The arrays that all libraries train on."""
    if case.problem == RANDOM:
        rng = np.random.default_rng(0)
        x = rng.uniform(-1, 1, (case.rows, case.ends[0])).astype(np.float32)
        return {"x": x, "y": rng.normal(size=(case.rows, case.ends[1])).astype(np.float32)}
    return problems.get(case.problem).arrays("float32")


def samples(case: Case) -> tuple[int, int]:
    """Points at which the network alone is evaluated, and points with its derivatives too."""
    arrays = data(case)
    if case.pde:
        return len(arrays["points"]), len(arrays["collocation"])
    return len(arrays["x"]), 0
