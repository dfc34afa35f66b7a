"""Plan the runs that targets need at a scale, and train them into a store."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kandle import study
from kandle.paper._targets import Target


@dataclass(frozen=True)
class Work:
    """The runs that some targets need at a scale.

    - `plans`: the planned runs, one plan per study;
    - `covered`: the targets that can be rendered from them, with the steps of their runs;
    - `left`: the targets for which the scale plans no runs;
    - `shortened`: studies with shorter training than the paper's: (study, its steps).
    """

    scale: str
    plans: tuple[study.Plan, ...]
    covered: tuple[tuple[Target, int | None], ...]
    left: tuple[Target, ...]
    shortened: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def runs(self) -> int:
        return sum(plan.runs for plan in self.plans)


def work(targets: Iterable[Target], scale: str) -> Work:
    """Plan what `targets` need at `scale`, each run once."""
    targets = tuple(targets)
    plans, steps, shortened = [], dict[str, int | None](), []
    for name in dict.fromkeys(t.study for t in targets if t.study is not None):
        whole = study.plan(study.get(name), scale)
        own = [t for t in targets if t.study == name]
        for target in own:
            lengths = {spec.steps for spec in whole.specs if target.needs(spec)}
            if lengths:
                (steps[target.name],) = lengths
        specs = [spec for spec in whole.specs if any(t.needs(spec) for t in own)]
        if specs:
            plans.append(dataclasses.replace(whole, specs=specs))
        full = {shared["problem"]: shared["steps"] for shared in study.get(name).trainings()}
        short = {spec.steps for spec in specs if spec.steps < full[spec.problem]}
        if short:
            shortened.append((name, tuple(sorted(short))))
    steps |= {t.name: None for t in targets if t.study is None}
    return Work(
        scale,
        tuple(plans),
        tuple((t, steps[t.name]) for t in targets if t.name in steps),
        tuple(t for t in targets if t.name not in steps),
        tuple(shortened),
    )


def train(
    plans: Sequence[study.Plan],
    store: str | Path,
    *,
    executor: Callable[[], study.Executor] = study.LocalExecutor,
    watcher: study.Watcher | None = None,
    command: str = "",
    begun: Callable[[study.Plan], None] = lambda plan: None,
) -> dict[str, study.Progress]:
    """Train the runs of every plan that the store lacks, with the same workers.

    `begun` is called with each plan before it runs.
    """
    with executor() as workers:
        # The workers stay alive between studies: starting JAX takes longer than a small study.
        shared: Any = lambda: nullcontext(workers)  # noqa: E731
        ended = {}
        for plan in plans:
            begun(plan)
            ended[plan.study.name] = study.run(
                plan, store, executor=shared, watcher=watcher, command=command
            )
        return ended
