"""Runners that stand in for training: quick, deterministic, and ill-behaved on demand.

A run's numbers are made from its identity alone, as a real run's depend on its configuration.
"""

import os
import signal
import tempfile
import time
from pathlib import Path

import numpy as np

from kandle.store import Curve, Outcome, Spectrum
from kandle.study import RunSpec


def outcome(spec: RunSpec) -> Outcome:
    rng = np.random.default_rng(int(spec.identity[:12], 16))
    steps = np.unique(np.geomspace(1, spec.steps, 200).astype(np.int64))
    loss, l2, robust, mse = rng.random(4)
    diverged = rng.random() < 0.1
    return Outcome(
        "diverged" if diverged else "ok",
        diverged_at=int(rng.integers(spec.steps)) if diverged else None,
        loss=float("nan") if diverged else float(loss),
        l2=float(l2),
        l2_robust=float(robust),
        test_mse=float(mse) if not spec.rba else float("nan"),
        wall_s=time.monotonic() % 1,
        machine="fake",
        backend="fake",
        version="0",
        curve=Curve(steps, rng.random(len(steps), dtype=np.float32)),
        spectra=(Spectrum("ntk", 0, rng.random(4)), Spectrum("ntk", spec.steps, rng.random(4))),
    )


def train(specs):
    time.sleep(0.002 * len(specs))
    return [outcome(spec) for spec in specs]


def slowly(specs):
    time.sleep(0.05 * len(specs))
    return [outcome(spec) for spec in specs]


def very_slowly(specs):
    time.sleep(0.2 * len(specs))
    return [outcome(spec) for spec in specs]


def logged(specs):
    """Train, and leave a trace of what was begun in the file that FAKE_LOG names."""
    with open(os.environ["FAKE_LOG"], "a") as log:
        log.writelines(f"{spec.identity}\n" for spec in specs)
    time.sleep(0.03 * len(specs))
    return [outcome(spec) for spec in specs]


def endless(specs):
    """Never return, and leave this process's id where `endless_process` finds it."""
    path = _endless(specs[0].study)
    path.with_suffix(".new").write_text(str(os.getpid()))
    path.with_suffix(".new").rename(path)
    time.sleep(600)
    return []


def endless_process(study):
    """The process that trains a study endlessly; None before it begins."""
    path = _endless(study)
    return int(path.read_text()) if path.exists() else None


def _endless(study):
    return Path(tempfile.gettempdir()) / f"kandle-endless-{study}"


def crashing_at_seed_3(specs):
    if any(spec.seed == 3 for spec in specs):
        os.kill(os.getpid(), signal.SIGKILL)
    return [outcome(spec) for spec in specs]


def raising_at_seed_3(specs):
    if any(spec.seed == 3 for spec in specs):
        raise MemoryError("no room for seed 3")
    return [outcome(spec) for spec in specs]


def leaving(specs):
    print("the disk is on fire")
    os._exit(7)


def environment(specs):
    """Outcomes that tell, as their reason, what the worker's environment holds it to."""
    settings = os.environ.get("PJRT_NPROC", ""), os.environ.get("JAX_COMPILATION_CACHE_DIR", "")
    return [Outcome("ok", reason=" ".join(settings)) for _ in specs]
