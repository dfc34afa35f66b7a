"""Progress of a running study: a live panel on a terminal, plain lines elsewhere."""

import importlib.util
import sys
import time
from typing import IO, Any

from kandle.study._driver import Progress

_LINE_EVERY = 10.0  # seconds


class LineDisplay:
    """A line every few seconds, for logs and pipes."""

    def __init__(self, file: IO[str] | None = None, every: float = _LINE_EVERY):
        self._file = file or sys.stdout
        self._every = every
        self._next = 0.0

    def show(self, progress: Progress) -> None:
        now = time.monotonic()
        if now >= self._next or progress.done == progress.planned:
            self._next = now + self._every
            print("  ".join(describe(progress)), file=self._file, flush=True)

    def note(self, message: str) -> None:
        print(message, file=self._file, flush=True)

    def __enter__(self) -> "LineDisplay":
        return self

    def __exit__(self, *exception: object) -> None:
        pass


class LiveDisplay:
    """A bar and a few figures, redrawn in place."""

    def __init__(self, title: str):
        from rich.live import Live

        self._title = title
        self._live = Live(refresh_per_second=4, transient=False)

    def show(self, progress: Progress) -> None:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        head = Table.grid(padding=(0, 2))
        bar = ProgressBar(total=max(progress.planned, 1), completed=progress.done, width=40)
        head.add_row(Text(self._title, style="bold"), bar)
        # Two lines: one would not fit into 80 columns.
        rows: list[Any] = [head, Text("  ".join(describe(progress)[:4]))]
        rows += [Text(f"best {line}", style="dim") for line in best(progress, 6)]
        self._live.update(Group(*rows))

    def note(self, message: str) -> None:
        from rich.text import Text

        self._live.console.print(Text(message, style="yellow"))

    def __enter__(self) -> "LiveDisplay":
        self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._live.stop()


def display(title: str) -> LineDisplay | LiveDisplay:
    """The display for standard output: live on a terminal (with rich), lines elsewhere."""
    live = sys.stdout.isatty() and importlib.util.find_spec("rich") is not None
    return LiveDisplay(title) if live else LineDisplay()


def describe(progress: Progress) -> list[str]:
    """Progress in figures: runs done, rate, time left, failures, the best run so far."""
    elapsed = progress.elapsed
    rate = (progress.trained + progress.failed) / elapsed if elapsed > 0 else 0.0
    left = progress.seconds_left
    parts = [
        f"{progress.done:,}/{progress.planned:,} runs",
        f"{rate:.2f} runs/s" if rate >= 0.1 else f"{3600 * rate:.1f} runs/h",
        f"left {clock(left)}" if left is not None else "left ?",
        f"{progress.diverged} diverged, {progress.failed + progress.failed_before} failed",
    ]
    return parts + [f"best {line}" for line in best(progress, 1)]


def best(progress: Progress, most: int) -> list[str]:
    """The lowest losses by problem: `f3 1.2e-07 power-law (0.25, 1.75) G=20 3×32`."""
    lines = []
    for problem, (loss, spec) in sorted(progress.best.items())[:most]:
        pair = (
            f" ({spec.alpha:g}, {spec.beta:g})"
            if spec.alpha is not None and spec.beta is not None
            else ""
        )
        lines.append(
            f"{problem} {loss:.1e} {spec.scheme}{pair} G={spec.G} {spec.depth}×{spec.width}"
        )
    return lines


def clock(seconds: float) -> str:
    """Seconds as `h:mm:ss`."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
