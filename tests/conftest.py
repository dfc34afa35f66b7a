"""What all tests share."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import jax
import jaxlib
import jaxtyping
import pytest
import typechecker
from jax._src.interpreters import mlir

# A shell's background job is started with SIGINT ignored, and so would be the programs under test.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Most of the suite's time is XLA compiling small programs that run once: without optimization, with
# its older emitters and with one LLVM module per program it compiles four times faster. Only
# versions known to have these options are given them (XLA ends the process at an option it does not
# know), and only this process is: programs that the tests start compile as they do for users, and
# so do tests marked `optimized`.
OPTIMIZED = "KANDLE_TESTS_OPTIMIZED"
QUICKLY = (
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false "
    "--xla_cpu_parallel_codegen_split_count=1"
)
QUICK = jaxlib.__version__.startswith("0.10.") and OPTIMIZED not in os.environ
if QUICK:
    flags = os.environ.get("XLA_FLAGS")
    os.environ["XLA_FLAGS"] = f"{QUICKLY} {flags or ''}"
    jax.devices()
    if flags is None:
        del os.environ["XLA_FLAGS"]
    else:
        os.environ["XLA_FLAGS"] = flags


@pytest.fixture(scope="session")
def quickly_compiling():
    """An environment for programs whose compiled code does not matter to the test."""
    flags = {"XLA_FLAGS": f"{QUICKLY} {os.environ.get('XLA_FLAGS', '')}"} if QUICK else {}
    return {**os.environ, **flags}


def pytest_pyfunc_call(pyfuncitem):
    """Run a test marked `optimized` in a process of its own, which compiles as users do."""
    if not QUICK or pyfuncitem.get_closest_marker("optimized") is None:
        return None
    where = pyfuncitem.config.rootpath
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    result = subprocess.run(
        [*command, pyfuncitem.nodeid],
        cwd=where,
        env={**os.environ, OPTIMIZED: "1"},
        capture_output=True,
        text=True,
    )
    if result.returncode:
        pytest.fail(result.stdout + result.stderr, pytrace=False)
    return True


@pytest.fixture(scope="module", autouse=True)
def _one_mlir_context():
    """Lower the programs of a module in one MLIR context.

    JAX makes a context for each program, which takes a third of the time of compiling a small one.
    """
    make = getattr(mlir, "make_ir_context", None)
    if not QUICK or make is None:
        yield
        return
    context = make()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mlir, "make_ir_context", lambda: context)
        yield


# Traced programs are many small objects that live long; looking through all of them for cycles
# again and again would take a tenth of the time.
gc.set_threshold(50_000, 20, 100)

# Shapes in annotations are checked at every call. The hook must be there before anything of the
# package is imported; programs that the tests start run without it.
typechecker.install()

# The tests use the name of today's JAX; the package itself must not (`test_compat.py`).
if not hasattr(jax, "enable_x64"):
    from jax.experimental import enable_x64

    jax.enable_x64 = enable_x64


@pytest.fixture(scope="module", autouse=True)
def _bounded_memory():
    """Forget compiled programs after a module once a process holds two gigabytes."""
    yield
    with contextlib.suppress(OSError):  # only Linux has this file
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        if pages * os.sysconf("SC_PAGE_SIZE") > 2e9:
            jax.clear_caches()
            gc.collect()


_raises = pytest.raises


@contextlib.contextmanager
def _raises_unchecked(*args, **kwargs):
    """`pytest.raises` with the annotations unchecked: there, bad input is the point."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        with _raises(*args, **kwargs) as caught:
            yield caught
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


pytest.raises = _raises_unchecked
