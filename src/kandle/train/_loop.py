"""`train`: train many models of one architecture on one problem."""

import contextlib
import importlib
import itertools
import numbers
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import jax
import numpy as np

from kandle import kernels, problems
from kandle._compat import enable_x64
from kandle._errors import UserError, must, unknown
from kandle.init import Sampler, Scheme
from kandle.init import get as get_scheme
from kandle.init._draw import resolve_sampler
from kandle.nn import KAN
from kandle.problems import Problem
from kandle.train._architecture import Architecture
from kandle.train._batch import OnCheckpoint, Settings, train_batch
from kandle.train._objective import objective
from kandle.train._optimizer import AnyOptimizer, Optimizer, as_optimizer
from kandle.train._progress import Bar, Progress, watched
from kandle.train._rba import VARIANTS, Variant
from kandle.train._recipe import Recipe
from kandle.train._recipe import recipe as recipe_of
from kandle.train._result import Member, Result

DTYPES = ("float32", "float64")
CURVES = ("log", "all")


def train(
    problem: Problem | str,
    architecture: Architecture,
    members: Iterable[Member | tuple[str | Scheme, int]],
    *,
    recipe: str | None = None,
    steps: int | None = None,
    grids: Sequence[int] | None = None,
    optimizer: AnyOptimizer | None = None,
    dtype: str | None = None,
    initial: Sequence[KAN] | None = None,
    rba: Variant | None = None,
    sampler: Sampler | None = None,
    draws: str | None = None,
    curve: str = "log",
    keep_weights: bool = False,
    checkpoints: Sequence[int] = (),
    on_checkpoint: OnCheckpoint | None = None,
    progress: Progress | None = None,
    backend: str | None = None,
) -> list[Result]:
    """Train models of one architecture on one problem together, on the full batch of data.

    The result of a model does not depend on the others: on the native backend with an elementwise
    optimizer it is identical to the bit in any batch, and equal to rounding otherwise.

    Args:
        problem: a problem of `kandle.problems`, or its name.
        architecture: the shape of the models.
        members: the initialization of each model, as `Member(scheme, seed)` or such a pair.
        recipe: "accurate", "paper" or "fast", see `kandle.train.recipe`: the optimizer, and the
            defaults of `steps`, `grids` and `dtype`.
        steps: number of updates; None selects the default of the recipe or of the problem.
        grids: train on these grids one after the other, `steps` updates on each, beginning with
            the grid of the architecture. In between, the domain of each layer is widened to
            contain its inputs (`KAN.widen`) and its grid refined by the same factor
            (`KAN.refine`), which leaves the function unchanged. The damping of least squares and
            attention weights carry over; the moments of Adam are reset. Models train one by one.
            `Result.extra["outside"]` has the share of each layer's inputs outside its domain,
            per refinement.
        optimizer: an `Optimizer`, its name, its fields as a mapping, or any
            `optax.GradientTransformation`; None is Adam with a rate of 1e-3.
        dtype: "float32" (the default) or "float64"; the precision applies to this training only.
        initial: networks that the training begins with, one per member, instead of those that the
            schemes draw: for continuation, such as from a smoother PDE to a harder one. They have
            the widths of the architecture, on any grids.
        rba: residual-based attention for the points of a PDE: "published", "text" or "off".
            None is "off" for least squares and "published" otherwise.
        sampler: source of the random numbers of the initial weights; None is `jax.random`.
        draws: deprecated; "published" stands for the problem and sampler of
            `kandle.paper.published_draws`.
        curve: record the loss of about 200 log-spaced steps ("log") or of every step ("all").
        keep_weights: whether results contain the trained models.
        checkpoints: numbers of updates after which `on_checkpoint` is called.
        on_checkpoint: called with that number and one `Checkpoint` per model. Models that
            standardize their basis form a batch of their own, with calls of their own.
        progress: called with (steps done, total steps, losses); None shows a bar on a terminal if
            the training is long.
        backend: backend of the kernels; None selects the default.

    Returns:
        One result per member, in order.

    Example:
        >>> small = Architecture(width=8, depth=2, grid=5)
        >>> [result] = train("f1", small, [("glorot", 0)], steps=100)
        >>> result.status
        'ok'
    """
    chosen = _check_recipe(recipe, optimizer)
    problem = cast(Problem, problems.get(problem))
    if draws == "published":
        problem = cast(Problem, importlib.import_module("kandle.paper").published(problem))
    steps = _check_steps(chosen.steps_for(problem) if steps is None else steps)
    optimizer = as_optimizer(chosen.optimizer_for(steps) if optimizer is None else optimizer)
    dtype = chosen.dtype if dtype is None else dtype
    least_squares = optimizer.least_squares
    if rba is None:
        rba = "published" if least_squares is None else "off"
    balance = 1.0 if least_squares is None else least_squares.balance
    _check_names(dtype, rba, curve)
    sampler = resolve_sampler(sampler, draws, "train")
    members = _check_members(members)
    if not isinstance(architecture, Architecture):
        raise must("'architecture' of train", "an Architecture", architecture)
    initial = _check_initial(initial, len(members), architecture, problem)
    grids = chosen.grids(architecture.grid) if grids is None else grids
    finer_grids = _check_grids(grids, architecture)
    total = steps * (1 + len(finer_grids))
    checkpoints = _check_checkpoints(checkpoints, total, on_checkpoint)
    if not isinstance(optimizer, Optimizer) or optimizer.arguments:
        optimizer.try_out()
    if progress is not None and not callable(progress):
        raise must("'progress' of train", "a function, or None", progress)
    problem.evaluation()  # an error in the reference should surface before the training

    # Layers that standardize their basis need another program, and therefore another batch. So does
    # every model whose grids are refined, because its domains depend on its own inputs.
    groups: dict[tuple[bool, int], dict[int, Member]] = {}
    for i, member in enumerate(members):
        key = get_scheme(member.scheme).normalized, i if finer_grids else 0
        groups.setdefault(key, {})[i] = member

    results: dict[int, Result] = {}
    # The caller's precision has no effect on the training and is restored afterwards.
    with enable_x64(dtype == "float64"), _reporting(progress) as report:
        settings = Settings(
            problem=problem,
            architecture=architecture,
            objective=objective(problem, rba, balance),
            optimizer=optimizer,
            steps=steps,
            finer_grids=finer_grids,
            sampler=sampler,
            dtype=dtype,
            backend=kernels.check_backend(backend, architecture.edge_basis),
            curve=curve,
            keep_weights=keep_weights,
            checkpoints=checkpoints,
            on_checkpoint=on_checkpoint,
            data=problem.arrays(dtype),
            initial=initial,
        )
        for g, group in enumerate(groups.values()):

            def report_group(done: int, losses: np.ndarray, before: int = g * total) -> None:
                report(before + done, len(groups) * total, losses)

            results |= train_batch(settings, group, report_group)
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


def _check_recipe(name: str | None, optimizer: AnyOptimizer | None) -> Recipe:
    if name is None:
        return Recipe()
    if optimizer is not None:
        raise UserError("'recipe' and 'optimizer' of train exclude each other: give one of them.")
    return recipe_of(name)


def _check_initial(
    initial: Sequence[KAN] | None, n: int, architecture: Architecture, problem: Problem
) -> tuple[KAN, ...]:
    if initial is None:
        return ()
    requirement = f"{n} networks, one per member"
    if not isinstance(initial, Sequence) or len(initial) != n:
        raise must("'initial' of train", requirement, initial)
    if not all(isinstance(model, KAN) for model in initial):
        raise must("'initial' of train", requirement, [type(m).__name__ for m in initial])
    widths = architecture.widths(problem.n_in, problem.n_out)
    for model in initial:
        if tuple(model.widths) != widths:
            requirement = f"of the widths {widths} that architecture and problem have"
            raise must("Each network in 'initial' of train", requirement, tuple(model.widths))
    if len({jax.tree.structure(model) for model in initial}) > 1:
        raise UserError("All networks in 'initial' of train must be frozen, or none.")
    return tuple(initial)


def _check_grids(grids: Sequence[int] | None, architecture: Architecture) -> tuple[int, ...]:
    """The grids after the first."""
    if grids is None:
        return ()
    requirement = f"increasing integers that begin with the architecture's {architecture.grid}"
    if isinstance(grids, str) or not isinstance(grids, Iterable):
        raise must("'grids' of train", requirement, grids)
    given = tuple(grids)
    whole = all(isinstance(g, numbers.Integral) and not isinstance(g, bool) for g in given)
    ordered = whole and all(a < b for a, b in itertools.pairwise(given))
    if not given or not ordered or given[0] != architecture.grid:
        raise must("'grids' of train", requirement, grids)
    return tuple(int(g) for g in given[1:])


def _check_steps(steps: Any) -> int:
    if isinstance(steps, bool) or not isinstance(steps, numbers.Integral) or steps < 1:
        raise must("'steps' of train", "an integer of at least 1", steps)
    return int(steps)


def _check_names(dtype: Any, rba: Any, curve: Any) -> None:
    for name, given, known in (
        ("dtype of train", dtype, DTYPES),
        ("rba of train", rba, VARIANTS),
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
