"""What a worker process needs around it before JAX starts: one thread, and a compilation cache."""

import functools
import hashlib
import importlib.metadata
import os
import platform
from pathlib import Path

ONE_THREAD = {
    "PJRT_NPROC": "1",  # XLA's own pool; it ignores the usual XLA_FLAGS
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


def prepare() -> None:
    """Set up this process to train; JAX must not have started yet.

    Compiled programs are kept on disk from one process to the next. Neither JAX nor the processor
    checks that a stored program fits the machine, so the folder is named after all it depends on.
    """
    for name, value in ONE_THREAD.items():
        os.environ.setdefault(name, value)
    # Workers share a GPU, if there is one.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(
            cache_directory() / "programs" / machine_key()
        )
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")


def cache_directory() -> Path:
    """Where Kandle keeps what can be made again: `KANDLE_CACHE_DIR`, or the user's cache folder."""
    if own := os.environ.get("KANDLE_CACHE_DIR"):
        return Path(own)
    if platform.system() == "Darwin":
        return Path.home() / "Library" / "Caches" / "kandle"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kandle"


@functools.cache
def machine_key() -> str:
    """A name for what a compiled program depends on: jaxlib, the processor, the native kernels."""
    digest = hashlib.sha256(_processor()["flags"].encode())
    for library in sorted((Path(__file__).parent.parent / "kernels").rglob("*.so")):
        digest.update(library.read_bytes())
    jaxlib = importlib.metadata.version("jaxlib")
    return f"{jaxlib}-{platform.machine()}-{digest.hexdigest()[:12]}"


@functools.cache
def machine() -> str:
    """The kind of machine that this is: the device that JAX computes on."""
    import jax

    device = jax.devices()[0]
    if device.platform != "cpu":
        return f"{device.platform} {device.device_kind}"
    return f"{platform.machine()} {_processor()['model']}".strip()


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
