"""Check that the compiled kernels fit the installed jaxlib, and register them with XLA.

The shared object holds no Python: it is opened with ctypes, and each of its handlers is registered
under a name that carries a version, because cached executables refer to handlers by name.
"""

import ctypes
import functools
import hashlib
import re
import warnings
from pathlib import Path

import jax
import jaxlib

from kandle._native import NativeUnavailable, open_library

_VERSION = "v1"
_HANDLERS = (
    "jet_forward",
    "jet_backward_x",
    "jet_backward_w",
    "jet_backward_xw",
    "trilinear_y",
    "trilinear_a",
    "trilinear_w",
    "pair_a",
    "pair_w",
    "total",
    "adam_update",
    "adam_apply",
    "global_forward",
    "global_backward_x",
    "global_backward_w",
    "global_backward_xw",
    "fit",
    "network",
    "fit_global",
)


def target(handler: str, dtype) -> str:
    """The name under which XLA knows a handler, for float32 or float64 operands."""
    return f"kandle_{handler}_f{8 * dtype.itemsize}_{_VERSION}"


def _installed_ffi_version() -> tuple[int, int]:
    header = Path(jaxlib.__file__).parent / "include" / "xla" / "ffi" / "api" / "c_api.h"
    text = header.read_text()
    major, minor = (
        re.search(rf"#define XLA_FFI_API_{part} (\d+)", text) for part in ("MAJOR", "MINOR")
    )
    if major is None or minor is None:
        raise OSError("the installed jaxlib does not say which FFI version it has")
    return int(major[1]), int(minor[1])


def _open() -> ctypes.CDLL:
    library = open_library()
    built = library.kandle_ffi_api_major(), library.kandle_ffi_api_minor()
    here = _installed_ffi_version()
    # A handler built for a newer FFI than jaxlib's takes the whole CPU backend down when called.
    if built[0] != here[0] or built[1] > here[1]:
        raise OSError(
            f"they were built for XLA FFI {built[0]}.{built[1]}, jaxlib has {here[0]}.{here[1]}"
        )
    lacking = [s for s in _symbols() if not hasattr(library, s)]
    if lacking:
        raise OSError(
            f"they were built from another version of Kandle, without {lacking[0]}; "
            "install Kandle again"
        )
    return library


def _symbols() -> list[str]:
    """The functions of the library that XLA calls."""
    return [f"kandle_{handler}_f{bits}" for handler in _HANDLERS for bits in (32, 64)]


@functools.cache
def library() -> ctypes.CDLL | None:
    """The kernels, registered; None, after one warning, where they cannot be used."""
    try:
        opened = _open()
    except (OSError, AttributeError) as error:
        warnings.warn(
            f"Kandle's native kernels are not available: {error}. "
            "Using the slower 'dense' backend.",
            NativeUnavailable,
            stacklevel=2,
        )
        return None
    for symbol in _symbols():
        handler = jax.ffi.pycapsule(getattr(opened, symbol))
        jax.ffi.register_ffi_target(f"{symbol}_{_VERSION}", handler, platform="cpu")
    return opened


@functools.cache
def fingerprint() -> str:
    """A short hash of the compiled kernels and the instruction set chosen, or "none"."""
    opened = library()
    if opened is None:
        return "none"
    digest = hashlib.sha256(Path(opened._name).read_bytes())
    digest.update(opened.kandle_isa())
    return digest.hexdigest()[:16]


def instruction_set() -> str:
    """The instruction set whose kernels run here, "none" without them."""
    opened = library()
    return "none" if opened is None else opened.kandle_isa().decode()


def fma_rate() -> float:
    """Floating-point operations per second of one core on fused multiply-adds, measured now."""
    opened = library()
    return float("nan") if opened is None else float(opened.kandle_fma_rate())
