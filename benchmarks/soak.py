"""Train very many short runs through one driver, and watch what it uses.

    python benchmarks/soak.py --runs 100000 [--workers 2] [--store DIR]

Prints, at ten moments: runs stored, memory of the driver and of its workers (MB), open file
descriptors, temporary files, and the size of the compilation cache (MB). All of it must stay flat
once the first batches are through; only the store grows.
"""

import argparse
import contextlib
import os
import tempfile
import threading
import time
from pathlib import Path

from kandle import study
from kandle._cache import cache_directory


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--store", metavar="DIR")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        store = arguments.store or stack.enter_context(tempfile.TemporaryDirectory())
        glorot = study.SchemeAxis("glorot", tuple(range(arguments.runs)))
        soak = study.Study("soak", ("f1",), ((3, 2, 1),), (glorot,), steps=1)
        watcher = Watcher(arguments.runs)
        watcher.executor = study.LocalExecutor(arguments.workers)
        print("   seconds      runs  driver  workers  files  temporary  cache", flush=True)
        study.run(study.plan(soak), store, executor=lambda: watcher.executor, watcher=watcher)


class Watcher:
    """Prints what the processes use, ten times and at the end."""

    executor: study.LocalExecutor

    def __init__(self, runs: int):
        self._every, self._next, self._started = runs / 10, runs / 100, time.monotonic()

    def show(self, progress: study.Progress) -> None:
        if progress.done >= self._next or progress.done == progress.planned:
            self._next += self._every
            workers = [resident(pid) for pid in self.executor.pids]
            print(
                f"{time.monotonic() - self._started:10.0f}{progress.done:10,}"
                f"{resident(os.getpid()):8.0f}{sum(workers):9.0f}"
                f"{len(os.listdir('/proc/self/fd')):7}{len(os.listdir(tempfile.gettempdir())):11}"
                f"{size(cache_directory()):7.1f}  ({threading.active_count()} threads)",
                flush=True,
            )

    def note(self, message: str) -> None:
        print(message, flush=True)


def resident(pid: int) -> float:
    """Memory of a process in MB."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    return int(status.partition("VmRSS:")[2].split()[0]) / 1e3


def size(folder: Path) -> float:
    """Size of a folder in MB."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


if __name__ == "__main__":
    main()
