"""Train networks on scaled rows: hold out, choose the penalty, keep the best weights, average."""

import contextlib
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from kandle import kernels
from kandle._cache import cached_compilation
from kandle._compat import enable_x64
from kandle._errors import UserError, must
from kandle.init import get
from kandle.nn import KAN
from kandle.tabular._keep import KeepBest
from kandle.tabular._networks import (
    average,
    check_size,
    check_widths,
    count_weights,
    draw_networks,
)
from kandle.tabular._objective import ADAM, PenalizedRows
from kandle.tabular._rows import (
    LEAST_ROWS,
    Block,
    InMemory,
    RowSource,
    Split,
    rows_on_device,
)
from kandle.tabular._settings import SMALL_SMOOTHNESS, SMOOTHNESS, FitSettings
from kandle.train import (
    Data,
    FirstOrder,
    Keep,
    KeepLast,
    Optimizer,
    Population,
    State,
    method_of,
    run,
)
from kandle.train._least_squares import check_memory

Report = Callable[[int, int, float], None]  # updates made, the most there will be, training loss

# One iteration of least squares counts as so many updates: it costs about as much.
UPDATES_PER_ITERATION = 20

# Updates that one array of row numbers serves.
_BATCHES = 50

# Updates between two measurements of the rows held out. Small tables are fitted best after a few
# dozen updates; on batches, which are noisy, more looks find improvements that are none.
_MEASURED, _MEASURED_ON_BATCHES = 25, 50

# Updates between two reports.
_REPORTED = 50


@dataclass(frozen=True)
class Outcome:
    """Trained networks and how they got there.

    Attributes:
        model: the average of the networks.
        networks: the networks themselves.
        loss_curve: the training loss before every update, the mean over the networks.
        validation_scores: the score on the rows held out, the mean over the networks, whenever it
            was measured. Empty without validation.
        validation_loss: the mean of the lowest validation losses; NaN without validation.
        smoothness: the penalty that was used.
        updates: updates made.
        state: of all networks and their optimizer at the end, to continue from.
        held_out: rows that each network held out.
    """

    model: KAN
    networks: tuple[KAN, ...]
    loss_curve: Float[np.ndarray, " updates"]
    validation_scores: Float[np.ndarray, " measured"]
    validation_loss: float
    smoothness: float
    updates: int
    state: State
    held_out: int


def fit_values(
    x: Float[np.ndarray, "N n_in"],
    y: Float[np.ndarray, "N n_out"],
    settings: FitSettings,
    report: Report | None = None,
) -> KAN:
    """The network fitted to y by least squares; x on [-1, 1], y of unit variance."""
    return fit_rows(InMemory(Block(x, y, np.ones(len(x)))), "values", settings, report).model


def fit_classes(
    x: Float[np.ndarray, "N n_in"],
    y: Int[np.ndarray, " N"],
    n_classes: int,
    settings: FitSettings,
    report: Report | None = None,
) -> KAN:
    """The network whose softmax is fitted to the classes y = 0, 1, … by cross-entropy."""
    block = Block(x, np.eye(n_classes)[y], np.ones(len(x)))
    return fit_rows(InMemory(block), "classes", settings, report).model


def fit_rows(
    source: RowSource,
    loss: str,
    settings: FitSettings,
    report: Report | None = None,
    start: Sequence[KAN] | None = None,
    resume: State | None = None,
    constant_rate: bool = False,
) -> Outcome:
    """Train on rows, on one grid or on several that become finer.

    Args:
        source: scaled rows.
        loss: "values" or "classes".
        settings: how.
        report: called on the way.
        start: networks to continue from, on the only grid.
        resume: the state that their training ended with; None restarts the optimizer.
        constant_rate: whether the learning rate stays as it is.
    """
    least_squares = settings.optimizer == "levenberg-marquardt"
    if least_squares:
        settings = _check_least_squares(source, loss, settings, constant_rate)
    with cached_compilation(), enable_x64(True) if least_squares else contextlib.nullcontext():
        return _fit(source, loss, settings, report, start, resume, constant_rate, least_squares)


def _fit(
    source: RowSource,
    loss: str,
    settings: FitSettings,
    report: Report | None,
    start: Sequence[KAN] | None,
    resume: State | None,
    constant_rate: bool,
    least_squares: bool,
) -> Outcome:
    grids = settings.grids or (settings.grid,)
    s = dataclasses.replace(settings, grid=grids[0])
    dtype = np.float64 if least_squares else np.float32
    unit = UPDATES_PER_ITERATION if least_squares else 1

    # ---- networks, and the rows that each of them trains on and holds out
    rng = np.random.default_rng(s.seed)
    batch = s.rows_per_update(source.rows)
    validates = s.early_stopping and source.rows >= LEAST_ROWS
    if validates and batch is not None:
        source = source.with_held_out(s.validation_fraction, rng)
    [first] = itertools.islice(source.blocks(np.random.default_rng(s.seed)), 1)
    if batch is not None or len(first) < source.rows:
        batch = min(batch or len(first), len(first))
    networks = _initial(first, s) if start is None else list(start)
    count, normalized = len(networks), any(layer.normalized for layer in networks[0].layers)
    if least_squares:
        check_memory(count_weights(networks[0].widths, s))
        networks = [_with_dtype(network, dtype) for network in networks]
    fraction = s.validation_fraction if validates else 0.0
    split = Split.of(source, first, loss, fraction, count, rng, normalized)

    # ---- what they train on, and by
    rate = s.learning_rate, math.inf if constant_rate else float(s.steps)
    feed = _RowFeed(source, split, batch, rate, rng, dtype)
    objective = PenalizedRows(loss)  # pyright: ignore[reportArgumentType]
    backend = kernels.check_backend(None, networks[0].layers[0].basis)
    build = functools.partial(
        FirstOrder.of, objective=objective, optimizer=ADAM, backend=backend, pick=_chosen_rows
    )
    if least_squares:
        build = method_of(Optimizer("levenberg-marquardt"), objective, backend)

    # ---- one population per penalty: the same networks, side by side
    candidates = _penalties(s, validates, least_squares)
    check_size(networks[0], count * len(candidates))
    data = feed.data(first)
    populations = []
    for smoothness in candidates:
        penalty = np.tile(np.asarray([smoothness, s.weight_decay], dtype), (count, 1))
        private = {"penalty": jax.device_put(penalty)}
        populations.append(Population(networks, data, objective, build, private))
    if resume is not None:
        [population] = populations
        population.state = jax.tree.map(np.array, resume)

    # ---- the training
    keep: Keep = KeepLast()
    if validates:
        every = _MEASURED if batch is None else _MEASURED_ON_BATCHES
        keep = KeepBest(split.held_out(dtype), s.patience, every, unit)
    steps = -(-int(s.steps) // unit)

    def reported(done: int, populations: Sequence[Population]) -> None:
        """Report the loss of the penalty that leads."""
        assert report is not None
        leader = keep.choose(populations)[0]
        made = min(done * unit, s.total_steps)
        report(made, s.total_steps, float(np.mean(leader.curves[-1].loss[-1])))

    reports: set[int] = set()
    if report is not None:
        ends = range(steps, steps * len(grids) + 1, steps)
        reports = {*range(0, ends[-1], max(1, _REPORTED // unit)), *ends} - {0}
    chosen = run(
        populations,
        feed,
        steps,
        grids=s.grids or (),
        keep=keep,
        checkpoints=sorted(reports),
        on_checkpoint=reported,
    )[0]
    smoothness = candidates[populations.index(chosen)]
    return _outcome(chosen, keep, s, smoothness, unit, split)


def _outcome(
    population: Population,
    keep: Keep,
    settings: FitSettings,
    smoothness: float,
    unit: int,
    split: Split,
) -> Outcome:
    losses = np.concatenate([part.loss for part in population.curves])
    networks = keep.models(population)
    weights_finite = all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(networks))
    scores, validation_loss = np.empty(0), math.nan
    finite = weights_finite and bool(np.isfinite(losses).all())
    if isinstance(keep, KeepBest):
        scores = np.concatenate([best.scores for best in keep.history(population)]).mean(axis=1)
        validation_loss = keep.best(population).mean
        finite = weights_finite and math.isfinite(validation_loss)
    if not finite:
        bad = np.flatnonzero(~np.isfinite(losses).all(axis=1))
        step = int(bad[0]) + 1 if bad.size else population.steps
        raise UserError(
            f"Training diverged at step {step * unit} of {settings.total_steps}. "
            f"A learning rate below {settings.learning_rate:g} or another init may help."
        )
    if split.normalized:  # the statistics of the training rows
        networks = [network.freeze(split.first.x.astype(np.float32)) for network in networks]
    networks = [_with_dtype(network, np.float32) for network in networks]
    return Outcome(
        model=average(networks),
        networks=tuple(networks),
        loss_curve=losses.mean(axis=1),
        validation_scores=scores,
        validation_loss=validation_loss,
        smoothness=smoothness,
        updates=min(population.steps * unit, settings.total_steps),
        state=population.state,
        held_out=split.held_out_rows,
    )


def _with_dtype(network: KAN, dtype: type) -> KAN:
    return jax.tree.map(lambda leaf: jax.device_put(np.asarray(leaf, dtype)), network)


class _RowFeed:
    """The rows of every update: all of them, or random batches block by block.

    Args:
        source: blocks of training rows.
        split: which rows each network trains on.
        batch: rows per update; None is all.
        rate: (η, T) of the learning rate, see `ADAM`.
        rng: shuffles the rows.
        dtype: of the arrays.
    """

    def __init__(
        self,
        source: RowSource,
        split: Split,
        batch: int | None,
        rate: tuple[float, float],
        rng: np.random.Generator,
        dtype: type,
    ):
        self._source, self._split, self._batch = source, split, batch
        self._rng, self._dtype = rng, dtype
        self._rate = jax.device_put(np.asarray([rate], dtype))

    @property
    def inputs(self) -> Float[Array, "N n_in"]:
        return jax.device_put(self._split.first.x.astype(self._dtype))

    def data(self, block: Block) -> Data:
        """The rows of a block, with the weight that each network gives them."""
        weight = self._split.weights(block, normalized=self._batch is None)
        return {**rows_on_device(block, weight, self._dtype), "rate": self._rate}

    def batches(self, populations: Sequence[Population]) -> Iterator[tuple[Data, float]]:
        if self._batch is None:
            yield self.data(self._split.first), math.inf
            return
        while True:
            for block in self._source.blocks(self._rng):
                data = self.data(block)
                order = self._order(np.flatnonzero(block.weight > 0), self._batch)
                for start in range(0, len(order), _BATCHES):
                    chosen = order[start : start + _BATCHES]
                    # One shape, so that one compiled program serves the last ones as well.
                    batch = np.zeros((1, _BATCHES, self._batch), np.int32)
                    batch[0, : len(chosen)] = chosen
                    yield {**data, "batch": jax.device_put(batch)}, len(chosen)

    def _order(self, rows: np.ndarray, size: int) -> Int[np.ndarray, "updates size"]:
        """Rows in random order, all of them about equally often, for at least `_BATCHES` updates.

        Rows left over at the end of an epoch appear in a later one.
        """
        per_epoch = max(1, len(rows) // size)
        epochs = [
            np.resize(self._rng.permutation(rows), per_epoch * size)
            for _ in range(-(-_BATCHES // per_epoch))
        ]
        return np.concatenate(epochs).reshape(-1, size)


def _chosen_rows(data: Data, i: Array) -> Data:
    """The data of update i: its rows, whose weights add up to one for every network."""
    if "batch" not in data:
        return data
    rows = data["batch"][0, i]
    x, y = (data[name][0][rows][None] for name in ("x", "y"))
    weight = data["weight"][:, rows]
    weight = weight / jnp.maximum(jnp.sum(weight, axis=1, keepdims=True), 1e-30)
    others = {name: array for name, array in data.items() if name != "batch"}
    return {**others, "x": x, "y": y, "weight": weight}


def _initial(block: Block, settings: FitSettings) -> list[KAN]:
    s, scheme = settings, get(settings.init)
    widths = [block.x.shape[1], *map(int, s.layers), block.y.shape[1]]
    check_widths(widths, s)
    return draw_networks(widths, s.grid, s.degree, scheme, s.networks, s.seed, block.x)


def _penalties(settings: FitSettings, validates: bool, least_squares: bool) -> Sequence[float]:
    """The factors of the curvature to choose from."""
    if not isinstance(settings.smoothness, str):
        return (float(settings.smoothness),)
    if not validates:
        return (0.0,)
    return (SMALL_SMOOTHNESS, *SMOOTHNESS) if least_squares else SMOOTHNESS


def _check_least_squares(
    source: RowSource, loss: str, settings: FitSettings, constant_rate: bool
) -> FitSettings:
    """Settings with which every iteration sees all rows, or an error."""
    if constant_rate:
        raise UserError("'partial_fit' needs optimizer='adam': least squares sees all rows.")
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
