"""The environment of a worker process before JAX starts: one thread, and a compilation cache."""

import contextlib
import functools
import hashlib
import importlib.metadata
import os
import platform
from pathlib import Path

from kandle._text import printable
from kandle.study._cache import cache_directory, cache_limit, prune

ONE_THREAD = {
    "PJRT_NPROC": "1",  # XLA's own pool; it ignores the usual XLA_FLAGS
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


def prepare() -> None:
    """Set up this process to train; JAX must not have started yet.

    Compiled programs are stored on disk and shared by processes. JAX does not check that a stored
    program fits the machine, so the name of the folder contains all that it depends on.
    """
    for name, value in ONE_THREAD.items():
        os.environ.setdefault(name, value)
    # Workers share a GPU, if there is one.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        programs = cache_directory() / "programs"
        with contextlib.suppress(OSError):  # a cache that cannot be read is no reason to stop
            prune(programs, cache_limit())
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(programs / machine_key())
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")


@functools.cache
def machine_key() -> str:
    """A key for what a compiled program depends on: jaxlib, the processor, the native kernels."""
    digest = hashlib.sha256(_processor()["flags"].encode())
    for library in sorted((Path(__file__).parent.parent / "kernels").rglob("*.so")):
        digest.update(library.read_bytes())
    jaxlib = importlib.metadata.version("jaxlib")
    return f"{jaxlib}-{platform.machine()}-{digest.hexdigest()[:12]}"


@functools.cache
def machine() -> str:
    """The kind of this machine: the device that JAX uses."""
    import jax

    device = jax.devices()[0]
    if device.platform != "cpu":
        return _as_name(f"{device.platform} {device.device_kind}")
    return _as_name(f"{platform.machine()} {_processor()['model']}")


def _as_name(text: str) -> str:
    """`text` without what a name must not contain."""
    return printable(text).replace("/", "-").replace("\\", "-").strip()


def _processor() -> dict[str, str]:
    found = {"flags": "", "model": platform.processor()}
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        name, _, value = line.partition(":")
        match name.strip():
            case "flags" | "Features":
                found["flags"] = value.strip()
            case "model name":
                found["model"] = value.strip()
            case "":  # the next core: all are alike
                break
    return found
