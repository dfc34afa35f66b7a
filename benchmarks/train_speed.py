"""Wall time of the small architecture on five functions: 125 models, compilation included.

    python benchmarks/train_speed.py [--steps 2000] [--seeds 5]

Runs in a fresh process and says where the time went. The rest is drawing weights, tracing, the
first sixteen steps of a batch, and evaluation: the errors on 40,000 and 1,000 points per model.
"""

import argparse
import itertools
import sys
import time

BAR = 240.0
_BEGAN = time.perf_counter()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()

    import jax

    from kandle.problems import FUNCTIONS
    from kandle.train import Architecture, Member, trace_count, train

    imported = time.perf_counter()
    schemes = ("baseline", "lecun-numerical", "lecun-normalized", "glorot", "power-law")
    members = [Member(s, seed) for s in schemes for seed in range(arguments.seeds)]
    small = Architecture(width=8, depth=2, grid=5)
    spent = {"imports": imported - _BEGAN, "compilation by XLA": 0.0, "steps": 0.0}

    def on_duration(event: str, seconds: float, **_) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            spent["compilation by XLA"] += seconds

    jax.monitoring.register_event_duration_secs_listener(on_duration)
    print(f"{'function':<10}{'models':>7}{'ok':>5}{'seconds':>9}{'compiled':>10}")
    for function in FUNCTIONS:
        began, traced = time.perf_counter(), trace_count()
        marks: list[tuple[int, float]] = []

        def progress(done: int, total: int, losses, marks=marks) -> None:
            marks.append((done, time.perf_counter()))

        results = train(function, small, members, steps=arguments.steps, progress=progress)
        ended = time.perf_counter()
        spent["steps"] += _stepping(marks, arguments.steps)
        ok = sum(r.status == "ok" for r in results)
        compiled = trace_count() - traced
        print(f"{function:<10}{len(results):>7}{ok:>5}{ended - began:>9.1f}{compiled:>10}")
    total = time.perf_counter() - _BEGAN
    spent["rest"] = total - sum(spent.values())
    print()
    for what, seconds in spent.items():
        print(f"{what:<26}{seconds:>8.1f} s{seconds / total:>7.0%}")
    models = len(members) * len(FUNCTIONS)
    print(
        f"{'all':<26}{total:>8.1f} s  for {models} models, {arguments.steps} steps (bar: {BAR:g})"
    )
    return 0


def _stepping(marks: list[tuple[int, float]], steps: int) -> float:
    """Seconds between progress reports of one batch; the first report of the next starts anew."""
    return sum(
        t1 - t0
        for (before, t0), (after, t1) in itertools.pairwise(marks)
        if (before - 1) // steps == (after - 1) // steps
    )


if __name__ == "__main__":
    sys.exit(main())
