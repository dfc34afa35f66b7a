"""Kernels that are missing, foreign or built for another jaxlib: one warning, and `dense`."""

import importlib.metadata
import os
import subprocess
import sys
import textwrap
import warnings

import jaxlib
import pytest

from kandle import _native, kernels
from kandle.kernels import _library

needs_native = pytest.mark.skipif(
    kernels.default_backend() != "native", reason="the native backend is not available here"
)


def load_again():
    """What `library` does the first time, with the warnings it gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        return _library.library.__wrapped__(), caught


def assert_unavailable(reason):
    library, caught = load_again()
    assert library is None
    assert [w.category for w in caught] == [_library.NativeUnavailable]
    assert reason in str(caught[0].message)
    assert "'dense'" in str(caught[0].message)


@needs_native
@pytest.mark.parametrize("change", [(1, 0), (-1, 0), (0, -1)], ids=["newer", "older", "minor"])
def test_kernels_built_for_another_ffi_are_not_registered(monkeypatch, change):
    library = _native.open_library()
    major, minor = library.kandle_ffi_api_major(), library.kandle_ffi_api_minor()
    here = major + change[0], minor + change[1]
    monkeypatch.setattr(_library, "_installed_ffi_version", lambda: here)
    monkeypatch.setattr("jax.ffi.register_ffi_target", lambda *_, **__: pytest.fail("registered"))
    assert_unavailable(f"they were built for XLA FFI {major}.{minor}")


def test_missing_kernels_give_one_warning(monkeypatch):
    monkeypatch.setattr("kandle._native.find", lambda: None)
    assert_unavailable("not built")


def test_a_damaged_library_gives_one_warning(monkeypatch, tmp_path):
    damaged = tmp_path / "libkandle_kernels.so"
    damaged.write_bytes(b"\x7fELF and nothing more")
    monkeypatch.setattr("kandle._native.find", lambda: damaged)
    assert_unavailable("not available")


@needs_native
def test_kernels_of_an_older_version_give_one_warning(monkeypatch):
    monkeypatch.setattr(_library, "_HANDLERS", (*_library._HANDLERS, "added_since"))
    monkeypatch.setattr("jax.ffi.register_ffi_target", lambda *_, **__: pytest.fail("registered"))
    assert_unavailable("another version of Kandle, without kandle_added_since_f32; install Kandle")


@needs_native
def test_a_jaxlib_without_headers_gives_one_warning(monkeypatch, tmp_path):
    monkeypatch.setattr(jaxlib, "__file__", str(tmp_path / "__init__.py"))
    assert_unavailable("not available")


PROGRAM = textwrap.dedent(
    """
    import warnings
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        import numpy as np
        from kandle import kernels, problems
        from kandle.train import Architecture, train
        square = [(-1.0, 1.0)] * 2
        problem = problems.Function(lambda x, y: x * y, square, name="product", n_train=40)
        (result,) = train(problem, Architecture(2, 1, 3), [("glorot", 0)], steps=20)
    named = [str(w.message) for w in caught if w.category.__name__ == "NativeUnavailable"]
    assert len(named) == 1, named
    assert "KANDLE_DISABLE_NATIVE" in named[0]
    assert kernels.default_backend() == "dense"
    assert result.status == "ok" and np.isfinite(result.loss)
    try:
        kernels.total(np.ones(3), "native")
    except ValueError as error:
        assert "could not be loaded" in str(error)
    else:
        raise AssertionError("a backend that is not there was used")
    print("trained")
    """
)


def test_training_without_native_kernels_works_after_exactly_one_warning():
    environment = {
        **os.environ,
        "KANDLE_DISABLE_NATIVE": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "trained" in done.stdout


@needs_native
def test_the_kernels_say_what_they_are():
    assert _library.instruction_set() in {
        "portable",
        "x86_64_v2",
        "x86_64_v3",
        "x86_64_v4",
        "native",
    }
    assert len(_native.fingerprint()) == 16
    assert _library.fma_rate() > 1e8


def test_a_library_on_the_import_path_is_not_opened(monkeypatch, tmp_path):
    planted = tmp_path / "kandle" / "kernels" / "libkandle_kernels.so"
    planted.parent.mkdir(parents=True)
    planted.write_bytes(b"anything")
    monkeypatch.delenv("KANDLE_KERNELS", raising=False)
    found = _native.find()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert _native.find() == found != planted


def test_without_an_installed_package_only_the_folder_of_the_module_is_searched(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(_native, "__file__", str(tmp_path / "_native.py"))
    monkeypatch.delenv("KANDLE_KERNELS", raising=False)
    (tmp_path / "kernels").mkdir()
    monkeypatch.setattr(importlib.metadata, "files", lambda name: None)
    assert _native.find() is None
    beside = tmp_path / "kernels" / "libkandle_kernels.so"
    beside.write_bytes(b"anything")
    assert _native.find() == beside
