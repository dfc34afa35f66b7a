"""Run a plan into a store."""

import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kandle import problems
from kandle.store import Store, StoreError, StoreMoved
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

    `executor` creates what trains, by default worker processes on this machine, one per core. An
    interrupt (Ctrl-C, SIGTERM) ends the workers and raises KeyboardInterrupt; stored runs stay,
    and the same call resumes. `watcher` receives the progress, which is printed by default.
    """
    _warn_of_problems(plan)
    with ExitStack() as stack:
        stack.enter_context(_sigterm_interrupts())
        store = stack.enter_context(Store.open(directory, "w"))
        chosen = stack.enter_context(executor())
        watcher = watcher or stack.enter_context(display(plan.study.name))
        try:
            progress = drive(
                plan.specs,
                store,
                chosen,
                watcher,
                command=command,
                scale=plan.scale,
                retry_failed=retry_failed,
            )
        except StoreMoved as error:
            raise StoreMoved(f"{error} {_rescued(store)}") from None
    _check_stored(plan, directory)
    return progress


def _check_stored(plan: Plan, directory: str | Path) -> None:
    """Read the store as everyone will from now on.

    Its file may have been overwritten in place, which the connection that wrote it does not see.
    """
    with Store.open(directory) as store:
        if missing := store.missing(plan.specs):
            raise StoreError(
                f"{store.path} lacks {len(missing):,} runs that were stored in it: it was changed "
                "while it was being written. Run the same command again."
            )


def _warn_of_problems(plan: Plan) -> None:
    """Warn here of what is wrong with the user's own problems: workers have no terminal."""
    for name in dict.fromkeys(spec.problem for spec in plan.specs if ":" in spec.problem):
        problem = problems.get(name)
        if isinstance(problem, problems.PDE):
            problem.warn_if_underdetermined()


def _rescued(store: Store) -> str:
    """Save the runs of a store whose file is gone, and say where they are."""
    beside = store.directory.absolute()
    for base in (
        beside.with_name(f"{beside.name}-rescued"),
        Path(tempfile.gettempdir()) / "kandle",
    ):
        for directory in (base, *(base.with_name(f"{base.name}-{i}") for i in range(2, 100))):
            if directory.exists():
                continue
            try:
                store.save_copy(directory)
            except (OSError, StoreError):
                break  # no place for it there
            return (
                f"The {len(store):,} runs that were stored are saved in {directory}: run the same "
                "command with this store to continue."
            )
    return "They could not be saved elsewhere."


@contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    """Let SIGTERM (sent by a cluster when the time is up) end a run like Ctrl-C."""
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
