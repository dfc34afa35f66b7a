"""Training on rows by least squares, in place of Adam."""

import dataclasses
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kandle._compat import enable_x64
from kandle._errors import UserError, must
from kandle.init import get
from kandle.nn import KAN
from kandle.tabular._candidate import Candidate
from kandle.tabular._loop import Rows, keep_best, validate
from kandle.tabular._loss import curvature_gram, penalties
from kandle.tabular._rows import InMemory, RowSource
from kandle.tabular._settings import SMALL_SMOOTHNESS, SMOOTHNESS, FitSettings
from kandle.tabular._size import count_weights
from kandle.tabular._training import Training
from kandle.train import FitRows, Optimizer, Population
from kandle.train._least_squares import check_memory

# One iteration counts as so many updates: it costs about as much.
UPDATES_PER_ITERATION = 20


@dataclass(frozen=True)
class PenalizedRows(FitRows):
    """The weighted squared error and both penalties of `FitSettings`."""

    smoothness: float = 0.0
    weight_decay: float = 0.0

    def loss(self, model: KAN, data, weights, backend: str):
        loss, weights = super().loss(model, data, weights, backend)
        curvature, size = penalties(model)
        return loss + self.smoothness * curvature + self.weight_decay * size, weights

    def penalty_matrix(self, model: KAN) -> Float[np.ndarray, "P P"]:
        """The matrix of both penalties: one block for each edge's b and r, zero for biases."""
        from scipy.linalg import block_diag

        blocks = []
        for layer in model.layers:
            n = layer.basis.n_basis
            edge = np.eye(n + (layer.r is not None)) * self.weight_decay
            edge[:n, :n] += self.smoothness * curvature_gram(layer.basis)
            bias = [] if layer.bias is None else [np.zeros((1, 1))]
            blocks += [*[edge] * layer.n_in, *bias] * layer.n_out
        return np.asarray(block_diag(*blocks))


class LeastSquaresNetworks:
    """P networks in training by least squares, each on its own weights of the rows.

    Args:
        networks: initialized networks of one shape.
        rows: inputs, targets, and weights (P, N) that add up to one.
        smoothness, weight_decay: factors of the penalties.
        refined: whether the networks are trained already, on a coarser grid: then there is neither
            a warm-up nor a restart.
    """

    def __init__(
        self,
        networks: list[KAN],
        rows: Rows,
        smoothness: float,
        weight_decay: float,
        refined: bool = False,
    ):
        x, y = (np.asarray(a, np.float64) for a in (rows.x, rows.y))
        goal = PenalizedRows(smoothness=smoothness, weight_decay=weight_decay)
        arguments = {"warmup": 0, "restarts": 0} if refined else {}
        optimizer = Optimizer("levenberg-marquardt", arguments=arguments)
        with enable_x64(True):
            self._each = [
                Population(
                    [jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), network)],
                    # The loss of a row is the mean over its targets.
                    {"x": x, "y": y, "weight": np.asarray(weight, np.float64) / y.shape[1]},
                    goal,
                    optimizer=optimizer,
                )
                for network, weight in zip(networks, np.asarray(rows.weight), strict=True)
            ]

    @property
    def converged(self) -> bool:
        return all(one.converged for one in self._each)

    def iterate(self) -> Float[np.ndarray, " P"]:
        """Make one iteration; the loss of each network before it, with its penalties."""
        with enable_x64(True):
            return np.array([one.advance(1)[0, 0] for one in self._each])

    def weights(self) -> Float[np.ndarray, "P n"]:
        """All weights in single precision, in the order of a `Program`."""
        with enable_x64(True):
            models = [one.models()[0] for one in self._each]
        rows = [np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(m)]) for m in models]
        return np.stack(rows).astype(np.float32)


class LeastSquaresTraining(Training):
    """A `Training` by iterations of least squares, on all rows."""

    _smoothness = (SMALL_SMOOTHNESS, *SMOOTHNESS)

    def _usable(self, source: RowSource, loss: str, settings: FitSettings) -> FitSettings:
        if loss != "values":
            raise UserError(
                "'levenberg-marquardt' needs numbers as targets: classes have no squared error. "
                "Use the optimizer 'adam'."
            )
        if not isinstance(source, InMemory):
            raise UserError(
                "'levenberg-marquardt' needs all rows in memory. Use the optimizer 'adam' for a "
                "file that is read in parts."
            )
        if get(settings.init).normalized:
            raise must("'init' of 'levenberg-marquardt'", "not lecun-normalized", settings.init)
        return dataclasses.replace(settings, batch_size=max(1, source.rows))

    def _chunks(self) -> Iterator[tuple[Rows, np.ndarray, int]]:
        check_memory(count_weights(self._widths, self._settings))
        self._running: dict[float, LeastSquaresNetworks] = {}
        [(rows, batches, _)] = itertools.islice(super()._chunks(), 1)
        while not (self._running and all(one.converged for one in self._running.values())):
            yield rows, batches, UPDATES_PER_ITERATION

    def _advance(self, candidate: Candidate, rows: Rows, batches: np.ndarray, steps: int) -> None:
        c, decay = candidate, self._settings.weight_decay
        if c.smoothness not in self._running:
            networks = [self._program.model(row) for row in np.asarray(c.state.weights)]
            self._running[c.smoothness] = LeastSquaresNetworks(
                networks, rows, c.smoothness, float(decay), self._refined
            )
        running = self._running[c.smoothness]
        c.losses.append(running.iterate()[None])
        c.updates += steps
        step = c.state.step + steps
        c.state = c.state._replace(weights=jnp.asarray(running.weights()), step=step)
        if self._validates:
            held = rows._replace(weight=jnp.asarray(self._held))
            loss, score = validate(self._program, c.state.weights, held)
            c.state = jax.jit(keep_best)(c.state, loss)
            c.scores.append(np.asarray(score)[None])
