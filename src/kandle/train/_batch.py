"""Train one batch: models that share a compiled program, in chunks of steps."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kandle.init import get as get_scheme
from kandle.nn import KAN
from kandle.train._architecture import Architecture
from kandle.train._evaluation import Errors, evaluate
from kandle.train._objective import Objective
from kandle.train._optimizer import Optimizer
from kandle.train._program import LONGEST, Program, State
from kandle.train._result import Checkpoint, Member, Result, curve_steps

# Seconds between two looks at the clock, the bar and the keyboard.
_BREATH = 0.5

OnCheckpoint = Callable[[int, list[Checkpoint]], None]
Report = Callable[[int, np.ndarray], None]  # steps done, losses of the models


@dataclass(frozen=True)
class Settings:
    """What all batches of a training have in common."""

    problem: Any
    architecture: Architecture
    objective: Objective
    optimizer: Optimizer
    steps: int
    draws: str
    dtype: str
    backend: str
    curve: str
    keep_weights: bool
    checkpoints: Sequence[int]
    on_checkpoint: OnCheckpoint | None
    data: Mapping[str, np.ndarray] = field(repr=False)


def train_batch(
    settings: Settings, members: Mapping[int, Member], report: Report
) -> dict[int, Result]:
    """Train members of one program, all normalized or none; keys are their places in the whole."""
    started = time.perf_counter()
    s = settings
    networks = [_started(s, m) for m in members.values()]
    program = Program.of(networks[0], s.objective, s.optimizer, s.backend)
    data = {name: jnp.asarray(s.data[name]) for name in s.objective.arrays}
    initial = program.start(networks, data)

    extras: dict[int, dict[str, Any]] = {i: {} for i in members}
    state, losses = initial, []
    for done, state, part in chunks(program, initial, data, s.steps, s.checkpoints):
        if len(part):
            losses.append(part)
            report(done, part[-1])
        if done in s.checkpoints and s.on_checkpoint is not None:
            s.on_checkpoint(done, _checkpoint(program, state, members, extras))

    results = _results(settings, program, state, np.concatenate(losses))
    for result, extra in zip(results, extras.values(), strict=True):
        result.extra = extra
        result.wall_s = (time.perf_counter() - started) / len(members)
    return dict(zip(members, results, strict=True))


def _started(settings: Settings, member: Member) -> KAN:
    """The network before its first update, adapted to the data where its scheme asks for it."""
    s, scheme = settings, get_scheme(member.scheme)
    network = s.architecture.network(
        *(s.problem.n_in, s.problem.n_out, scheme, member.seed),
        draws=s.draws,
        dtype=s.dtype,
        backend=s.backend,
    )
    if scheme.spread is None:
        return network
    return network.adapt(s.data[s.objective.arrays[0]], scheme.spread)


def chunks(
    program: Program, state: State, data: dict, steps: int, stops: Sequence[int]
) -> Iterator[tuple[int, State, Float[np.ndarray, "chunk P"]]]:
    """(steps done, state, losses since the last time), at all stops and about twice a second.

    How training is cut into chunks does not change it: a chunk's length is an argument of one
    compiled loop.
    """
    done, length = 0, 16
    if 0 in stops:
        yield 0, state, np.empty((0, len(state.weights)))
    for stop in sorted({*stops, steps} - {0}):
        while done < stop:
            n = min(length, stop - done)
            began = time.perf_counter()
            state, losses = program.advance(state, data, n)
            losses = np.asarray(losses)  # waits for the device
            elapsed = time.perf_counter() - began
            done += n
            if n == length:
                faster = min(4.0, max(0.25, _BREATH / elapsed))
                length = min(LONGEST, max(1, int(length * faster)))
            yield done, state, losses


def _checkpoint(
    program: Program,
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


def _models(program: Program, state: State) -> list[KAN]:
    return [program.model(row) for row in np.asarray(state.weights)]


def _divergence(losses: Float[np.ndarray, " steps"], weights: np.ndarray) -> int | None:
    """The first step with a loss that is not finite; the last one, if it ruined the weights."""
    bad = np.flatnonzero(~np.isfinite(losses))
    if len(bad):
        return int(bad[0]) + 1
    return None if np.isfinite(weights).all() else len(losses)


def _results(
    settings: Settings, program: Program, state: State, losses: Float[np.ndarray, "steps P"]
) -> list[Result]:
    kept = curve_steps(settings.steps, settings.curve)
    results = []
    weights = np.asarray(state.weights)
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
                curve_steps=kept,
                curve_loss=losses[kept - 1, p],
                model=model if settings.keep_weights else None,
            )
        )
    return results
