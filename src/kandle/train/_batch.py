"""Train one batch: models that share a compiled program, in chunks of steps."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kandle import kernels
from kandle.init import Sampler
from kandle.init import get as get_scheme
from kandle.nn import KAN
from kandle.nn._refine import finer
from kandle.problems import PDE, Problem
from kandle.train._architecture import Architecture
from kandle.train._evaluation import Errors, evaluate
from kandle.train._least_squares import LeastSquares
from kandle.train._objective import Objective
from kandle.train._optimizer import Optimizer, Transformation
from kandle.train._program import LONGEST, Program, State
from kandle.train._residual_least_squares import ResidualLeastSquares
from kandle.train._result import Checkpoint, Member, Result, curve_steps
from kandle.train._solve import TRAJECTORY, Solve, network_of, resampled, trainable, with_network
from kandle.train._terms import Data

# How long a chunk of steps should take: progress and Ctrl-C are handled between chunks.
_CHUNK_SECONDS = 0.5

AnyProgram = Program | LeastSquares | ResidualLeastSquares
OnCheckpoint = Callable[[int, list[Checkpoint]], None]
Report = Callable[[int, Float[np.ndarray, " P"]], None]  # steps done, losses of the models


@dataclass(frozen=True)
class Settings:
    """The settings that all batches of a training share."""

    problem: Problem
    architecture: Architecture
    objective: Objective
    optimizer: Optimizer | Transformation
    steps: int
    finer_grids: Sequence[int]
    sampler: Sampler
    dtype: str
    backend: str
    curve: str
    keep_weights: bool
    checkpoints: Sequence[int]
    on_checkpoint: OnCheckpoint | None
    data: Mapping[str, np.ndarray] = field(repr=False)
    initial: Sequence[KAN] = ()  # one per member, or none: the schemes draw the networks

    @property
    def total_steps(self) -> int:
        """Updates on all grids together."""
        return self.steps * (1 + len(self.finer_grids))


def train_batch(
    settings: Settings, members: Mapping[int, Member], report: Report
) -> dict[int, Result]:
    """Train members that share a program: all are normalized or none is; one, if grids change.

    Keys are the positions of the members in the call of `train`.
    """
    started = time.perf_counter()
    s = settings
    networks = [trainable(s.objective, _initialized(s, *m)) for m in members.items()]
    program = build_program(networks[0], s.objective, s.optimizer, s.backend)
    data = {name: jnp.asarray(s.data[name]) for name in s.objective.arrays}
    state = program.start(networks, data)

    extras: dict[int, dict[str, Any]] = {i: {} for i in members}
    losses, trajectory = [], []
    for stage in range(1 + len(s.finer_grids)):
        if stage > 0:
            program, state = _refined(s, program, state, data, stage, extras)
        initial, before = state, stage * s.steps
        # The checkpoint at the end of a stage sees its grid, not the next one.
        stops = [c - before for c in s.checkpoints if c > before or c == stage == 0]
        stops = [c for c in stops if c <= s.steps]
        resample = _resampling(s, program, before)
        for done, state, part in chunks(program, initial, data, s.steps, stops, *resample):
            if len(part):
                if not losses:
                    _check_start(s, networks, data, part[0])
                losses.append(part)
                if TRAJECTORY in state.rba:
                    trajectory.append(np.asarray(state.rba[TRAJECTORY])[:, : len(part)])
                report(before + done, part[-1])
            if done in stops and s.on_checkpoint is not None:
                s.on_checkpoint(before + done, _checkpoint(program, state, members, extras))

    results = _results(settings, program, state, np.concatenate(losses))
    if trajectory:
        _add_coefficients(s, results, np.concatenate(trajectory, axis=1))
    for result, extra in zip(results, extras.values(), strict=True):
        result.extra = extra
        result.wall_s = (time.perf_counter() - started) / len(members)
    return dict(zip(members, results, strict=True))


def _initialized(settings: Settings, index: int, member: Member) -> KAN:
    """The network before its first update, adapted to the data if its scheme requires it."""
    s = settings
    if s.initial:
        dtype = jnp.dtype(s.dtype)
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), s.initial[index])
    return s.architecture.network(
        *(s.problem.n_in, s.problem.n_out, get_scheme(member.scheme), member.seed),
        sampler=s.sampler,
        dtype=s.dtype,
        backend=s.backend,
        sample=s.data[s.objective.arrays[0]],
    )


def _check_start(
    settings: Settings, models: Sequence[Any], data: Data, losses: Float[np.ndarray, " P"]
) -> None:
    """Report a formula that is NaN at the start, which no training would repair."""
    objective = settings.objective
    if isinstance(objective, Solve) and not np.isfinite(losses).all():
        objective.explain_nan(models[int(np.argmin(np.isfinite(losses)))], data)


def _resampling(
    settings: Settings, program: AnyProgram, before: int
) -> tuple[Sequence[int], Callable[[int, State], State] | None]:
    """The steps of a stage after which collocation points are drawn again, and how.

    `before` is the number of steps in earlier stages.
    """
    s = settings
    if not isinstance(s.objective, Solve) or not s.objective.resampled:
        return (), None
    problem, objective = cast(PDE, s.problem), s.objective
    assert problem.resample is not None

    def update(step: int, state: State) -> State:
        def residual_at(points: np.ndarray) -> np.ndarray:
            assert not isinstance(program, LeastSquares)  # which takes no such objective
            return np.asarray(program.residuals(state, jnp.asarray(points, s.dtype)))

        return state._replace(
            rba=resampled(problem, objective, before + step, state.rba, residual_at)
        )

    return range(problem.resample.every, s.steps, problem.resample.every), update


def _add_coefficients(
    settings: Settings, results: Sequence[Result], theta: Float[np.ndarray, "P steps n"]
) -> None:
    """Add the coefficients after training, and after each step of the curve."""
    objective = cast(Solve, settings.objective)
    for result, mine in zip(results, theta, strict=True):
        values = {name: np.asarray(c) for name, c in objective.values_of(mine).items()}
        result.coefficients = {name: float(c[-1]) for name, c in values.items()}
        result.curve_coefficients = {n: c[result.curve_steps - 1] for n, c in values.items()}


def _refined(
    settings: Settings,
    program: AnyProgram,
    state: State,
    data: dict,
    stage: int,
    extras: dict[int, dict[str, Any]],
) -> tuple[AnyProgram, State]:
    """The training of one model continued on a finer grid, with domains that contain its inputs.

    `extras` records the share of inputs that were outside.
    """
    s, x = settings, data[settings.objective.arrays[0]]
    before, after = (s.architecture.grid or 1, *s.finer_grids)[stage - 1 : stage + 1]
    # Domains depend on the model, so that two models may not share a program from here on.
    [row], [extra] = np.asarray(program.evaluated(state)), extras.values()
    model = program.model(row)
    network = network_of(model).freeze(x)
    extra.setdefault("outside", []).append(network.outside(x))
    [layers] = finer([network], x, before, after)
    fine = with_network(model, KAN.from_layers(layers))
    program = build_program(fine, s.objective, s.optimizer, s.backend)
    return program, program.start([fine], data, state)


def build_program(
    model: KAN, objective: Objective, optimizer: Optimizer | Transformation, backend: str
) -> AnyProgram:
    """What advances models like this one: a compiled program, or a least-squares method."""
    settings = optimizer.least_squares
    if settings is not None:
        if isinstance(objective, Solve) and not objective.plain:
            return ResidualLeastSquares.of(model, objective, settings, backend)
        return LeastSquares.of(model, objective, settings, backend)
    return Program.of(model, objective, optimizer, backend)


def chunks(
    program: AnyProgram,
    state: State,
    data: dict,
    steps: int,
    stops: Sequence[int],
    updates: Sequence[int] = (),
    update: Callable[[int, State], State] | None = None,
) -> Iterator[tuple[int, State, Float[np.ndarray, "chunk P"]]]:
    """Yield (steps done, state, losses of the chunk) at all stops and about twice per second.

    The chunks do not affect the result: their length is an argument of one compiled loop. After
    the steps in `updates` the state is replaced by `update(step, state)`.
    """
    done, length = 0, program.first_chunk
    if 0 in stops:
        yield 0, state, np.empty((0, state.models))
    for stop in sorted({*stops, *updates, steps} - {0}):
        while done < stop:
            n = min(length, stop - done)
            began = time.perf_counter()
            state, losses = program.advance(state, data, n)
            losses = np.asarray(losses)  # blocks until the device is done
            elapsed = time.perf_counter() - began
            done += n
            if update is not None and done in updates:
                state = update(done, state)
            if n == length:
                faster = min(4.0, max(0.25, _CHUNK_SECONDS / elapsed))
                length = min(LONGEST, max(1, int(length * faster)))
            yield done, state, losses


def _checkpoint(
    program: AnyProgram,
    state: State,
    members: Mapping[int, Member],
    extras: dict[int, dict[str, Any]],
) -> list[Checkpoint]:
    models = _models(program, state)
    rba = {kind: np.asarray(alpha) for kind, alpha in state.rba.items()}
    return [
        Checkpoint(i, member, models[p], {kind: a[p] for kind, a in rba.items()}, extras[i])
        for p, (i, member) in enumerate(members.items())
    ]


def _models(program: AnyProgram, state: State) -> list[KAN]:
    return [network_of(program.model(row)) for row in np.asarray(program.evaluated(state))]


def _divergence(
    losses: Float[np.ndarray, " steps"], weights: Float[np.ndarray, " n"]
) -> int | None:
    """The first step with a loss that is not finite, or the last step if its update is not."""
    bad = np.flatnonzero(~np.isfinite(losses))
    if len(bad):
        return int(bad[0]) + 1
    return None if np.isfinite(weights).all() else len(losses)


def _backend(model: KAN, objective: Objective) -> str:
    """What computed a trained model: the slowest backend that had a part in it."""
    used = {kernels.check_backend(layer.backend, layer.basis) for layer in model.layers}
    if isinstance(objective, Solve):
        orders = [len(index) for group in objective.groups for index in group.reads]
        if max(orders, default=0) > 2:
            used.add("dense")  # see `KAN.derivatives`
    return min(used, key=kernels.BACKENDS.index)


def _results(
    settings: Settings,
    program: AnyProgram,
    state: State,
    losses: Float[np.ndarray, "steps P"],
) -> list[Result]:
    stored = curve_steps(settings.total_steps, settings.curve)
    results = []
    weights = np.asarray(program.evaluated(state))
    for p, model in enumerate(_models(program, state)):
        diverged_at = _divergence(losses[:, p], weights[p])
        ok = diverged_at is None
        errors = evaluate(model, settings.problem, settings.data) if ok else Errors()
        results.append(
            Result(
                status="ok" if ok else "diverged",
                diverged_at=diverged_at,
                loss=float(losses[-1, p]) if ok else math.nan,
                **errors._asdict(),
                curve_steps=stored,
                curve_loss=losses[stored - 1, p],
                backend=_backend(model, settings.objective),
                model=model if settings.keep_weights else None,
            )
        )
    return results
