"""From runs to a training and back: the runner that studies use."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import kandle
from kandle import init, kernels, problems
from kandle.store import Curve, Outcome, Spectrum
from kandle.study._environment import machine
from kandle.study._spec import RunSpec
from kandle.study._study import OptimizerChoice, residual_function
from kandle.train import Architecture, Checkpoint, Member, Result, train


def train_batch(specs: Sequence[RunSpec]) -> list[Outcome]:
    """Train runs that differ in their start alone, together; an outcome each, in order."""
    spec = specs[0]
    problem = problems.get(spec.problem)
    if spec.reference:
        problem = problem.with_reference(spec.reference)
    if spec.draws == "published":
        problem = problems.published(problem)
    checkpoints = json.loads(spec.checkpoints) if spec.checkpoints else []
    results = train(
        problem,
        Architecture(
            width=spec.width,
            depth=spec.depth,
            grid=spec.G,
            degree=spec.degree,
            domain=tuple(json.loads(spec.domain)),
            residual=residual_function(spec.residual),
            bias=spec.bias,
        ),
        [Member(_scheme(spec), spec.seed) for spec in specs],
        steps=spec.steps,
        optimizer=_optimizer(spec),
        dtype=spec.dtype,
        rba=spec.rba or "off",  # type: ignore[arg-type]
        draws=spec.draws,
        curve=spec.curve,
        checkpoints=checkpoints,
        on_checkpoint=_recorder(problem) if checkpoints else None,
        progress=_unseen,
    )
    return [_outcome(result) for result in results]


def _scheme(spec: RunSpec) -> init.Scheme:
    return init.from_dict({"name": spec.scheme, **spec.scheme_settings})


def _optimizer(spec: RunSpec) -> Any:
    return OptimizerChoice(
        spec.optimizer, spec.learning_rate, spec.schedule, spec.optimizer_arguments
    ).made()


def _recorder(problem: Any) -> Callable[[int, list[Checkpoint]], None]:
    """A hook that takes the spectra of the tangent kernel at each checkpoint."""
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
        backend=kernels.default_backend(),
        version=kandle.__version__,
        curve=Curve(result.curve_steps, result.curve_loss),
        spectra=tuple(result.extra.get("spectra", ())),
    )


def _unseen(done: int, total: int, losses: Any) -> None:
    """The study's own display tells the progress."""
