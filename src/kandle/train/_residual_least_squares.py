"""Least-squares training of any PDE: the Jacobian by automatic differentiation, row by row."""

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from kandle.nn import KAN
from kandle.problems import Group
from kandle.train._jacobian import Layout
from kandle.train._least_squares import check_memory, warmed_up
from kandle.train._levenberg_marquardt import LevenbergMarquardt, System, iterate
from kandle.train._program import State
from kandle.train._rba import ETA, GAMMA, share
from kandle.train._solve import TRAJECTORY, Solve, WithCoefficients, network_of
from kandle.train._terms import Data, Weights

# Rows of the Jacobian that are computed together.
_BLOCK = 512

# The step along δ for the second difference of the residuals, relative to δ.
_DIFFERENCE = 0.1


@dataclass(frozen=True)
class ResidualLeastSquares:
    """Trains models on the residuals of a PDE by the Levenberg-Marquardt method.

    It has the methods of `Program`, and takes every PDE: derivatives of any order, transforms,
    coefficients, and conditions of any kind. A row of weights is [θ, coefficients, constants] with
    θ and the constants of `Layout`.
    """

    layout: Layout
    objective: Solve
    settings: LevenbergMarquardt
    backend: str  # of the warm-up; the Jacobian is computed in plain JAX

    first_chunk = 1

    @classmethod
    def of(
        cls, model: Any, objective: Solve, settings: LevenbergMarquardt, backend: str
    ) -> "ResidualLeastSquares":
        """The program for models like this one."""
        program = cls(Layout.of(_prepared(model, None)), objective, settings, backend)
        check_memory(program.n_trained)
        return program

    @property
    def n_trained(self) -> int:
        return self.layout.n_weights + len(self.objective.coefficients)

    def model(self, weights: Float[ArrayLike, " n"]) -> Any:
        """The model with these weights."""
        row = jnp.asarray(weights)
        n, m = self.layout.n_weights, self.n_trained
        network = self.layout.model(jnp.concatenate([row[:n], row[m:]]))
        return WithCoefficients(network, row[n:m]) if m > n else network

    def evaluated(self, state: State) -> Float[Array, "P n"]:
        """The weights of the trained models."""
        return state.weights

    def start(self, models: Sequence[Any], data: Data, previous: State | None = None) -> State:
        """The state before the first iteration, or after a refinement of models in `previous`."""
        n, rows = self.layout.n_weights, []
        if previous is None:
            models = warmed_up(models, data, self.objective, self.settings, self.backend)
        for model in models:
            theta = model.theta if isinstance(model, WithCoefficients) else np.empty(0)
            vector = self.layout.vector(_prepared(model, data[self.objective.arrays[0]]))
            rows.append(np.concatenate([vector[:n], np.asarray(theta), vector[n:]]))
        rba = {
            kind: jnp.broadcast_to(alpha, (len(models), *alpha.shape)).copy()
            for kind, alpha in self.objective.start(data).items()
        }
        damping = np.full(len(models), self.settings.damping)
        if previous is not None:
            damping, rba = np.asarray(previous.optimizer[0]), previous.rba
        return State(jnp.asarray(np.stack(rows)), (damping, np.zeros(len(models), bool)), rba)

    def advance(
        self, state: State, data: Data, steps: int
    ) -> tuple[State, Float[np.ndarray, "steps P"]]:
        """The state after `steps` iterations, and the loss before each of them."""
        weights = np.array(state.weights)
        damping, converged = (np.array(part) for part in state.optimizer)
        rba = {kind: np.array(a) for kind, a in state.rba.items()}
        losses = np.empty((steps, len(weights)), weights.dtype)
        n, m = self.layout.n_weights, self.n_trained
        for p, i in np.ndindex(len(weights), steps):
            alpha = {kind: jnp.asarray(a[p]) for kind, a in rba.items()}
            now = self.objective.current(data, alpha)
            if converged[p]:
                losses[i, p] = losses[i - 1, p] if i else _loss(self, weights[p], now, alpha)
            else:
                step = self._iterate(weights[p], float(damping[p]), now, alpha)
                losses[i, p], weights[p, :m], damping[p], converged[p] = step
                for kind, updated in _attention(self, weights[p], now, alpha).items():
                    rba[kind][p] = updated
            if TRAJECTORY in rba:
                rba[TRAJECTORY][p, i] = weights[p, n:m]
        arrays = {kind: jnp.asarray(a) for kind, a in rba.items()}
        return State(jnp.asarray(weights), (damping, converged), arrays), losses

    def losses(self, state: State, data: Data) -> Float[Array, " P"]:
        """The loss of every model on any data, without an update."""
        start = self.objective.start(data)
        return jnp.stack([_loss(self, row, data, start) for row in state.weights])

    def residuals(self, state: State, points: Array) -> Float[Array, "P M q"]:
        """The residual of the equation for every model at any points."""
        return jnp.stack([_equation(self, row, points) for row in state.weights])

    def _iterate(self, vector: np.ndarray, damping: float, data: Data, alpha: Weights):
        m = self.n_trained

        def full(theta: np.ndarray) -> Array:
            return jnp.asarray(np.concatenate([theta, vector[m:]]).astype(vector.dtype))

        def normal(theta: np.ndarray):
            gram, gradient, loss = np.zeros((m, m)), np.zeros(m), 0.0
            for group in self.objective.groups:
                for rows in _blocks(group, data, alpha.get(group.name)):
                    r, J = (
                        np.asarray(a, np.float64) for a in _rows(self, group, full(theta), rows)
                    )
                    gram += J.T @ J
                    gradient += J.T @ r
                    loss += float(r @ r)
            return loss, gram, gradient

        def loss(theta: np.ndarray) -> float:
            return float(_loss(self, full(theta), data, alpha))

        def curvature(theta: np.ndarray, step: np.ndarray) -> np.ndarray:
            along = full(step).at[m:].set(0.0)
            return np.asarray(_curvature(self, full(theta), along, data, alpha), np.float64)[:m]

        start = vector[:m].astype(np.float64)
        return iterate(System(normal, loss, curvature), start, damping, self.settings)


def _prepared(model: Any, x: Array | None) -> KAN:
    """The network for the Jacobian: plain JAX, with statistics if it standardizes its basis."""
    network = network_of(model)
    if any(layer.normalized and layer.mean is None for layer in network.layers):
        network = network.freeze(np.zeros((1, network.widths[0])) if x is None else x)
    return KAN.from_layers([dataclasses.replace(y, backend="dense") for y in network.layers])


def _blocks(group: Group, data: Data, alpha: Array | None) -> Iterator[dict[str, Array]]:
    """The arrays of a group by row of residuals, in blocks padded to one size by weight zero.

    `points` is (rows, n, n_in), with n > 1 for integrals; `weight` is (rows, columns), the factor
    of each residual.
    """
    arrays = {role: data[name] for role, name in group.arrays}
    n_in = arrays["points"].shape[-1]
    count = len(arrays.get("quadrature", arrays["points"]))
    rows = {
        role: array.reshape(count, -1, n_in) if role in ("points", "partner") else array[:, None]
        for role, array in arrays.items()
    }
    ones = jnp.ones((count, group.columns), arrays["points"].dtype)
    weight = ones if alpha is None else alpha.reshape(ones.shape)
    rows["weight"] = weight * np.sqrt(group.weight / weight.size)
    size = min(_BLOCK, count)
    for start in range(0, count, size):
        block = {role: array[start : start + size] for role, array in rows.items()}
        if missing := size - len(block["points"]):
            for role, array in block.items():
                padding = ((0, missing),) + ((0, 0),) * (array.ndim - 1)
                mode: Any = {} if role == "weight" else {"mode": "edge"}
                block[role] = jnp.pad(array, padding, **mode)
        yield block


@functools.partial(jax.jit, static_argnums=(0, 1))
def _rows(program: ResidualLeastSquares, group: Group, vector: Array, rows: dict[str, Array]):
    """The weighted residuals of a block and their Jacobian: (rows · columns,) and (·, P)."""
    m, names = program.n_trained, dict(group.arrays)

    def residual(trained: Array, row: dict[str, Array]) -> Float[Array, " columns"]:
        model = program.model(jnp.concatenate([trained, vector[m:]]))
        data = {names[role]: array for role, array in row.items() if role in names}
        return row["weight"] * program.objective.residual(group, model, data)

    def value_and_row(row: dict[str, Array]) -> tuple[Array, Array]:
        r, pull = jax.vjp(lambda trained: residual(trained, row), vector[:m])
        return r, jax.vmap(lambda one: pull(one)[0])(jnp.eye(len(r), dtype=r.dtype))

    r, J = jax.vmap(value_and_row)(rows)
    return r.ravel(), J.reshape(-1, m)


def _residuals(program: ResidualLeastSquares, vector: Array, data: Data, alpha: Weights) -> Array:
    found = program.objective.residuals(program.model(vector), data)
    return jnp.concatenate(
        [
            np.sqrt(g.weight / found[g.name].size) * alpha.get(g.name, 1.0) * found[g.name]
            for g in program.objective.groups
        ]
    )


@functools.partial(jax.jit, static_argnums=0)
def _loss(program: ResidualLeastSquares, vector: Array, data: Data, alpha: Weights) -> Array:
    r = _residuals(program, vector, data, alpha)
    return jnp.vdot(r, r)


@functools.partial(jax.jit, static_argnums=0)
def _curvature(
    program: ResidualLeastSquares, vector: Array, step: Array, data: Data, alpha: Weights
) -> Array:
    """Jᵀ of the second derivative of the residuals along a step, by central differences."""

    def residuals(vector: Array) -> Array:
        return _residuals(program, vector, data, alpha)

    here, pull = jax.vjp(residuals, vector)
    ahead, behind = (residuals(vector + sign * _DIFFERENCE * step) for sign in (1, -1))
    (pulled,) = pull((ahead - 2 * here + behind) / _DIFFERENCE**2)
    return pulled


@functools.partial(jax.jit, static_argnums=0)
def _attention(program: ResidualLeastSquares, vector: Array, data: Data, alpha: Weights) -> Weights:
    if not any(group.name in alpha for group in program.objective.groups):
        return {}
    found = program.objective.residuals(program.model(vector), data)
    return {
        kind: GAMMA * alpha[kind] + ETA * share(r, "dense")
        for kind, r in found.items()
        if kind in alpha
    }


@functools.partial(jax.jit, static_argnums=0)
def _equation(program: ResidualLeastSquares, vector: Array, points: Array) -> Array:
    group = program.objective.groups[0]
    r = program.objective.residual(group, program.model(vector), {"collocation": points})
    return r.reshape(len(points), -1)
