"""Ctrl-C, whenever it comes."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from kandle.cli._main import interrupt

PROGRAM = [sys.executable, "-c", "from kandle.cli import main; raise SystemExit(main())"]


def test_an_interrupt_that_would_be_dropped_comes_again():
    def _xla_gc_callback():
        return sys._getframe()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        interrupt(signal.SIGINT, _xla_gc_callback())  # silent, for now
        with pytest.raises(KeyboardInterrupt):
            time.sleep(10)
    finally:
        signal.signal(signal.SIGINT, before)
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGINT, sys._getframe())


@pytest.mark.parametrize("after", [2.0, 5.0])
def test_fit_ends_with_130_and_no_crash_and_leaves_nothing(tmp_path, after):
    x = np.random.default_rng(0).uniform(-1, 1, (200, 3))
    table = tmp_path / "data.csv"
    np.savetxt(table, x, delimiter=",", header="a,b,y", comments="")
    options = ["--target", "y", "--steps", "2000000", "--no-early-stopping"]
    options += ["--out", tmp_path / "model.safetensors"]
    process = subprocess.Popen(
        [*PROGRAM, "fit", table, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    _, text = process.communicate(timeout=120)
    assert process.returncode == 130, text
    assert "kandle: interrupted" in text
    assert "Traceback" not in text
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]
