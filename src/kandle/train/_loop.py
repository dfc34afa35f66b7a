"""`train`: many models of one architecture on one problem."""

import contextlib
import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from kandle import kernels, problems
from kandle._errors import must, unknown
from kandle.init import DRAWS, Scheme
from kandle.init import get as get_scheme
from kandle.train._architecture import Architecture
from kandle.train._batch import OnCheckpoint, Settings, train_batch
from kandle.train._objective import objective
from kandle.train._optimizer import Optimizer, as_optimizer
from kandle.train._progress import Bar, Progress, watched
from kandle.train._rba import VARIANTS, Variant
from kandle.train._result import Member, Result

DTYPES = ("float32", "float64")
CURVES = ("log", "all")


def train(
    problem: Any,
    architecture: Architecture,
    members: Iterable[Member | tuple[str | Scheme, int]],
    *,
    steps: int | None = None,
    optimizer: Optimizer | str | Mapping[str, Any] = Optimizer(),  # noqa: B008 (frozen)
    dtype: str = "float32",
    rba: Variant = "published",
    draws: str = "independent",
    curve: str = "log",
    keep_weights: bool = False,
    checkpoints: Sequence[int] = (),
    on_checkpoint: OnCheckpoint | None = None,
    progress: Progress | None = None,
    backend: str | None = None,
) -> list[Result]:
    """Train models of one architecture on one problem together, full batch.

    A model's numbers do not depend on the others: on the native backend with an elementwise
    optimizer they are the same to the bit in any batch, elsewhere to rounding.

    Args:
        problem: of `kandle.problems`, or its name.
        architecture: the models' shape.
        members: how each model starts, `Member(scheme, seed)` or such a pair.
        steps: number of updates; None is the problem's own.
        optimizer: how weights are updated; an `Optimizer`, its name or its fields.
        dtype: "float32" or "float64"; double precision is on for the training alone.
        rba: residual-based attention of a PDE's points, "published", "text" or "off".
        draws: "independent", or "published": starts as for `kandle.KAN`, and the points of
            `kandle.problems.published`. Seeds 43 to 47 are the published runs 1 to 5 then.
        curve: keep the loss of about 200 log-spaced steps ("log") or of every one ("all").
        keep_weights: whether results hold the trained models.
        checkpoints: numbers of updates after which `on_checkpoint` is called.
        on_checkpoint: called with that number and a `Checkpoint` a model; models that standardise
            their basis are a batch, and a call, of their own.
        progress: called with (steps done, of how many, losses); None shows a bar if the training
            is long and a person watches.
        backend: of the kernels; None is the best here.

    Returns:
        A result a member, in their order.

    Example:
        >>> small = Architecture(width=8, depth=2, grid=5)
        >>> [result] = train("f1", small, [("glorot", 0)], steps=100)
        >>> result.status
        'ok'
    """
    _check_names(dtype, rba, draws, curve)
    problem = problems.get(problem)
    if draws == "published":
        problem = problems.published(problem)
    members = _check_members(members)
    steps = _check_steps(problem.default_steps if steps is None else steps)
    checkpoints = _check_checkpoints(checkpoints, steps, on_checkpoint)
    if not isinstance(architecture, Architecture):
        raise must("'architecture' of train", "an Architecture", architecture)
    optimizer = as_optimizer(optimizer)
    if optimizer.arguments:
        optimizer.try_out()
    if progress is not None and not callable(progress):
        raise must("'progress' of train", "a function, or None", progress)
    problem.evaluation()  # an error in the reference is to be known before the training

    # A layer that standardises its basis is another program, hence another batch.
    groups: dict[bool, dict[int, Member]] = {}
    for i, member in enumerate(members):
        groups.setdefault(get_scheme(member.scheme).normalized, {})[i] = member

    results: dict[int, Result] = {}
    # A training neither depends on the caller's precision nor changes it.
    with jax.enable_x64(dtype == "float64"), _reporting(progress) as report:
        settings = Settings(
            problem=problem,
            architecture=architecture,
            objective=objective(problem, rba),
            optimizer=optimizer,
            steps=steps,
            draws=draws,
            dtype=dtype,
            backend=kernels.check_backend(backend),
            curve=curve,
            keep_weights=keep_weights,
            checkpoints=checkpoints,
            on_checkpoint=on_checkpoint,
            data=problem.arrays(dtype),
        )
        for g, group in enumerate(groups.values()):

            def told(done: int, losses: np.ndarray, before: int = g * steps) -> None:
                report(before + done, len(groups) * steps, losses)

            results |= train_batch(settings, group, told)
    return [results[i] for i in range(len(members))]


@contextlib.contextmanager
def _reporting(progress: Progress | None) -> Iterator[Progress]:
    if progress is not None:
        yield progress
    elif watched():
        with contextlib.closing(Bar()) as bar:
            yield bar
    else:
        yield lambda done, total, losses: None


def _check_members(members: Any) -> list[Member]:
    requirement = "a sequence of Member(scheme, seed), or of such pairs"
    if isinstance(members, str | Member) or not isinstance(members, Iterable):
        raise must("'members' of train", requirement, members)
    given = list(members)
    pairs = [m for m in given if not isinstance(m, Member)]
    if any(isinstance(m, str) or not isinstance(m, Sequence) or len(m) != 2 for m in pairs):
        raise must("'members' of train", requirement, given)
    return [m if isinstance(m, Member) else Member(*m) for m in given]


def _check_steps(steps: Any) -> int:
    if isinstance(steps, bool) or not isinstance(steps, numbers.Integral) or steps < 1:
        raise must("'steps' of train", "an integer of at least 1", steps)
    return int(steps)


def _check_names(dtype: Any, rba: Any, draws: Any, curve: Any) -> None:
    for name, given, known in (
        ("dtype of train", dtype, DTYPES),
        ("rba of train", rba, VARIANTS),
        ("draws of train", draws, DRAWS),
        ("curve of train", curve, CURVES),
    ):
        if given not in known:
            raise unknown(name, given, known)


def _check_checkpoints(
    checkpoints: Sequence[int], steps: int, on_checkpoint: OnCheckpoint | None
) -> tuple[int, ...]:
    if isinstance(checkpoints, str) or not isinstance(checkpoints, Iterable):
        raise must("'checkpoints' of train", f"integers from 0 to steps = {steps}", checkpoints)
    given = tuple(checkpoints)
    whole = all(isinstance(c, numbers.Integral) and not isinstance(c, bool) for c in given)
    if not whole or any(not 0 <= c <= steps for c in given):
        raise must("'checkpoints' of train", f"integers from 0 to steps = {steps}", given)
    if given and on_checkpoint is None:
        raise must("'on_checkpoint' of train", "given where there are checkpoints", None)
    return given
