"""Latency of the exported C function, one row per call.

python benchmarks/export_latency.py [--compiler cc] [--rounds 7]
"""

import argparse
import itertools
import subprocess
import tempfile
from pathlib import Path

import jax

from kandle import KAN, export

NETWORKS = [([2, 8, 8, 1], 5), ([2, 32, 32, 32, 1], 20), ([20, 64, 64, 1], 8)]

_TIMER = """
#include <stdio.h>
#include <time.h>
void kandle_predict(const double *x, double *y);
int main(void)
{
    enum { ROWS = 256, CALLS = %(calls)d };
    static double x[ROWS][%(n_in)d], y[%(n_out)d];
    double best = 1e30, sum = 0.0;
    unsigned state = 1u;
    for (int n = 0; n < ROWS; ++n)
        for (int i = 0; i < %(n_in)d; ++i) {
            state = state * 1664525u + 1013904223u;
            x[n][i] = (state >> 8) / 8388608.0 - 1.0;
        }
    for (int round = 0; round < %(rounds)d; ++round) {
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        for (int n = 0; n < CALLS; ++n) {
            kandle_predict(x[n %% ROWS], y);
            sum += y[0];
        }
        clock_gettime(CLOCK_MONOTONIC, &b);
        double s = (b.tv_sec - a.tv_sec + 1e-9 * (b.tv_nsec - a.tv_nsec)) / CALLS;
        if (s < best)
            best = s;
    }
    printf("%%.9f %%g\\n", best, sum);
    return 0;
}
"""


def latency(widths: list[int], grid: int, compiler: str, rounds: int) -> float:
    """Seconds per call: the fastest of the rounds, each of about 0.1 s."""
    edges = sum(a * b for a, b in itertools.pairwise(widths))
    settings = {"n_in": widths[0], "n_out": widths[-1], "rounds": rounds}
    with tempfile.TemporaryDirectory() as folder:
        source = export.export(
            KAN(widths, grid=grid, key=jax.random.key(0)), Path(folder) / "model.c"
        )
        timer = Path(folder) / "timer.c"
        timer.write_text(_TIMER % {**settings, "calls": max(1000, 20_000_000 // edges)})
        program = str(Path(folder) / "timer")
        files = [str(source), str(timer)]
        subprocess.run([compiler, "-std=gnu99", "-O2", *files, "-o", program, "-lm"], check=True)
        run = subprocess.run([program], capture_output=True, text=True, check=True)
    return float(run.stdout.split()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compiler", default="cc")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    print("| network | G | one row |\n| --- | --- | --- |")
    for widths, grid in NETWORKS:
        seconds = latency(widths, grid, options.compiler, options.rounds)
        print(f"| {widths} | {grid} | {1e6 * seconds:.2f} µs |", flush=True)


if __name__ == "__main__":
    main()
