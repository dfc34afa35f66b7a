"""Run a study under faults for as long as you like, and compare the end with an undisturbed run.

    python benchmarks/chaos.py --minutes 60 [--ray [0.3]] [--flips 1000] [--seed 0] [--keep DIR]

Faults, drawn at random: kill -9 of the driver, of a worker, of a process of Ray; SIGSTOP of the
driver or a worker for a while; a full disk (a limit on the size of files); the store moved or
deleted under the driver; file times in the past or in the future. After every fault the same
command runs again, until the study is complete; then all rows and curves must equal, bit by bit,
those of the undisturbed run, and the next round begins. Between faults, copies of the store with
one flipped bit are read: what is read must be right or an error.

Prints the number of faults by kind, of runs lost and of silent differences; both must be zero.
"""

import argparse
import collections
import contextlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kandle import UserError
from kandle.store import Store, repair, verify

STUDY = """
problems = ["f1", "f3"]
architectures = [{ G = 3, width = 2, depth = 1 }, { G = 3, width = 3, depth = 1 }]
steps = 60
schemes = [
  { name = "baseline", seeds = 30 },
  { name = "glorot", seeds = 30 },
  { name = "power-law", seeds = 10, alpha = [0.25, 1.0], beta = [1.0, 1.75] },
]
"""
PROGRAM = [sys.executable, "-c", "import sys; from kandle.cli import main; sys.exit(main())"]


class Lost(AssertionError):
    """A run was lost, or something was read back as something else."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--flips", type=int, default=1000, help="flipped copies at the end")
    parser.add_argument(
        "--ray",
        type=float,
        nargs="?",
        const=0.3,
        default=0.0,
        help="the share of sessions that train on a local Ray cluster (0.3 if no number is given)",
    )
    parser.add_argument("--keep", metavar="DIR", help="work in this directory and keep it")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(arguments.keep or stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        chaos = Chaos(folder, random.Random(arguments.seed), arguments.ray)
        until = time.monotonic() + 60 * arguments.minutes
        while time.monotonic() < until:
            chaos.round(until)
        chaos.flip(chaos.expected_store, arguments.flips)
        chaos.report()


class Chaos:
    """An undisturbed run, and rounds of disturbed ones that are compared with it."""

    def __init__(self, folder: Path, chance: random.Random, ray: float):
        self.folder, self.chance, self.ray = folder, chance, ray
        self.counts: collections.Counter[str] = collections.Counter()
        (folder / "chaos.toml").write_text(STUDY)
        self.expected_store = folder / "expected"
        self._command(self.expected_store)
        code = self._start(self.expected_store, ray=False).wait()
        if code != 0:
            raise SystemExit(f"The undisturbed run ended with exit code {code}.")
        self.expected = contents(self.expected_store)
        print(f"undisturbed: {len(self.expected)} runs", flush=True)

    def round(self, until: float) -> None:
        """Disturb a study until it is complete, and compare."""
        store = self.folder / "store"
        shutil.rmtree(store, ignore_errors=True)
        stored: dict[str, tuple] = {}
        while True:
            ray = self.chance.random() < self.ray
            process = self._start(store, ray=ray)
            code = self._disturb(process, store, ray, time.monotonic() < until)
            self.counts["sessions"] += 1
            store = self._rescued(store, code)
            now = contents(store) if (store / "runs.sqlite").exists() else {}
            self._compare(stored, now)
            stored = now
            if len(now) and self.chance.random() < 0.5:
                self.flip(store, 2)
            if code == 0:
                break
        if stored != self.expected:
            raise Lost(f"{len(stored)} of {len(self.expected)} runs, or other results")
        self.counts["rounds"] += 1
        print(f"round {self.counts['rounds']}: equal; {dict(self.counts)}", flush=True)

    def _disturb(self, process: subprocess.Popen, store: Path, ray: bool, disturbed: bool) -> int:
        """Inject faults while a driver runs; return its exit code."""
        faults = {
            "kill driver": self._kill_driver,
            "kill worker": self._kill_worker,
            "stop": self._stop,
            "full disk": self._fill_disk,
            "move store": self._move,
            "delete store": self._delete,
            "file times": self._shift_times,
        }
        kinds = list(faults)
        if ray:
            faults["kill ray"] = self._kill_ray
            kinds += ["kill ray"] * len(kinds)  # half of the faults: the others come often enough
        while process.poll() is None:
            try:
                process.wait(self.chance.uniform(0.3, 6.0))
            except subprocess.TimeoutExpired:
                if disturbed and (store / "runs.sqlite").exists():
                    kind = self.chance.choice(kinds)
                    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                        if faults[kind](process, store):
                            self.counts[kind] += 1
        for pid in descendants(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        return process.returncode

    # Each fault returns whether it was injected.

    def _kill_driver(self, process: subprocess.Popen, store: Path) -> bool:
        process.kill()
        process.wait()
        return True

    def _kill_worker(self, process: subprocess.Popen, store: Path) -> bool:
        return self._signal(descendants(process.pid), signal.SIGKILL)

    def _kill_ray(self, process: subprocess.Popen, store: Path) -> bool:
        names = ("raylet", "gcs_server", "ray::", "dashboard")
        found = [p for p in descendants(process.pid) if any(n in command_of(p) for n in names)]
        return self._signal(found, signal.SIGKILL)

    def _stop(self, process: subprocess.Popen, store: Path) -> bool:
        found = [process.pid, *descendants(process.pid)]
        pid = self.chance.choice(found)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(self.chance.uniform(0.2, 3.0))
        os.kill(pid, signal.SIGCONT)
        return True

    def _signal(self, pids: list[int], number: int) -> bool:
        if pids:
            os.kill(self.chance.choice(pids), number)
        return bool(pids)

    def _fill_disk(self, process: subprocess.Popen, store: Path) -> bool:
        """No file of the driver may grow any more: writes fail as on a full disk."""
        size = max(path.stat().st_size for path in store.iterdir())
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, hard))
        return True

    def _move(self, process: subprocess.Popen, store: Path) -> bool:
        """Moved, and moved back when the driver has noticed."""
        away = store.with_name("moved")
        store.rename(away)
        process.wait()
        if process.returncode == 0:
            # Right for a driver that had finished, and for one that had not opened the store yet
            # and therefore began again: then everything is where it was asked to be.
            if (store / "runs.sqlite").exists() and contents(store) == self.expected:
                shutil.rmtree(away)
                self.counts["begun again after a move"] += 1
                return True
            if contents(away) != self.expected:
                raise Lost("the store was moved away, and the study claims success")
        shutil.rmtree(store, ignore_errors=True)
        away.rename(store)
        return True

    def _delete(self, process: subprocess.Popen, store: Path) -> bool:
        shutil.rmtree(store)
        process.wait()
        if process.returncode == 0 and not (store / "runs.sqlite").exists():
            raise Lost("the store was deleted, and the study claims success")
        self.deleted = True
        return True

    deleted = False

    def _rescued(self, store: Path, code: int) -> Path:
        """Where the runs are: a driver whose store vanished has saved them elsewhere."""
        rescued = sorted(self.folder.glob("store-rescued*"), key=lambda path: path.stat().st_mtime)
        if rescued and not (store / "runs.sqlite").exists():
            shutil.rmtree(store, ignore_errors=True)
            rescued[-1].rename(store)
            self.counts["rescued"] += 1
        for path in self.folder.glob("store-rescued*"):
            shutil.rmtree(path)
        return store

    def _shift_times(self, process: subprocess.Popen, store: Path) -> bool:
        shift = self.chance.choice([-1, 1]) * self.chance.uniform(1, 10 * 365 * 86400)
        moment = time.time() + shift
        for path in store.iterdir():
            os.utime(path, (moment, moment))
        return True

    def _compare(self, before: dict, now: dict) -> None:
        """What was stored is still there (unless the whole store was deleted), and is right."""
        if self.deleted and not before.keys() <= now.keys():
            self.counts["runs deleted with their store"] += len(before.keys() - now.keys())
        elif lost := before.keys() - now.keys():
            raise Lost(f"{len(lost)} stored runs are gone")
        self.deleted = False
        for identity, found in now.items():
            if found != self.expected[identity]:
                raise Lost(f"run {identity[:12]} has other results")

    def flip(self, store: Path, times: int) -> None:
        """Read copies of a store with one bit flipped."""
        expected = contents(store)
        copy = self.folder / "flipped"
        for _ in range(times):
            shutil.rmtree(copy, ignore_errors=True)
            copy.mkdir()
            # A killed writer leaves runs in the log; a reader joins the two files first.
            with Store.open(store, "w"):
                pass
            data = bytearray((store / "runs.sqlite").read_bytes())
            bit = self.chance.randrange(8 * len(data))
            data[bit // 8] ^= 1 << bit % 8
            (copy / "runs.sqlite").write_bytes(data)
            self.counts["flips"] += 1
            try:
                if contents(copy) != expected:
                    raise Lost(f"bit {bit} was flipped, and something else was read")
                self.counts["flips that change nothing"] += 1
            except UserError:
                self.counts["flips noticed"] += 1
                with contextlib.suppress(UserError):  # without its head a file cannot be read
                    repair(copy)
                    if verify(copy).damaged:
                        raise Lost(f"bit {bit} was flipped, and repair left damage") from None
                    found = contents(copy)
                    if any(expected[identity] != run for identity, run in found.items()):
                        raise Lost(f"bit {bit} was flipped, and repair kept it") from None
                    self.counts["flips repaired"] += 1
        shutil.rmtree(copy, ignore_errors=True)

    def report(self) -> None:
        kinds = ("kill driver", "kill worker", "kill ray", "stop", "full disk", "move store")
        kinds += ("delete store", "file times", "flips")
        faults = sum(self.counts[kind] for kind in kinds)
        for name, count in sorted(self.counts.items()):
            print(f"{count:>8,}  {name}")
        print(f"{faults:,} faults injected, 0 runs lost, 0 silent differences")

    def _command(self, store: Path, ray: bool = False) -> list[str]:
        command = [*PROGRAM, "study", "run", str(self.folder / "chaos.toml"), "--store", str(store)]
        return [*command, "--workers", "2", *(["--ray"] if ray else [])]

    def _start(self, store: Path, *, ray: bool) -> subprocess.Popen:
        with open(self.folder / "log.txt", "ab") as log:
            return subprocess.Popen(
                self._command(store, ray), stdout=log, stderr=log, cwd=self.folder
            )


def contents(directory: Path) -> dict[str, tuple]:
    """Every run of a store, by identity, in a form that two of them can be compared in."""
    with Store.open(directory) as store:
        return {
            identity: (
                tuple(sorted(configuration.items())),
                *(repr(getattr(outcome, name)) for name in ("status", "diverged_at", "loss")),
                *(repr(getattr(outcome, name)) for name in ("l2", "l2_robust", "test_mse")),
                outcome.curve and tuple(array.tobytes() for array in outcome.curve),
            )
            for identity, configuration, outcome in store.records()
        }


def descendants(pid: int) -> list[int]:
    """The living descendants of a process."""
    children = collections.defaultdict(list)
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = entry.read_text().rpartition(")")[2].split()
            if fields[0] != "Z":
                children[int(fields[1])].append(int(entry.parent.name))
    found, waiting = [], [pid]
    while waiting:
        below = children[waiting.pop()]
        found += below
        waiting += below
    return found


def command_of(pid: int) -> str:
    try:
        return (
            Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        )
    except OSError:
        return ""


if __name__ == "__main__":
    main()
