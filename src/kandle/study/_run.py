"""Run a plan into a store."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kandle.store import Store
from kandle.study._display import display
from kandle.study._driver import Progress, Watcher, drive
from kandle.study._executor import Executor
from kandle.study._local import LocalExecutor
from kandle.study._plan import Plan


def run(
    plan: Plan,
    directory: str | Path,
    *,
    executor: Callable[[], Executor] = LocalExecutor,
    watcher: Watcher | None = None,
    retry_failed: bool = False,
    command: str = "",
) -> Progress:
    """Run what the store in `directory` lacks of `plan`, and return how it ended.

    `executor` makes what trains: worker processes of this machine, one a core, by default. Being
    interrupted (Ctrl-C, SIGTERM) ends the workers and raises KeyboardInterrupt; what was stored
    stays, and the same call goes on from there. `watcher` is shown the progress; by default it
    goes to standard output.
    """
    with ExitStack() as stack:
        stack.enter_context(_terminated_as_interrupted())
        store = stack.enter_context(Store.open(directory, "w"))
        chosen = stack.enter_context(executor())
        watcher = watcher or stack.enter_context(display(plan.study.name))
        return drive(
            plan.specs,
            store,
            chosen,
            watcher,
            command=command,
            scale=plan.scale,
            retry_failed=retry_failed,
        )


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Let SIGTERM (a cluster's way to say that time is up) end a run as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
