"""Kandle's side: the compiled program of `kandle.train.train`, called as `train` calls it."""

import jax
import jax.numpy as jnp
import numpy as np

from kandle import init, kernels, problems
from kandle.bench._cases import Case
from kandle.bench._runner import Runner, data
from kandle.train import Architecture, Optimizer, objective
from kandle.train._program import LONGEST, Program


class KandleRunner(Runner):
    def __init__(self, case: Case):
        problem = problems.get(case.problem)
        backend = kernels.check_backend(case.backend)
        shape = Architecture(case.width, case.depth, case.grid)
        networks = [
            shape.network(problem.n_in, problem.n_out, init.Glorot(), seed, backend=backend)
            for seed in range(case.batch)
        ]
        goal = objective(problem, "published")
        self._program = Program.of(networks[0], goal, Optimizer(), backend)
        arrays = data(case)
        self._data = {name: jnp.asarray(arrays[name]) for name in goal.arrays}
        self._state = self._program.start(networks, self._data)
        self._parameters = sum(np.size(leaf) for leaf in jax.tree.leaves(networks[0]))

    def run(self, steps: int) -> float:
        loss = np.nan
        while steps > 0:
            chunk = min(steps, LONGEST)
            self._state, losses = self._program.advance(self._state, self._data, chunk)
            loss = float(np.asarray(losses)[-1, 0])
            steps -= chunk
        return loss

    @property
    def parameters(self) -> int:
        return self._parameters
