"""How networks are trained: what takes part, the models while they train, and the one loop.

Five things take part in a training, and none of them knows which kind the others are:

    objective   what is minimized              `Fit`, `FitRows`, `Classify`, `Solve`
    method      how the models advance         `FirstOrder` (Optax), `LeastSquares`
    feed        the data of the next updates   `Whole`, mini-batches, resampled points
    keep        which weights are the result   `KeepLast`, or those that validate best
    grids       the stages of a training       from coarse to fine

`Population` holds P models of one shape while they train. `run` is the loop: it hands data to the
populations, chunk by chunk, and between chunks it measures, reports and calls checkpoints. After an
interrupt (Ctrl-C) every population has made a whole number of updates, and may train on.

All arrays of data lead with an axis of models: 1 where the models share an array, P where each of
them has its own, such as the weights that it gives to rows. A model's state is a slice of arrays
that lead with P. This is all that the number of models means here.
"""

import abc
import functools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from kandle._errors import must
from kandle.kernels import Route
from kandle.nn import KAN
from kandle.nn._refine import finer
from kandle.train._objective import Aux, Data, Objective

# How long a chunk of updates should take: progress and Ctrl-C are handled between chunks.
_CHUNK_SECONDS = 0.5

# The largest number of updates in one call of a method.
LONGEST = 512


# ---- what takes part -----------------------------------------------------------------------------


class State(NamedTuple):
    """What an update changes. All leaves lead with the axis of models.

    Attributes:
        weights: of the models, in the form that the method works on.
        memory: what the method remembers: moments, damping, how often it restarted.
        aux: what the objective remembers: attention weights.
    """

    weights: Any
    memory: Any
    aux: Aux


class Curves(NamedTuple):
    """What a method records of its updates.

    Attributes:
        loss: before every update.
        unknowns: of the objective, beside the weights of the network, after every update.
    """

    loss: Any  # (steps, P)
    unknowns: Any  # (steps, P, k)


class Method(abc.ABC):
    """How models of one shape advance on one objective.

    A method is hashable, and equal to others that compile the same.

    Attributes:
        backend: of the kernels, for sums over points.
        first_chunk: the updates of the first call, before it is known how long one takes.
    """

    backend: str
    first_chunk: ClassVar[int] = 16

    @abc.abstractmethod
    def start(self, models: Sequence[Any], data: Data, before: State | None = None) -> State:
        """The state before the first update.

        Args:
            models: the initialized models.
            data: the data of the first updates.
            before: the state in which these models were on a coarser grid. What does not depend on
                the grid carries over from it.
        """

    @abc.abstractmethod
    def advance(self, state: State, data: Data, steps: int) -> tuple[State, Curves]:
        """The state after at most `LONGEST` updates, and what was recorded of them.

        The given state must not be used again. Curves may be longer than there are updates.
        """

    @abc.abstractmethod
    def models(self, state: State) -> Any:
        """The models as one whose arrays lead with the axis of models. JAX can trace it."""

    def unstacked(self, state: State) -> list[Any]:
        """The models one by one."""
        return unstacked(_stacked(self, state))

    def route(self, model: Any, data: Data) -> Route | None:
        """How a model's losses and their derivatives are computed, where that is known."""
        return None

    def converged(self, state: State) -> Bool[np.ndarray, " P"]:
        """For which models further updates would change nothing."""
        return np.zeros(_count(state), bool)


class Feed(Protocol):
    """Where data come from."""

    @property
    def inputs(self) -> Float[Array, "N n_in"]:
        """Typical inputs of the networks, which the domains of refined networks must contain."""
        ...

    def batches(self, populations: Sequence["Population"]) -> Iterator[tuple[Data, float]]:
        """(data, the number of updates that they serve), as long as updates are wanted.

        The next batch is asked for when those updates are done: a feed may look at the populations
        as they are then, and change their attention weights.
        """
        ...


class Keep(Protocol):
    """Which weights are the result of a training, and when it ends."""

    def start(self, population: "Population") -> None:
        """A population begins to train on a grid."""
        ...

    def next_measurement(self, done: int) -> float:
        """After how many updates on this grid to measure next, given how many are done.

        It is asked after every chunk, so until then the answer must stay the same.
        """
        ...

    def measure(self, population: "Population") -> None:
        """Measure a population, and note what it takes to `choose` and to return `models`."""
        ...

    def remaining(self, populations: Sequence["Population"]) -> list["Population"]:
        """Those that train on; asked after every measurement."""
        ...

    def choose(self, populations: Sequence["Population"]) -> list["Population"]:
        """Those that the next grid, or the caller, goes on with."""
        ...

    def models(self, population: "Population") -> list[Any]:
        """The models of a population that are its result."""
        ...


class Whole:
    """The same data in every update."""

    def __init__(self, data: Data, inputs: str):
        self._data, self._inputs = data, inputs

    @property
    def inputs(self) -> Float[Array, "N n_in"]:
        return self._data[self._inputs][0]

    def batches(self, populations: Sequence["Population"]) -> Iterator[tuple[Data, float]]:
        yield self._data, math.inf


class KeepLast:
    """The weights after the last update are the result."""

    def start(self, population: "Population") -> None:
        pass

    def next_measurement(self, done: int) -> float:
        return math.inf

    def measure(self, population: "Population") -> None:
        pass

    def remaining(self, populations: Sequence["Population"]) -> list["Population"]:
        return list(populations)

    def choose(self, populations: Sequence["Population"]) -> list["Population"]:
        return list(populations)

    def models(self, population: "Population") -> list[Any]:
        return population.models()


# ---- models while they train ---------------------------------------------------------------------


class Population:
    """Models of one shape in training, which a search can look at, discard and train further.

    The remaining models train exactly as if they had never been looked at.

    Args:
        models: initialized models that differ in their weights alone, see `Objective.model_of`.
        data: the arrays that the objective reads, see `shared`.
        objective: what is minimized.
        method: from a model to the method that advances models like it, see
            `kandle.train.method_of`. Refined models get a method of their own.
        private: arrays that go before those of the data, such as the penalties of these models.

    Attributes:
        steps: the number of updates so far.
        state: of the models and of the method.
        curves: what was recorded, one entry per chunk of updates.
        outside: per refinement and model, the share of each layer's inputs outside its domain.
    """

    def __init__(
        self,
        models: Sequence[Any],
        data: Data,
        objective: Objective,
        method: Callable[[Any], Method],
        private: Data | None = None,
    ):
        self.objective, self._build = objective, method
        self._private = {} if private is None else private
        self._data = {**data, **self._private}
        self.method = method(models[0])
        self.state = self.method.start(models, self._data)
        self.steps = 0
        self.curves: list[Curves] = []
        self.outside: list[list[tuple[float, ...]]] = []
        self._untrained: Sequence[Any] = models  # until the first losses turn out to be numbers

    def __len__(self) -> int:
        return _count(self.state)

    def advance(
        self, steps: int, report: Callable[[int, np.ndarray], None] | None = None
    ) -> Float[np.ndarray, "steps P"]:
        """Train for `steps` updates on the data, and return the loss before each of them.

        `report(steps so far, losses)` is called about twice per second.
        """
        chunks, before = len(self.curves), self.steps
        feed = Whole(self._data, self.objective.arrays[0])

        def progress(done: int, populations: Sequence["Population"]) -> None:
            if report is not None:
                report(before + done, self.curves[-1].loss[-1])

        run([self], feed, steps, progress=progress)
        return np.concatenate([part.loss for part in self.curves[chunks:]])

    def step(self, data: Data, steps: int) -> None:
        """Make some updates on these data, and wait until they are done."""
        self._data = {**data, **self._private}
        # `advance` may reuse the memory of the state that it is given, so the new state is stored
        # before anything can interrupt.
        self.state, curves = self.method.advance(self.state, self._data, steps)
        try:
            jax.block_until_ready(curves)
        finally:
            # An interrupt ends the wait, but the updates are made all the same.
            self.curves.append(Curves(*(np.asarray(curve)[:steps] for curve in curves)))
            self.steps += steps
        if len(self.curves) == 1:
            self._check_start(self.curves[0].loss[0])

    def _check_start(self, losses: Float[np.ndarray, " P"]) -> None:
        """Let the objective explain a formula that is NaN at the start: training repairs none."""
        bad = np.flatnonzero(~np.isfinite(losses))
        if len(bad):
            p = int(bad[0])
            self.objective.explain_nan(self._untrained[p], of_model(self._data, p))
        self._untrained = ()

    @property
    def converged(self) -> bool:
        """Whether the method has stopped for all models."""
        return bool(np.all(self.method.converged(self.state)))

    def losses(self, data: Data) -> Float[np.ndarray, " P"]:
        """The current loss of every model on other data, such as validation rows."""
        return np.asarray(self.each(_loss, data))

    def measured(self, data: Data) -> Float[np.ndarray, "P k"]:
        """The objective's measures of every model on other data."""
        return np.asarray(self.each(_measures, data))

    def each(self, function: Callable, data: Data) -> Any:
        """`function(objective, model, data, backend)` of every model and its data.

        The function must be one of a module, because it becomes a part of what is compiled.
        """
        return _each(function, self.method, self.objective, self.state, data)

    def keep(self, rows: Sequence[int]) -> None:
        """Discard all models but these, and put them in this order."""
        count, chosen = len(self), np.asarray(rows)

        def select(leaf: Any) -> Any:
            if not isinstance(leaf, jax.Array):
                return np.asarray(leaf)[chosen]  # on the host, and in its precision
            if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
                return leaf[chosen]
            return jax.device_put(np.asarray(leaf)[chosen])

        self.state = jax.tree.map(select, self.state)
        self.outside = [[shares[p] for p in chosen] for shares in self.outside]
        if self._untrained:
            self._untrained = [self._untrained[p] for p in chosen]
        for arrays in (self._data, self._private):
            for name, array in arrays.items():
                if len(array) == count > 1:
                    arrays[name] = select(array)

    def models(self, state: State | None = None) -> list[Any]:
        """The models with their current weights, or with those of another state."""
        return self.method.unstacked(self.state if state is None else state)

    def route(self) -> Route | None:
        """How the losses of a model are computed, see `kandle.kernels.route`."""

        def one(leaf: Any) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype)

        model = jax.tree.map(one, jax.eval_shape(self.method.models, self.state))
        return self.method.route(model, jax.tree.map(one, self._data))

    def networks(self) -> list[KAN]:
        """The networks with their current weights."""
        return [self.objective.network_of(model) for model in self.models()]

    def refine(self, models: Sequence[Any], x: Array, before: int, after: int) -> None:
        """Go on with these models on finer grids, with `after` / `before` times the intervals.

        In between, the domain of each layer is widened to contain its inputs.
        """
        networks = [self.objective.network_of(model).freeze(x) for model in models]
        self.outside.append([network.outside(x) for network in networks])
        refined = [KAN.from_layers(layers) for layers in finer(networks, x, before, after)]
        fine = [
            self.objective.model_of(network, self.objective.unknowns(model))
            for model, network in zip(models, refined, strict=True)
        ]
        self.method = self._build(fine[0])
        self.state = self.method.start(fine, self._data, self.state)


# ---- the loop ------------------------------------------------------------------------------------


def run(
    populations: Sequence[Population],
    feed: Feed,
    steps: int,
    *,
    grids: Sequence[int] = (),
    keep: Keep | None = None,
    progress: Callable[[int, Sequence[Population]], None] | None = None,
    checkpoints: Sequence[int] = (),
    on_checkpoint: Callable[[int, Sequence[Population]], None] | None = None,
) -> list[Population]:
    """Make `steps` updates of all populations, on each grid, and return those that were chosen.

    All populations see the same data, which are read once. Chunks do not affect the result: their
    length is an argument of one compiled loop.

    Args:
        populations: what trains; they are changed.
        feed: where data come from.
        steps: updates on each grid, unless `keep` ends the training before.
        grids: train on these grids one after the other, beginning with the present one; nothing
            refines the networks if there are fewer than two.
        keep: which weights are the result; None keeps the last ones.
        progress: called with (updates done on all grids, populations) about twice per second, and
            after every measurement.
        checkpoints: numbers of updates, counted over all grids, after which `on_checkpoint` is
            called in the same way.
    """
    keep = KeepLast() if keep is None else keep
    populations = list(populations)
    for stage in range(max(1, len(grids))):
        before = stage * steps

        # ---- the networks of this stage
        if stage > 0:
            populations = keep.choose(populations)
            for population in populations:
                coarse, fine = grids[stage - 1 : stage + 1]
                population.refine(keep.models(population), feed.inputs, coarse, fine)
        for population in populations:
            keep.start(population)

        # ---- where this stage stops in between; at its end it is still on its own grid
        stops = [c - before for c in checkpoints if before < c <= before + steps]
        if stage == 0 and 0 in checkpoints and on_checkpoint is not None:
            on_checkpoint(0, populations)

        # ---- chunks of updates
        training, done, length = list(populations), 0, populations[0].method.first_chunk
        batches = feed.batches(populations)
        data, available = _following(batches, done)
        while training:
            measuring = min(keep.next_measurement(done), steps)
            stop = min([measuring, *(s for s in stops if s > done)])
            n = max(1, int(min(length, available, stop - done)))
            began = time.perf_counter()
            for population in training:
                population.step(data, n)
            elapsed = time.perf_counter() - began
            done, available = done + n, available - n
            if n == length:
                faster = min(4.0, max(0.25, _CHUNK_SECONDS / elapsed))
                length = min(LONGEST, max(1, int(length * faster)))
            if available <= 0 and done < steps:
                data, available = _following(batches, done)

            # ---- between two chunks
            if done == measuring:
                for population in training:
                    keep.measure(population)
                training = keep.remaining(training)
            if progress is not None:
                progress(before + done, populations)
            if done in stops and on_checkpoint is not None:
                on_checkpoint(before + done, populations)
            if done == steps:
                break
    return keep.choose(populations)


def _following(batches: Iterator[tuple[Data, float]], done: int) -> tuple[Data, float]:
    batch = next(batches, None)
    if batch is None:
        raise must("The feed of a training", "batches for all of its updates", f"those of {done}")
    return batch


# ---- models and their data -----------------------------------------------------------------------


def shared(data: Mapping[str, Any]) -> Data:
    """Arrays that all models share, with the axis of models."""
    return {name: jax.device_put(np.asarray(array)[None]) for name, array in data.items()}


def of_model(data: Data, p: int) -> Data:
    """The data of one model, without the axis of models."""
    rows = {name: p if len(array) > 1 else 0 for name, array in data.items()}
    return {name: jax.device_put(np.asarray(data[name])[row]) for name, row in rows.items()}


def over_models(function: Callable, backend: str) -> Callable:
    """`function(model's part, model's data)` of all models, batched where that is faster.

    Native kernels and accelerators gain from batching. XLA's matrix products on a CPU do not: with
    a batch axis they miss its fast routines, so there the models take their turns.
    """
    batched = backend == "native" or jax.default_backend() != "cpu"

    def mapped(parts: Any, data: Data) -> Any:
        # What all models share stays as it is: a batch axis would copy it.
        common = {name: array[0] for name, array in data.items() if len(array) == 1}
        private = {name: array for name, array in data.items() if len(array) > 1}

        def one(pair: tuple[Any, Data]) -> Any:
            part, mine = pair
            return function(part, {**common, **mine})

        pairs = parts, private
        return jax.vmap(one)(pairs) if batched else jax.lax.map(one, pairs)

    return mapped


def unstacked(models: Any) -> list[Any]:
    """The models one by one, from one whose arrays lead with the axis of models.

    The slices are NumPy's, here and below: JAX would compile each of them for itself.
    """
    arrays = jax.tree.map(np.asarray, models)
    count = len(jax.tree.leaves(arrays)[0])
    return [jax.tree.map(lambda leaf, p=p: jax.device_put(leaf[p]), arrays) for p in range(count)]


@functools.partial(jax.jit, static_argnums=0)
def _stacked(method: Method, state: State) -> Any:
    return method.models(state)


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _each(function: Callable, method: Any, objective: Objective, state: State, data: Data) -> Any:
    def one(model: Any, data: Data) -> Any:
        return function(objective, model, data, method.backend)

    return over_models(one, method.backend)(method.models(state), data)


def _loss(objective: Objective, model: Any, data: Data, backend: str) -> Float[Array, ""]:
    return objective.loss(model, data, objective.start(data), backend)[0]


def _measures(objective: Objective, model: Any, data: Data, backend: str) -> Float[Array, " k"]:
    return objective.measure(model, data, backend)


def _count(state: State) -> int:
    return len(jax.tree.leaves(state.weights)[0])
