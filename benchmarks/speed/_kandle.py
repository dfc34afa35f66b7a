"""Kandle's side: the compiled program of `kandle.train.train`, or what a user writes with Optax."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from kandle import KAN, init, kernels, problems
from kandle.train import (
    Architecture,
    FusedAdam,
    Optimizer,
    Population,
    adam,
    method_of,
    objective,
    shared,
)
from speed._cases import RANDOM, Case
from speed._runner import Runner, data


def kandle_runner(case: Case) -> Runner:
    if case.predict:
        return PredictRunner(case)
    return LoopRunner(case) if case.problem == RANDOM else KandleRunner(case)


class KandleRunner(Runner):
    """The compiled program of `train`, called as `train` calls it."""

    def __init__(self, case: Case):
        problem = problems.get(case.problem)
        backend = kernels.check_backend(case.backend)
        shape = Architecture(case.width, case.depth, case.grid)
        networks = [
            shape.network(problem.n_in, problem.n_out, init.Glorot(), seed, backend=backend)
            for seed in range(case.batch)
        ]
        goal = objective(problem, "published")
        arrays = data(case)
        self._population = Population(
            networks,
            shared({name: arrays[name] for name in goal.arrays}),
            goal,
            method_of(Optimizer(), goal, backend),
        )
        self._parameters = sum(np.size(leaf) for leaf in jax.tree.leaves(networks[0]))

    def run(self, steps: int) -> float:
        return float(self._population.advance(steps)[-1, 0])

    @property
    def parameters(self) -> int:
        return self._parameters


class LoopRunner(Runner):
    """A loop over steps as a user writes it: `value_and_grad`, an Optax optimizer, `jit`."""

    def __init__(self, case: Case):
        model = KAN(case.widths, grid=case.grid, init="glorot", key=jax.random.key(0))
        weights, static = eqx.partition(model, eqx.is_inexact_array)
        optimizer = adam(1e-3) if case.fused else optax.adam(1e-3)
        arrays = {name: jnp.asarray(array) for name, array in data(case).items()}

        def loss(weights):
            return jnp.mean((eqx.combine(weights, static)(arrays["x"]) - arrays["y"]) ** 2)

        def step(_, carry):
            weights, state, _ = carry
            value, gradient = jax.value_and_grad(loss)(weights)
            if isinstance(optimizer, FusedAdam):
                weights, state = optimizer.apply(gradient, state, weights)
            else:
                updates, state = optimizer.update(gradient, state, weights)
                weights = optax.apply_updates(weights, updates)
            return weights, state, value

        def run(carry, steps):
            return jax.lax.fori_loop(0, steps, step, carry)

        self._run = jax.jit(run, donate_argnums=0)
        self._carry = (weights, optimizer.init(weights), jnp.zeros(()))
        self._parameters = sum(np.size(leaf) for leaf in jax.tree.leaves(weights))

    def run(self, steps: int) -> float:
        self._carry = self._run(self._carry, steps)
        return float(self._carry[-1])

    @property
    def parameters(self) -> int:
        return self._parameters


class PredictRunner(Runner):
    """A jitted evaluation, dispatched once per step."""

    def __init__(self, case: Case):
        model = KAN(case.widths, grid=case.grid, init="glorot", key=jax.random.key(0))
        self._evaluate = jax.jit(lambda model, x: model(x))
        self._model, self._x = model, jnp.asarray(data(case)["x"])

    def run(self, steps: int) -> float:
        y = self._x
        for _ in range(steps):
            y = jax.block_until_ready(self._evaluate(self._model, self._x))
        return float(y[0, 0])

    @property
    def parameters(self) -> int:
        return sum(np.size(leaf) for leaf in jax.tree.leaves(self._model))
