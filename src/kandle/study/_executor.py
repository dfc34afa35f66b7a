"""What an executor is: something that trains batches elsewhere and reports what became of them.

Executors neither retry nor store; the driver does. The contract is held by one test case that runs
against each.
"""

import abc
from dataclasses import dataclass

from kandle._errors import UserError
from kandle.store import Outcome
from kandle.study._batch import Batch


class StudyError(UserError):
    """The study cannot go on, for a reason that more retries would not cure."""


@dataclass(frozen=True)
class Done:
    """A batch came through: an outcome for each run, and the seconds its worker was busy."""

    batch: Batch
    outcomes: list[Outcome]
    seconds: float


@dataclass(frozen=True)
class Lost:
    """A batch did not come through.

    `again` tells whether the same runs may succeed another time: yes when a worker died under
    them, no when training them raised an exception.
    """

    batch: Batch
    reason: str
    again: bool


class Executor(abc.ABC):
    """Trains batches. Used by one thread; `close` may be called at any time and ends all work."""

    @property
    @abc.abstractmethod
    def slots(self) -> int:
        """How many batches are worth having under way at once; it may change as machines come and
        go.
        """

    @abc.abstractmethod
    def submit(self, batch: Batch) -> None:
        """Start a batch; returns at once. Every batch submitted is reported by `wait` exactly
        once.
        """

    @abc.abstractmethod
    def wait(self, timeout: float) -> list[Done | Lost]:
        """What has become of batches since the last call; waits up to `timeout` seconds."""

    @abc.abstractmethod
    def close(self) -> None:
        """End all workers now, whatever they do. Batches under way are forgotten."""

    def __enter__(self) -> "Executor":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
