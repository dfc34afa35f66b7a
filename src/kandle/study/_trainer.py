"""From runs to a training and back: the runner that studies use."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import kandle
from kandle import bases, problems
from kandle.store import Curve, Outcome, RunSpec, Spectrum
from kandle.study._catalogue import build_scheme
from kandle.study._environment import machine
from kandle.study._registry import get_draws
from kandle.study._study import OptimizerChoice, residual_function
from kandle.train import Architecture, Checkpoint, Member, Result, train


def train_batch(specs: Sequence[RunSpec]) -> list[Outcome]:
    """Train runs that differ only in their initialization together; outcomes in their order."""
    spec = specs[0]
    problem = problems.get(spec.problem)
    if spec.reference:
        problem = problem.with_reference(spec.reference)
    draws = get_draws(spec.draws)
    problem, sampler = (problem, None) if draws is None else draws(problem)
    checkpoints = json.loads(spec.checkpoints) if spec.checkpoints else []
    results = train(
        problem,
        _architecture(spec),
        [Member(build_scheme(spec), spec.seed) for spec in specs],
        steps=spec.steps,
        grids=_grids(spec),
        optimizer=_optimizer(spec),
        dtype=spec.dtype,
        rba=spec.rba or "off",  # type: ignore[arg-type]
        sampler=sampler,
        curve=spec.curve,
        checkpoints=checkpoints,
        on_checkpoint=_recorder(problem) if checkpoints else None,
        progress=_hide_progress,
    )
    return [_outcome(result) for result in results]


def _architecture(spec: RunSpec) -> Architecture:
    domain = tuple(json.loads(spec.domain))
    splines = {"grid": spec.G, "degree": spec.degree, "domain": domain}
    return Architecture(
        width=spec.width,
        depth=spec.depth,
        residual=residual_function(spec.residual),
        bias=spec.bias,
        **{"basis": bases.from_dict(json.loads(spec.basis))} if spec.basis else splines,  # type: ignore[arg-type]
    )


def _grids(spec: RunSpec) -> list[int] | None:
    if not spec.refinements:
        return None
    return [spec.G, *(factor * spec.G for factor in json.loads(spec.refinements))]


def _optimizer(spec: RunSpec) -> Any:
    return OptimizerChoice(
        spec.optimizer, spec.learning_rate, spec.schedule, spec.optimizer_arguments
    ).build()


def _recorder(problem: Any) -> Callable[[int, list[Checkpoint]], None]:
    """A hook that computes the spectra of the tangent kernel at each checkpoint."""
    from kandle import ntk

    def record(step: int, models: list[Checkpoint]) -> None:
        for checkpoint in models:
            blocks = ntk.spectra(problem, checkpoint.model, checkpoint.rba)
            checkpoint.extra.setdefault("spectra", []).extend(
                Spectrum(block, step, np.asarray(found.eigenvalues), _share(found.error_share))
                for block, found in blocks.items()
            )

    return record


def _share(share: Sequence[float] | None) -> np.ndarray | None:
    return None if share is None else np.asarray(share, np.float32)


def _outcome(result: Result) -> Outcome:
    return Outcome(
        status=result.status,
        diverged_at=result.diverged_at,
        loss=result.loss,
        l2=result.l2,
        l2_robust=result.l2_robust,
        test_mse=result.test_mse,
        wall_s=result.wall_s,
        machine=machine(),
        backend=result.backend,
        version=kandle.__version__,
        curve=Curve(result.curve_steps, result.curve_loss),
        spectra=tuple(result.extra.get("spectra", ())),
    )


def _hide_progress(done: int, total: int, losses: object) -> None:
    """The display of the study shows the progress."""
