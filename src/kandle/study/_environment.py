"""The environment of a worker process before JAX starts: one thread, and a compilation cache."""

import contextlib
import functools
import os
import platform

from kandle._cache import cache_limit, processor, programs_directory, prune
from kandle._text import printable

ONE_THREAD = {
    "PJRT_NPROC": "1",  # XLA's own pool; it ignores the usual XLA_FLAGS
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


def prepare() -> None:
    """Set up this process to train; JAX must not have started yet.

    Compiled programs are stored on disk and shared by processes.
    """
    for name, value in ONE_THREAD.items():
        os.environ.setdefault(name, value)
    # Workers share a GPU, if there is one.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        programs = programs_directory()
        with contextlib.suppress(OSError):  # a cache that cannot be read is no reason to stop
            prune(programs.parent, cache_limit())
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(programs)
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")


@functools.cache
def machine() -> str:
    """The kind of this machine: the device that JAX uses."""
    import jax

    device = jax.devices()[0]
    if device.platform != "cpu":
        return _as_name(f"{device.platform} {device.device_kind}")
    return _as_name(f"{platform.machine()} {processor()['model']}")


def _as_name(text: str) -> str:
    """`text` without what a name must not contain."""
    return printable(text).replace("/", "-").replace("\\", "-").strip()
