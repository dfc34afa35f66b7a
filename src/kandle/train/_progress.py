"""The progress bar of a long training."""

import importlib.util
import math
import sys
import time
from collections.abc import Callable

import numpy as np

# progress(steps done, total steps, losses of the models), called after every chunk of steps.
Progress = Callable[[int, int, np.ndarray], None]

# Seconds: show a bar only for trainings estimated to take longer than `_LONG`, and estimate only
# after `_SETTLED`, when compilation is over.
_LONG, _SETTLED = 3.0, 1.0


class Bar:
    """A bar with loss and steps per second, shown once a training turns out to be long."""

    def __init__(self):
        self._started = time.monotonic()
        self._progress = None
        self._task = None

    def __call__(self, done: int, total: int, losses: np.ndarray) -> None:
        elapsed = time.monotonic() - self._started
        rate = done / max(elapsed, 1e-9)
        if self._progress is None:
            if elapsed < _SETTLED or elapsed + (total - done) / rate < _LONG:
                return
            self._open(total)
        finite = losses[np.isfinite(losses)]
        loss = float(np.median(finite)) if finite.size else math.nan
        assert self._progress is not None
        assert self._task is not None
        self._progress.update(self._task, completed=done, loss=f"{loss:.3e}", rate=f"{rate:.0f}")

    def _open(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeRemainingColumn as Remaining

        columns = (
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]}"),
            TextColumn("{task.fields[rate]} steps/s"),
            Remaining(),
        )
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task("training", total=total, loss="", rate="")
        self._progress.start()

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()


def watched() -> bool:
    """Whether a bar can be shown: standard error is a terminal, and rich is installed."""
    terminal = sys.stderr is not None and sys.stderr.isatty()
    return terminal and importlib.util.find_spec("rich") is not None
