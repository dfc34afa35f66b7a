"""Train in the calling process: for debugging, and for a single short batch."""

from collections import deque

from kandle.study._batch import Batch
from kandle.study._execute import TRAINER, execute, load_runner, one_line_reason
from kandle.study._executor import Done, Executor, Lost


class InlineExecutor(Executor):
    """One batch at a time, in the calling process: exceptions are reported, a crash ends the
    process.
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
            return [Lost(batch, one_line_reason(error), again=False)]
        return [Done(batch, outcomes, seconds)]

    def close(self) -> None:
        self._waiting.clear()
