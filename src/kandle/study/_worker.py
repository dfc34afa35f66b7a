"""The worker process: receives batches, trains them, sends outcomes, and ends with its driver."""

import ctypes
import faulthandler
import gc
import os
import signal
import sys
import threading
from multiprocessing.connection import Connection
from typing import NamedTuple

from kandle.store import Outcome
from kandle.study._environment import prepare
from kandle.study._execute import execute, load_runner, one_line_reason


class Ready(NamedTuple):
    """The worker has started and accepts batches."""


class Trained(NamedTuple):
    outcomes: list[Outcome]
    seconds: float


class Raised(NamedTuple):
    reason: str


def main() -> None:
    """Serve batches until the driver closes the connection.

    Arguments of the process: the descriptors of the connection and of the lifeline, and the
    driver's process id. The first message is (sys.path of the driver, name of the runner), each
    further one the runs of a batch.
    """
    connection, lifeline, driver = (int(argument) for argument in sys.argv[1:4])
    _end_with(driver, lifeline)
    faulthandler.enable()
    # Ctrl-C is the driver's to handle.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prepare()
    with Connection(connection) as channel:
        path, name = channel.recv()
        sys.path[:] = path
        # Loaded modules stay: collecting garbage among them takes a sixth of the start-up time.
        gc.disable()
        runner = load_runner(name)
        gc.freeze()
        gc.enable()
        channel.send(Ready())
        while True:
            try:
                specs = channel.recv()
            except EOFError:
                return
            try:
                reply = Trained(*execute(runner, specs))
            except Exception as error:
                reply = Raised(one_line_reason(error))
            channel.send(reply)


def _end_with(driver: int, lifeline: int) -> None:
    """End this process when the driver ends, however that happens.

    On Linux the kernel sends a signal. Elsewhere, and if the driver was gone before the kernel was
    asked, a thread waits for the end of a pipe whose other end only the driver has open.
    """
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None, use_errno=True).prctl(set_parent_death_signal, signal.SIGKILL)
    if os.getppid() != driver:
        os._exit(1)

    def watch() -> None:
        os.read(lifeline, 1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="lifeline").start()
