"""Train in this very process: for debugging, and for a single short batch."""

from collections import deque

from kandle.study._batch import Batch
from kandle.study._execute import TRAINER, execute, load_runner, told
from kandle.study._executor import Done, Executor, Lost


class InlineExecutor(Executor):
    """One batch at a time, in the calling process; an exception in training is reported, a crash
    is a crash.
    """

    def __init__(self, runner: str = TRAINER):
        self._runner = load_runner(runner)
        self._waiting: deque[Batch] = deque()

    @property
    def slots(self) -> int:
        return 1

    def submit(self, batch: Batch) -> None:
        self._waiting.append(batch)

    def wait(self, timeout: float) -> list[Done | Lost]:
        if not self._waiting:
            return []
        batch = self._waiting.popleft()
        try:
            outcomes, seconds = execute(self._runner, batch.specs)
        except Exception as error:
            return [Lost(batch, told(error), again=False)]
        return [Done(batch, outcomes, seconds)]

    def close(self) -> None:
        self._waiting.clear()
