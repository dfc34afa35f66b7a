"""Measure what runs cost on this machine, by training a few of them for a few seconds."""

import dataclasses
from collections.abc import Sequence

from kandle.store import RunSpec
from kandle.study._batch import Batch
from kandle.study._catalogue import facts, is_normalized
from kandle.study._cost import DEFAULT, CostModel, work
from kandle.study._execute import TRAINER
from kandle.study._executor import Done, Executor, Lost, StudyError
from kandle.study._local import LocalExecutor

_SECONDS = 1.0  # per measurement, as the default model estimates it
_MEMBERS = 4


def calibrate(specs: Sequence[RunSpec], *, runner: str = TRAINER) -> CostModel:
    """The cost model with its overhead and rates as measured on one core of this machine.

    For each kind of problem in `specs`, a narrow and a wide architecture are trained for two
    lengths; the difference is the cost of the steps without compilation, and the two architectures
    separate overhead from work. Layers that standardize their basis, spectra and double precision
    keep the ratios of the default model. Where noise makes the wide architecture seem no slower
    than the narrow one, the default's split of overhead and work is scaled to the wide one.
    """
    model = DEFAULT
    with LocalExecutor(1, runner=runner) as executor:
        for kind in ("function", "pde"):
            alike = [spec for spec in specs if facts(spec.problem).kind == kind]
            if alike:
                narrow, wide = _extremes(alike)
                model = _fitted(model, kind, executor, narrow, wide)
    return model


def _extremes(specs: Sequence[RunSpec]) -> tuple[RunSpec, RunSpec]:
    """The architectures near the first and last decile of cost: the largest takes too long."""
    plain = [spec for spec in specs if not is_normalized(spec)] or list(specs)
    ordered = sorted({work(spec): spec for spec in plain}.items())
    return ordered[len(ordered) // 10][1], ordered[len(ordered) * 9 // 10][1]


def _fitted(
    model: CostModel, kind: str, executor: Executor, narrow: RunSpec, wide: RunSpec
) -> CostModel:
    least, most = _measured(executor, narrow), _measured(executor, wide)
    more = work(wide) - work(narrow)
    rate = (most - least) / more if more else 0.0
    overhead = least - rate * work(narrow)
    if rate <= 0 or overhead < 0:
        slower = most / DEFAULT.step(wide)
        rate, overhead = slower * DEFAULT.rate(wide), slower * DEFAULT.overhead
    slower = rate / DEFAULT.rate(wide)
    changed = {kind: slower * getattr(DEFAULT, kind), "normalized": slower * DEFAULT.normalized}
    # The larger overhead of two kinds of problem counts: better to overstate hours than understate.
    known = model.overhead if model is not DEFAULT else 0.0
    return dataclasses.replace(model, overhead=max(overhead, known), **changed)


def _measured(executor: Executor, spec: RunSpec) -> float:
    """Seconds per step and model."""
    short = max(10, min(1000, round(_SECONDS / DEFAULT.step(spec) / _MEMBERS)))
    # The first training of each length compiles; the second is the one that counts.
    seconds = [
        min(_seconds(executor, spec, steps) for _ in range(2)) for steps in (short, 3 * short)
    ]
    return max(seconds[1] - seconds[0], 1e-9) / (2 * short * _MEMBERS)


def _seconds(executor: Executor, spec: RunSpec, steps: int) -> float:
    members = tuple(
        spec.replace(seed=seed, steps=steps, refinements="", checkpoints="", curve="log")
        for seed in range(_MEMBERS)
    )
    executor.submit(Batch(members, 0.0))
    while not (reports := executor.wait(1.0)):
        pass
    match reports[0]:
        case Done(seconds=seconds):
            return seconds
        case Lost(reason=reason):
            raise StudyError(f"The measurement failed: {reason}.")
