"""jaxKAN's side, at its fastest: `spline` layers, one jitted step that reuses its buffers.

Its `base` layers, which evaluate the basis again for every output, are several times slower. The
module is taken apart once and put together inside the compiled step, which spares the bookkeeping
of `nnx.jit`. Derivatives are its own Allen-Cahn residual's: reverse mode in reverse mode, a point
at a time under `vmap`. Residual-based attention is the published variant, as on Kandle's side.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jaxkan.models.KAN import KAN
from jaxkan.pikan.pde import get_ac_res

from kandle.train import ETA, GAMMA
from speed._cases import Case
from speed._runner import Runner, data


class JaxkanRunner(Runner):
    def __init__(self, case: Case):
        settings = {"k": 3, "G": case.grid, "grid_range": (-1, 1), "grid_e": 1.0}
        model = KAN(list(case.widths), "spline", settings, seed=0)
        graph, weights, rest = nnx.split(model, nnx.Param, ...)
        optimizer = optax.adam(1e-3)
        loss = _solve if case.pde else _fit

        def step(state, data):
            weights, moments, attention = state

            def objective(weights):
                return loss(nnx.merge(graph, weights, rest), data, attention)

            (value, after), gradient = jax.value_and_grad(objective, has_aux=True)(weights)
            updates, moments = optimizer.update(gradient, moments, weights)
            return (optax.apply_updates(weights, updates), moments, after), value

        self._step = jax.jit(step, donate_argnums=0)
        self._predict = case.predict
        self._evaluate = jax.jit(lambda weights, x: nnx.merge(graph, weights, rest)(x))
        arrays = data(case)
        names = ("collocation", "points", "values") if case.pde else ("x", "y")
        self._data = {name: jnp.asarray(arrays[name]) for name in names}
        attention = {}
        if case.pde:
            attention = {
                "pde": jnp.ones((len(arrays["collocation"]), 1)),
                "bc": jnp.ones_like(self._data["values"]),
            }
        self._state = (weights, optimizer.init(weights), attention)
        self._parameters = sum(np.size(leaf) for leaf in jax.tree.leaves(weights))

    def run(self, steps: int) -> float:
        if self._predict:
            y = self._data["x"]
            for _ in range(steps):
                y = jax.block_until_ready(self._evaluate(self._state[0], self._data["x"]))
            return float(y[0, 0])
        value = jnp.nan
        for _ in range(steps):
            self._state, value = self._step(self._state, self._data)
        jax.block_until_ready(self._state)
        return float(value)

    @property
    def parameters(self) -> int:
        return self._parameters


def _fit(model, data, attention):
    return jnp.mean((model(data["x"]) - data["y"]) ** 2), attention


def _solve(model, data, attention):
    residuals = {
        "pde": get_ac_res()(model, data["collocation"]),
        "bc": model(data["points"]) - data["values"],
    }
    updated = {
        kind: GAMMA * attention[kind] + ETA * jnp.abs(r) / jnp.max(jnp.abs(r))
        for kind, r in residuals.items()
    }
    total = sum(jnp.mean((updated[kind] * r) ** 2) for kind, r in residuals.items())
    return total, jax.lax.stop_gradient(updated)
