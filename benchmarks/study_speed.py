"""What the study engine itself costs: two workers against one, idle workers at `quick`, writing.

    python benchmarks/study_speed.py [--parts throughput,overhead,writing]

- throughput: runs per second of two workers over those of one, on a study of equal batches, counted
  from the first batch that came back, compiled programs being in the cache; at least 1.85.
- overhead: at scale `quick` of `functions`, the share of the workers' time from the first batch
  given out to the last one that came back in which they neither compiled nor trained, waiting at
  the end for a longer batch aside; at most 2 %.
- writing: finished runs per second, with curves of 200 losses, while a reader polls; at least 200.
"""

import argparse
import itertools
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from kandle import study
from kandle.store import Curve, Outcome, Store

PARTS = ("throughput", "overhead", "writing")


class Clock:
    """A watcher that notes when how many runs were done."""

    def __init__(self):
        self.seen: list[tuple[float, int]] = []

    def show(self, progress) -> None:
        if progress.trained and (not self.seen or progress.trained > self.seen[-1][1]):
            self.seen.append((time.perf_counter(), progress.trained))

    def note(self, message: str) -> None:
        print(message)

    @property
    def rate(self) -> float:
        (began, first), (ended, last) = self.seen[0], self.seen[-1]
        return (last - first) / (ended - began)


def _equal(folder: Path, batches: int) -> study.Plan:
    """About as many batches of one shape, on problems of two inputs."""
    file = folder / "equal.toml"
    problems = ", ".join(f'"{name}"' for name in ("f1", "f2", "f3", "f5", "I.12.11", "I.26.2"))
    file.write_text(
        f"problems = [{problems}]\ngrids = [5]\nwidths = [8]\ndepths = [2]\nsteps = 2000\n"
        f'[[schemes]]\nname = "glorot"\nseeds = {10 * batches // 6}\n'
    )
    return study.plan(study.get(file))


def throughput(rounds: int = 2) -> None:
    rates: dict[int, list[float]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as folder:
        plan = _equal(Path(folder), 6)
        for attempt, workers in itertools.product(range(rounds + 1), (1, 2)):
            clock = Clock()
            study.run(
                plan,
                Path(folder) / f"{attempt}-{workers}",
                executor=lambda workers=workers: study.LocalExecutor(workers),
                watcher=clock,
            )
            if attempt:  # the first fills the cache
                rates[workers].append(clock.rate)
    one, two = (float(np.median(rates[workers])) for workers in (1, 2))
    summary = f"{plan.runs} runs, {len(plan.batches(2))} batches"
    print(f"throughput ({summary}): {one:.2f} and {two:.2f} runs/s, ratio {two / one:.2f}")


def overhead() -> None:
    with tempfile.TemporaryDirectory() as folder:
        plan = study.plan(study.get("functions"), "quick")
        clock, began = Clock(), time.perf_counter()
        progress = study.run(plan, Path(folder) / "store", watcher=clock)
        wall = time.perf_counter() - began
    ends = [moment for moment, _ in clock.seen]
    # One worker ends last; until the one before it, both had work to do.
    tail = ends[-1] - ends[-2] if len(ends) > 1 else 0.0
    owned = progress.slots * (ends[-1] - began) - tail
    idle = 1 - progress.busy / owned
    print(
        f"overhead at quick: {plan.runs} runs in {wall:.0f} s, workers busy {progress.busy:.0f} "
        f"of {owned:.0f} s: {100 * idle:.1f} % neither compiling nor training"
    )


def writing(runs: int = 2000, at_once: int = 20) -> None:
    plan = study.plan(study.get("functions"), "paper")
    curve = Curve(np.unique(np.geomspace(1, 2000, 200).astype(int)), np.ones(200, np.float32))
    outcome = Outcome(
        status="ok", loss=1e-3, l2=1e-2, wall_s=1.0, machine="m", backend="native", curve=curve
    )
    polls, stop = 0, threading.Event()
    with tempfile.TemporaryDirectory() as folder, Store.open(folder, "w") as store:

        def poll() -> None:
            nonlocal polls
            with Store.open(folder) as reader:
                while not stop.wait(0.05):
                    len(reader.frame())
                    polls += 1

        reader = threading.Thread(target=poll)
        reader.start()
        began = time.perf_counter()
        for start in range(0, runs, at_once):
            store.add_many((spec, outcome) for spec in plan.specs[start : start + at_once])
        seconds = time.perf_counter() - began
        stop.set()
        reader.join()
    print(f"writing: {runs / seconds:.0f} runs/s in groups of {at_once}, {polls} polls beside")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    chosen = parser.parse_args().parts.split(",")
    if "writing" in chosen:
        writing()
    if "overhead" in chosen:
        overhead()
    if "throughput" in chosen:
        throughput()


if __name__ == "__main__":
    main()
