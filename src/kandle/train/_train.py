"""`train`: train many models of one architecture on one problem."""

import contextlib
import functools
import itertools
import math
import numbers
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kandle import kernels, problems
from kandle._compat import enable_x64
from kandle._errors import UserError, must, unknown
from kandle.init import Sampler, Scheme
from kandle.init import get as get_scheme
from kandle.init._draw import resolve_sampler
from kandle.kernels import Route
from kandle.nn import KAN
from kandle.problems import PDE, Problem
from kandle.train._architecture import Architecture
from kandle.train._evaluation import Errors, evaluate
from kandle.train._first_order import FirstOrder
from kandle.train._least_squares import LeastSquares
from kandle.train._objective import Fit, Objective
from kandle.train._optimizer import AnyOptimizer, Optimizer, Transformation, as_optimizer
from kandle.train._progress import Bar, Progress, watched
from kandle.train._rba import VARIANTS, Variant
from kandle.train._recipe import Recipe
from kandle.train._recipe import recipe as recipe_of
from kandle.train._result import Checkpoint, Member, Result, curve_steps
from kandle.train._solve import Resampled, Solve
from kandle.train._training import Feed, Method, Population, Whole, run, shared

DTYPES = ("float32", "float64")
CURVES = ("log", "all")

OnCheckpoint = Callable[[int, list[Checkpoint]], None]


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
    steps = _check_steps(chosen.steps_for(problem) if steps is None else steps)
    optimizer = as_optimizer(chosen.optimizer_for(steps) if optimizer is None else optimizer)
    dtype = chosen.dtype if dtype is None else dtype
    _check_names(dtype, "off" if rba is None else rba, curve)
    sampler = resolve_sampler(sampler, "train")
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
            objective=objective_for(problem, optimizer, rba),
            optimizer=optimizer,
            steps=steps,
            grids=(architecture.grid or 1, *finer_grids),
            sampler=sampler,
            dtype=dtype,
            backend=kernels.check_backend(backend, architecture.edge_basis),
            curve=curve,
            keep_weights=keep_weights,
            checkpoints=checkpoints,
            on_checkpoint=on_checkpoint,
            arrays=problem.arrays(dtype),
            initial=initial,
        )
        for g, group in enumerate(groups.values()):

            def report_group(done: int, losses: np.ndarray, before: int = g * total) -> None:
                report(before + done, len(groups) * total, losses)

            results |= _train_together(settings, group, report_group)
    return [results[i] for i in range(len(members))]


def objective(problem: Problem, rba: Variant, balance: float = 1.0) -> Fit | Solve:
    """The objective of a problem; only PDEs use `rba` and `balance`."""
    if problem.kind == "function":
        return Fit()
    return Solve.of(problem, rba, balance)


def objective_for(
    problem: Problem, optimizer: Optimizer | Transformation, rba: Variant | None = None
) -> Fit | Solve:
    """The objective of a problem as `train` gives it to an optimizer, see its argument `rba`."""
    settings = optimizer.least_squares
    if settings is None:
        return objective(problem, "published" if rba is None else rba)
    return objective(problem, "off" if rba is None else rba, settings.balance)


def method_of(
    optimizer: Optimizer | Transformation, objective: Objective, backend: str
) -> Callable[[Any], Method]:
    """From a model to the method that advances models like it, as a `Population` takes it."""
    settings = optimizer.least_squares
    if settings is None:
        return functools.partial(
            FirstOrder.of, objective=objective, optimizer=optimizer, backend=backend
        )
    return functools.partial(
        LeastSquares.of, objective=objective, settings=settings, backend=backend
    )


# ---- one group of members ------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """The settings that all groups of a training share."""

    problem: Problem
    architecture: Architecture
    objective: Fit | Solve
    optimizer: Optimizer | Transformation
    steps: int
    grids: Sequence[int]
    sampler: Sampler
    dtype: str
    backend: str
    curve: str
    keep_weights: bool
    checkpoints: Sequence[int]
    on_checkpoint: OnCheckpoint | None
    arrays: Mapping[str, np.ndarray]
    initial: Sequence[KAN]  # one per member, or none: the schemes draw the networks


def _train_together(
    settings: Settings,
    members: Mapping[int, Member],
    report: Callable[[int, Float[np.ndarray, " P"]], None],
) -> dict[int, Result]:
    """Train members that share a program: all are normalized or none is; one, if grids change.

    Keys are the positions of the members in the call of `train`.
    """
    started = time.perf_counter()
    s, goal = settings, settings.objective
    extras: dict[int, dict[str, Any]] = {i: {} for i in members}

    # ---- the models, and what they train on
    networks = [_initialized(s, *item) for item in members.items()]
    data = shared({name: s.arrays[name] for name in goal.arrays})
    population = Population(
        [goal.model_of(network) for network in networks],
        data,
        goal,
        method_of(s.optimizer, goal, s.backend),
    )
    feed: Feed = Whole(data, goal.arrays[0])
    if isinstance(s.problem, PDE) and s.problem.resample is not None:
        feed = Resampled(s.problem, cast(Solve, goal), data)

    # ---- the training, watched
    def progress(done: int, populations: Sequence[Population]) -> None:
        report(done, population.curves[-1].loss[-1])

    def on_checkpoint(step: int, populations: Sequence[Population]) -> None:
        assert s.on_checkpoint is not None
        s.on_checkpoint(step, _checkpoints(population, members, extras))

    run(
        [population],
        feed,
        s.steps,
        grids=s.grids,
        progress=progress,
        checkpoints=s.checkpoints,
        on_checkpoint=on_checkpoint,
    )

    # ---- the results
    results = _results(s, population)
    for p, (result, extra) in enumerate(zip(results, extras.values(), strict=True)):
        if population.outside:
            extra["outside"] = [shares[p] for shares in population.outside]
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
        s.problem.n_in,
        s.problem.n_out,
        get_scheme(member.scheme),
        member.seed,
        sampler=s.sampler,
        dtype=s.dtype,
        backend=s.backend,
        sample=s.arrays[s.objective.arrays[0]],
    )


def _checkpoints(
    population: Population, members: Mapping[int, Member], extras: dict[int, dict[str, Any]]
) -> list[Checkpoint]:
    networks = population.networks()
    attention = {kind: np.asarray(alpha) for kind, alpha in population.state.aux.items()}
    checkpoints = []
    for p, (i, member) in enumerate(members.items()):
        rba = {kind: alpha[p] for kind, alpha in attention.items()}
        checkpoints.append(Checkpoint(i, member, networks[p], rba, extras[i]))
    return checkpoints


def _results(settings: Settings, population: Population) -> list[Result]:
    s = settings
    losses = np.concatenate([part.loss for part in population.curves])  # (steps, P)
    unknowns = np.concatenate([part.unknowns for part in population.curves])  # (steps, P, k)
    stored, route = curve_steps(len(losses), s.curve), population.route()
    results = []
    for p, network in enumerate(population.networks()):
        weights_finite = all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(network))
        diverged_at = _divergence(losses[:, p], weights_finite)
        ok = diverged_at is None
        errors = evaluate(network, s.problem, s.arrays) if ok else Errors()
        result = Result(
            status="ok" if ok else "diverged",
            diverged_at=diverged_at,
            loss=float(losses[-1, p]) if ok else math.nan,
            **errors._asdict(),
            curve_steps=stored,
            curve_loss=losses[stored - 1, p],
            backend=_backend(network, route),
            route=route,
            model=network if s.keep_weights else None,
        )
        for name, values in s.objective.values_of(unknowns[:, p]).items():
            curve = np.asarray(values)
            result.coefficients[name] = float(curve[-1])
            result.curve_coefficients[name] = curve[stored - 1]
        results.append(result)
    return results


def _backend(network: KAN, route: Route | None) -> str:
    """What computed a trained network: the slowest backend that had a part in it."""
    used = {kernels.check_backend(layer.backend, layer.basis) for layer in network.layers}
    if route is not None and route.path == "plain":
        used.add("dense")
    return min(used, key=kernels.BACKENDS.index)


def _divergence(losses: Float[np.ndarray, " steps"], weights_finite: bool) -> int | None:
    """The first step with a loss that is not finite, or the last step if its update is not."""
    bad = np.flatnonzero(~np.isfinite(losses))
    if len(bad):
        return int(bad[0]) + 1
    return None if weights_finite else len(losses)


# ---- arguments -----------------------------------------------------------------------------------


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
