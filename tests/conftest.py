"""What all tests share."""

import contextlib
import signal

import jax
import jaxtyping
import pytest

# A shell's background job is started with SIGINT ignored, and so would be the programs under test.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Shapes in annotations are checked at every call. The hook must be there before anything of the
# package is imported; programs that the tests start run without it.
jaxtyping.install_import_hook("kandle", "typechecker.check_arrays")

# The tests use the name of today's JAX; the package itself must not (`test_compat.py`).
if not hasattr(jax, "enable_x64"):
    from jax.experimental import enable_x64

    jax.enable_x64 = enable_x64

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
