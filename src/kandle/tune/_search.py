"""`tune`: successive halving over exponents on the population trainer."""

import itertools
import numbers
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from kandle import init, kernels, problems
from kandle._errors import must
from kandle.nn import KAN
from kandle.train import Optimizer, Population, objective
from kandle.tune._budget import Budget, parse_budget
from kandle.tune._plan import Plan, plan
from kandle.tune._result import Candidate, Tuned

# The paper's grid, for both exponents.
EXPONENTS = tuple(0.25 * i for i in range(9))

Pair = tuple[float, float]
Progress = Callable[[int, int, float], None]  # model-steps done, of how many, best loss

# Updates to compile with and to measure the speed with, where the budget is a time.
_WARM, _TIMED = 1, 8


def tune(
    problem: Any,
    *,
    layers: Sequence[int] = (8, 8),
    grid: int = 5,
    degree: int = 3,
    steps: int | None = None,
    seeds: int = 3,
    budget: Any = None,
    alphas: Sequence[float] = EXPONENTS,
    betas: Sequence[float] = EXPONENTS,
    optimizer: Optimizer = Optimizer(),  # noqa: B008 (frozen)
    rba: Any = "published",
    progress: Progress | None = None,
    backend: str | None = None,
) -> Tuned:
    """Find (α, β) of the power law for a task by successive halving.

    All pairs train from one seed for a while; a third of them, then a ninth, go on from where they
    are, joined by further seeds, until three have had a whole training from every seed. The one
    with the lowest median loss wins.

    Args:
        problem: of `kandle.problems`, or its name.
        layers: widths of the hidden layers.
        grid, degree: of the splines.
        steps: length of a whole training; None is the problem's own.
        seeds: starts of a pair.
        budget: model-steps (a number), or a time such as "5m"; None is a fifth of what an
            exhaustive search would take.
        alphas, betas: the exponents to choose from.
        optimizer, rba, backend: as for `kandle.train.train`.
        progress: called with (model-steps done, of how many, best loss).
    """
    problem = problems.get(problem)
    steps = _whole("steps", problem.default_steps if steps is None else steps)
    seeds = _whole("seeds", seeds)
    pairs = list(itertools.product(map(float, alphas), map(float, betas)))
    widths = (problem.n_in, *layers, problem.n_out)
    exhaustive = len(pairs) * seeds * steps
    limit = Budget(model_steps=exhaustive / 5) if budget is None else parse_budget(budget)

    backend = kernels.check_backend(backend)
    data, aim = problem.arrays("float32"), objective(problem, rba)

    def population(pairs: Sequence[Pair], seed: int) -> Population:
        models = [
            KAN(
                widths,
                grid=grid,
                degree=degree,
                init=init.PowerLaw(alpha, beta),
                key=jax.random.key(seed),
                backend=backend,
            )
            for alpha, beta in pairs
        ]
        return Population(models, data, aim, optimizer=optimizer, backend=backend)

    first = population(pairs, 0)
    if limit.seconds is None:
        assert limit.model_steps is not None
        made = plan(len(pairs), seeds, steps, limit.model_steps)
    else:
        made = plan(
            len(pairs), seeds, steps, _affordable(first, limit.seconds), at_least=_WARM + _TIMED
        )
    candidates = _halve(pairs, made, first, population, progress)
    return Tuned(candidates, made, exhaustive, widths, grid, degree)


def _halve(
    pairs: list[Pair],
    plan: Plan,
    first: Population,
    population: Callable[[Sequence[Pair], int], Population],
    progress: Progress | None,
) -> tuple[Candidate, ...]:
    alive, candidates, by_seed = list(range(len(pairs))), {}, {0: (first, list(range(len(pairs))))}
    first_losses = np.empty(len(pairs))
    spent = 0
    for r, rung in enumerate(plan.rungs):
        losses = np.empty((rung.seeds, len(alive)))
        for seed in range(rung.seeds):
            if seed not in by_seed:
                by_seed[seed] = population([pairs[i] for i in alive], seed), alive
            trained, among = by_seed[seed]
            if among != alive:
                trained.keep([among.index(i) for i in alive])
                by_seed[seed] = trained, alive
            before, start = trained.steps, spent

            def told(done: int, now: np.ndarray, before=before, start=start) -> None:
                if progress is not None:
                    best = float(np.nanmin(now)) if np.isfinite(now).any() else float("nan")
                    progress(start + (done - before) * len(now), plan.model_steps, best)

            curve = trained.advance(rung.steps - before, told)
            spent += (rung.steps - before) * len(alive)
            losses[seed] = np.where(np.isfinite(curve).all(axis=0), curve[-1], np.inf)
        if r == 0:
            first_losses = losses[0].copy()
        order = np.argsort(np.median(losses, axis=0), kind="stable")
        for p in order:
            i = alive[p]
            candidates[i] = Candidate(
                alpha=pairs[i][0],
                beta=pairs[i][1],
                rung=r,
                steps=rung.steps,
                losses=tuple(losses[:, p].tolist()),
                first_loss=float(first_losses[i]),
            )
        if r + 1 < len(plan.rungs):
            alive = [alive[p] for p in order[: plan.rungs[r + 1].pairs]]
    return tuple(sorted(candidates.values(), key=lambda c: (-c.rung, c.loss)))


def _affordable(first: Population, seconds: float) -> float:
    """Model-steps in so much time, at the speed of the first of them."""
    began = time.perf_counter()
    first.advance(_WARM)
    compiled = time.perf_counter()
    first.advance(_TIMED)
    a_step = (time.perf_counter() - compiled) / (_TIMED * len(first))
    # Smaller batches follow, each compiled once more: a fifth is kept for what they lose.
    left = seconds - 4 * (compiled - began)
    return max(1.0, 0.8 * left / a_step)


def _whole(name: str, given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, numbers.Integral) or given < 1:
        raise must(f"'{name}' of tune", "an integer of at least 1", given)
    return int(given)
