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


def test_an_interrupt_within_the_import_of_jax_comes_after_it(tmp_path):
    """An exception there would end the process with a crash of C++."""
    (tmp_path / "jax.py").write_text(
        "import os, signal, time\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
        "time.sleep(0.2)\n"
        "print('imported')\n"
    )
    code = (
        "import signal, sys, time\n"
        "from kandle.cli._main import interrupt\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "signal.signal(signal.SIGINT, interrupt)\n"
        "import jax\n"
        "try:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    print('interrupted')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["imported", "interrupted"], done.stderr


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
