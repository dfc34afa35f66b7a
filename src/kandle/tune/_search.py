"""`tune`: successive halving over exponents on the population trainer."""

import itertools
import numbers
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import jax
import numpy as np

from kandle import bases, init, kernels, problems
from kandle._errors import must
from kandle.nn import KAN
from kandle.tabular import Table
from kandle.tabular._fit_table import split
from kandle.train import Optimizer, Population, method_of, objective_for, shared
from kandle.tune._budget import Budget, parse_budget
from kandle.tune._clock import Clock
from kandle.tune._halving import Progress, Racers, halve
from kandle.tune._plan import least_budget, plan
from kandle.tune._result import Tuned

Data = Mapping[str, np.ndarray]

# The paper's grid, for both exponents.
EXPONENTS = tuple(0.25 * i for i in range(9))


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
    optimizer: Optimizer | None = None,
    rba: Any = None,
    progress: Progress | None = None,
    backend: str | None = None,
) -> Tuned:
    """Find (α, β) of the power law for a task by successive halving.

    All pairs train from one seed for a while; a third of them, then a ninth, go on from where they
    are, joined by further seeds, until three have had a whole training from every seed. The one
    with the lowest median loss wins.

    The loss is that of the training, but for a `Table` the mean squared error on rows held out of
    its training rows, in units of the target's variance: each seed holds out another fifth of them
    and trains on the rest, the same for all pairs. Test rows take no part.

    Args:
        problem: of `kandle.problems`, or its name.
        layers: widths of the hidden layers.
        grid, degree: of the splines.
        steps: length of a whole training; None is the problem's own.
        seeds: starts of a pair.
        budget: model-steps (a number), or a time such as "5min"; None is a fifth of what an
            exhaustive search would take, or what a search takes at the least, if that is more. If
            a time turns out to be too short on the way, what is left of the search is shortened
            (`Tuned.cut`).
        alphas, betas: the exponents to choose from.
        optimizer: how weights are updated; None is Adam at 1e-3, and for a `Table` at 1e-2,
            falling to zero along a cosine.
        rba, backend: as for `kandle.train.train`.
        progress: called with (model-steps done, of how many, best training loss).
    """
    problem = problems.get(problem)
    if isinstance(problem, Table):
        split(len(problem), problem.seed, problem.test_fraction, problem.name)  # or too few rows
    _check_domain(problem)
    steps = _whole("steps", problem.default_steps if steps is None else steps)
    seeds = _whole("seeds", seeds)
    chosen = _exponents("alphas", alphas), _exponents("betas", betas)
    pairs = list(itertools.product(*chosen))
    widths = (problem.n_in, *layers, problem.n_out)
    exhaustive = len(pairs) * seeds * steps
    size = len(pairs), seeds, steps
    limit = Budget(model_steps=max(exhaustive / 5, least_budget(*size)))
    if budget is not None:
        limit = parse_budget(budget)
    optimizer = _optimizer(problem, steps, optimizer)

    backend = kernels.check_backend(backend, bases.BSpline(grid, degree))
    parts, aim = _parts(problem), objective_for(cast(Any, problem), optimizer, rba)

    def racers(alive: Sequence[int], seed: int) -> Racers:
        data, held_out = parts(seed)
        networks = [
            KAN(
                widths,
                grid=grid,
                degree=degree,
                init=init.PowerLaw(*pairs[i]),
                key=jax.random.key(seed),
                dtype="float32",
                backend=backend,
            )
            for i in alive
        ]
        models = [aim.model_of(network) for network in networks]
        shown = shared({name: data[name] for name in aim.arrays})
        population = Population(models, shown, aim, method_of(optimizer, aim, backend))
        return Racers(population, alive, None if held_out is None else shared(held_out))

    clock = None if limit.seconds is None else Clock(limit)
    first = racers(range(len(pairs)), 0)
    if clock is None:
        assert limit.model_steps is not None
        planned = plan(*size, limit.model_steps)
    else:
        planned = clock.plan(*size, first.advance)
    candidates, made = halve(pairs, planned, first, racers, progress, clock)
    held_out = first.held_out_rows
    return Tuned(candidates, made, exhaustive, widths, grid, degree, seeds, steps, held_out)


def _parts(problem: Any) -> Callable[[int], tuple[Data, Data | None]]:
    """Of a seed: the data to train on, and those to compare on where they are others.

    All pairs of a seed share them. Rows of a table are noisy and few, and what fits them closest
    predicts others badly: each seed holds out other rows. A problem has as many points as it
    needs, and its loss says enough.
    """
    if isinstance(problem, Table):
        return problem.fold
    data = problem.arrays("float32")
    return lambda seed: (data, None)


def _check_domain(problem: Any) -> None:
    """Say so where splines see little of the inputs: exponents found there mean little."""
    for i, (low, high) in enumerate(problem.domain):
        if low < -1 or high > 1:
            help_ = " Tune problem.scaled() instead." if hasattr(problem, "scaled") else ""
            warnings.warn(
                f"Input {i} of problem {problem.name!r} reaches from {low:g} to {high:g}, and "
                f"splines live on [-1, 1]: they see little of it.{help_}",
                stacklevel=3,
            )
            return


def _exponents(name: str, given: Sequence[float]) -> list[float]:
    """In their order, each once."""
    if not len(given):
        raise must(f"'{name}' of tune", "one or more numbers", given)
    return list(dict.fromkeys(map(float, given)))


def _optimizer(problem: Any, steps: int, given: Optimizer | None) -> Optimizer:
    """Exponents are for a task, and how it is trained is a part of it: a table as by a fit."""
    if given is not None:
        return given
    if not isinstance(problem, Table):
        return Optimizer()
    return Optimizer("adam", 1e-2, {"name": "cosine_decay", "decay_steps": steps})


def _whole(name: str, given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, numbers.Integral) or given < 1:
        raise must(f"'{name}' of tune", "an integer of at least 1", given)
    return int(given)
