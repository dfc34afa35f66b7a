"""Train one batch in this process, on behalf of any executor."""

import importlib
import time
from collections.abc import Callable, Sequence

from kandle.store import Outcome, RunSpec

Runner = Callable[[Sequence[RunSpec]], list[Outcome]]
"""Trains runs of one shape together and returns their outcomes, in order."""

TRAINER = "kandle.study._trainer:train_batch"


def load_runner(name: str) -> Runner:
    """The function that `module:function` names."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def execute(runner: Runner, specs: Sequence[RunSpec]) -> tuple[list[Outcome], float]:
    """The outcomes of a batch, and how long it took."""
    started = time.perf_counter()
    outcomes = runner(specs)
    if len(outcomes) != len(specs):
        raise RuntimeError(f"{len(specs)} runs returned {len(outcomes)} outcomes")
    return outcomes, time.perf_counter() - started


def one_line_reason(error: BaseException) -> str:
    """An exception as the one-line reason of a failed run."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
