"""What an executor is: it trains batches elsewhere and reports what became of them.

Executors neither retry nor store: the driver does. One contract test runs against each of them.
"""

import abc
from dataclasses import dataclass

from kandle._errors import UserError
from kandle.store import Outcome
from kandle.study._batch import Batch


class StudyError(UserError):
    """The study cannot continue, for a reason that retries would not cure."""


@dataclass(frozen=True)
class Done:
    """A trained batch: an outcome for each run, and the seconds its worker was busy."""

    batch: Batch
    outcomes: list[Outcome]
    seconds: float


@dataclass(frozen=True)
class Lost:
    """A batch without outcomes.

    `again` is whether a retry may succeed: True if the worker died, False if training raised an
    exception.
    """

    batch: Batch
    reason: str
    again: bool


class Executor(abc.ABC):
    """Trains batches. Used by one thread; `close` may be called at any time and ends all work."""

    @property
    @abc.abstractmethod
    def slots(self) -> int:
        """How many batches can be trained at the same time; it changes as machines come and go."""

    @abc.abstractmethod
    def submit(self, batch: Batch) -> None:
        """Start a batch and return immediately; `wait` reports every batch exactly once."""

    @abc.abstractmethod
    def wait(self, timeout: float) -> list[Done | Lost]:
        """The batches that ended since the last call; waits up to `timeout` seconds for one."""

    @abc.abstractmethod
    def close(self) -> None:
        """End all workers immediately. Batches in progress are dropped."""

    def __enter__(self) -> "Executor":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
