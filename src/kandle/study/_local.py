"""Worker processes on this machine."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from multiprocessing.connection import Connection, wait
from typing import IO

from kandle._errors import must
from kandle.study._batch import Batch
from kandle.study._environment import ONE_THREAD
from kandle.study._execute import TRAINER
from kandle.study._executor import Done, Executor, Lost, StudyError
from kandle.study._worker import Raised, Ready, Trained

# A worker keeps the programs it compiled; after this many batches a new process frees the memory.
_BATCHES_PER_WORKER = 64
# A worker that exits before it is ready will do so again; one that was killed may start next time.
_FAILED_STARTS = 5
_KILLED_STARTS = 100
_START = "from kandle.study._worker import main; main()"


class LocalExecutor(Executor):
    """Spawned worker processes, each with one thread and one batch at a time."""

    def __init__(self, workers: int | None = None, *, runner: str = TRAINER):
        workers = usable_cores() if workers is None else workers
        if workers < 1:
            raise must("'workers'", "at least 1", workers)
        self._workers: list[_Worker] = []
        self._count = workers
        self._runner = runner
        self._failed_starts = 0
        self._killed_starts = 0

    @property
    def slots(self) -> int:
        return self._count

    @property
    def pids(self) -> list[int]:
        """The process ids of the living workers."""
        return [worker.process.pid for worker in self._workers]

    def submit(self, batch: Batch) -> None:
        worker = next((worker for worker in self._workers if worker.batch is None), None)
        if worker is not None and not worker.give(batch):
            self._dismiss(worker)  # it died while it was idle
            worker = None
        if worker is None:
            self._hire(batch)

    def wait(self, timeout: float) -> list[Done | Lost]:
        busy = {worker.channel: worker for worker in self._workers if worker.batch is not None}
        reports = (self._receive(busy[channel]) for channel in wait(list(busy), timeout))  # type: ignore[index]
        return [report for report in reports if report is not None]

    def close(self) -> None:
        for worker in list(self._workers):
            self._dismiss(worker)

    def _hire(self, batch: Batch) -> None:
        worker = _Worker(self._runner)
        self._workers.append(worker)
        # If it is dead already, `wait` notices.
        worker.give(batch)

    def _dismiss(self, worker: "_Worker") -> None:
        self._workers.remove(worker)
        worker.end()

    def _receive(self, worker: "_Worker") -> Done | Lost | None:
        batch = worker.batch
        assert batch is not None
        try:
            message = worker.channel.recv()
        except (EOFError, OSError):
            return self._on_worker_death(worker, batch)
        if isinstance(message, Ready):
            worker.ready, self._failed_starts, self._killed_starts = True, 0, 0
            return None
        worker.batch = None
        worker.served += 1
        if worker.served >= _BATCHES_PER_WORKER:
            self._dismiss(worker)
        if isinstance(message, Raised):
            return Lost(batch, message.reason, again=False)
        assert isinstance(message, Trained)
        return Done(batch, message.outcomes, message.seconds)

    def _on_worker_death(self, worker: "_Worker", batch: Batch) -> Lost | None:
        reason, killed = worker.cause_of_death(), worker.was_killed
        self._dismiss(worker)
        if worker.ready:
            return Lost(batch, reason, again=True)
        # It died before it received the batch, so the batch was not the cause.
        self._killed_starts += killed
        self._failed_starts += not killed
        if self._failed_starts >= _FAILED_STARTS or self._killed_starts >= _KILLED_STARTS:
            raise StudyError(f"Worker processes cannot start: {reason}.")
        self._hire(batch)
        return None


class _Worker:
    """One worker process, as the driver sees it."""

    def __init__(self, runner: str):
        ours, theirs = socket.socketpair()
        lifeline, self._lifeline = os.pipe()
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self.batch: Batch | None = None
        self.ready = False
        self.served = 0
        numbers = map(str, (theirs.fileno(), lifeline, os.getpid()))
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _START, *numbers],
                pass_fds=(theirs.fileno(), lifeline),
                env={**os.environ, **ONE_THREAD},
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                # A terminal sends Ctrl-C to a group of processes; workers are not part of it.
                start_new_session=True,
            )
        finally:
            theirs.close()
            os.close(lifeline)
        self.channel = Connection(ours.detach())
        self._send((sys.path, runner))

    def give(self, batch: Batch) -> bool:
        """Send a batch; False if the worker is dead."""
        self.batch = batch
        return self._send(batch.specs)

    def _send(self, message: object) -> bool:
        try:
            self.channel.send(message)
        except OSError:
            return False
        return True

    def cause_of_death(self) -> str:
        """Why a worker closed its connection: signal or exit code, and its last output."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        code = self.process.poll()
        if code is None:
            return "worker closed its connection"
        if code < 0:
            name = signal.Signals(-code).name
            hint = "; often out of memory" if -code == signal.SIGKILL else ""
            return f"worker killed by signal {-code} ({name}{hint})"
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - 2000))
        output = self._log.read().decode(errors="replace").strip().splitlines()
        return f"worker exited with code {code}" + (f": {output[-1][:300]}" if output else "")

    @property
    def was_killed(self) -> bool:
        """Whether a signal ended the process."""
        code = self.process.poll()
        return code is not None and code < 0

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.channel.close()
        os.close(self._lifeline)
        self._log.close()


def usable_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
