"""Open the compiled kernels, without JAX and without PyTorch.

The shared object holds no Python. XLA's handlers are registered by `kandle.kernels`; the plain C
functions in it (`kandle_c_…`) are called by `kandle.torch`.
"""

import ctypes
import functools
import hashlib
import importlib.metadata
import os
from pathlib import Path

_NAME = "libkandle_kernels.so"


class NativeUnavailable(RuntimeWarning):
    """The native kernels cannot be used here; slower operations take their place."""


def find() -> Path | None:
    """The compiled kernels: beside the package or, of an editable install, where it put them.

    No other folder is searched, since what is found here is executed. `KANDLE_KERNELS` names
    another build, for those who work on the kernels.
    """
    if named := os.environ.get("KANDLE_KERNELS"):
        return Path(named)
    wanted = ("kandle", "kernels", _NAME)
    beside = Path(__file__).parent.joinpath(*wanted[1:])
    if beside.is_file():
        return beside
    try:
        files = importlib.metadata.files("kandle") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    installed = (Path(str(file.locate())) for file in files if file.parts == wanted)
    return next((path for path in installed if path.is_file()), None)


def open_library() -> ctypes.CDLL:
    """The opened shared object, or an `OSError` that says why there is none."""
    if os.environ.get("KANDLE_DISABLE_NATIVE"):
        raise OSError("KANDLE_DISABLE_NATIVE is set")
    path = find()
    if path is None:
        raise OSError("they were not built (no C++ compiler at installation?)")
    library = ctypes.CDLL(str(path))
    library.kandle_isa.restype = ctypes.c_char_p
    library.kandle_fma_rate.restype = ctypes.c_double
    return library


@functools.cache
def fingerprint() -> str:
    """A short hash of the compiled kernels and the instruction set they chose, or "none"."""
    try:
        library = open_library()
    except (OSError, AttributeError):  # AttributeError: built from another version of Kandle
        return "none"
    digest = hashlib.sha256(Path(library._name).read_bytes())
    digest.update(library.kandle_isa())
    return digest.hexdigest()[:16]
