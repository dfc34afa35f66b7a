"""A plain MLP of the same widths in JAX: what a step costs without functions on edges."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from speed._cases import Case
from speed._runner import Runner, data


class MlpRunner(Runner):
    def __init__(self, case: Case):
        rng = np.random.default_rng(0)
        self._weights = [
            (jnp.asarray(rng.normal(size=(a, b)) / np.sqrt(a), jnp.float32), jnp.zeros(b))
            for a, b in zip(case.widths, case.widths[1:], strict=False)
        ]
        self._parameters = sum(np.size(leaf) for leaf in jax.tree.leaves(self._weights))
        optimizer = optax.adam(1e-3)
        self._arrays = {name: jnp.asarray(array) for name, array in data(case).items()}
        self._predict = case.predict

        def step(_, carry):
            weights, state, _, arrays = carry
            value, gradient = jax.value_and_grad(
                lambda w: jnp.mean((_evaluate(w, arrays["x"]) - arrays["y"]) ** 2)
            )(weights)
            updates, state = optimizer.update(gradient, state, weights)
            return optax.apply_updates(weights, updates), state, value, arrays

        self._evaluate = jax.jit(_evaluate)
        self._run = jax.jit(lambda carry, steps: jax.lax.fori_loop(0, steps, step, carry))
        self._state = optimizer.init(self._weights)

    def run(self, steps: int) -> float:
        if self._predict:
            y = self._arrays["x"]
            for _ in range(steps):
                y = jax.block_until_ready(self._evaluate(self._weights, self._arrays["x"]))
            return float(y[0, 0])
        carry = (self._weights, self._state, jnp.zeros(()), self._arrays)
        self._weights, self._state, value, _ = self._run(carry, steps)
        return float(value)

    @property
    def parameters(self) -> int:
        return self._parameters


def _evaluate(weights, x):
    for w, bias in weights[:-1]:
        x = jax.nn.silu(x @ w + bias)
    w, bias = weights[-1]
    return x @ w + bias
