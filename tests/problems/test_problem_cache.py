"""A reference is computed once, and again whenever its file cannot be trusted."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from kandle._cache import cache_directory
from kandle.problems._cache import kept


class Counted:
    def __init__(self):
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return x**2


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("KANDLE_CACHE_DIR", str(tmp_path))
    return tmp_path / "references"


def test_second_call_reads(folder):
    compute, x = Counted(), np.arange(5.0)
    for _ in range(3):
        np.testing.assert_array_equal(kept("square-1", compute, x), x**2)
    assert compute.calls == 1
    assert [path.suffix for path in folder.iterdir()] == [".bin"]  # no temporary file is left


def test_name_and_arguments_are_the_key(folder):
    compute, x = Counted(), np.arange(4.0)
    kept("square-1", compute, x)
    kept("square-2", compute, x)
    kept("square-1", compute, x + 1)
    assert kept("square-1", compute, x.reshape(2, 2)).shape == (2, 2)
    assert compute.calls == 4


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-1], lambda b: b"", lambda b: b[:99] + b"!" + b[100:]]
)
def test_damaged_file_is_replaced(folder, damage):
    compute, x = Counted(), np.arange(50.0)
    kept("square-1", compute, x)
    (path,) = folder.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    np.testing.assert_array_equal(kept("square-1", compute, x), x**2)
    assert compute.calls == 2
    kept("square-1", compute, x)
    assert compute.calls == 2


def test_a_race_does_no_harm(folder):
    compute, x = Counted(), np.arange(10_000.0)
    with ThreadPoolExecutor(8) as pool:
        for value in pool.map(lambda _: kept("square-1", compute, x), range(64)):
            np.testing.assert_array_equal(value, x**2)
    assert len(list(folder.iterdir())) == 1


def test_unusable_folder_is_no_error(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("KANDLE_CACHE_DIR", str(blocked))
    np.testing.assert_array_equal(kept("square-1", Counted(), np.arange(3.0)), [0, 1, 4])


def test_directory_follows_the_platform(monkeypatch):
    monkeypatch.delenv("KANDLE_CACHE_DIR")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/some/cache")
    assert cache_directory().as_posix() == "/some/cache/kandle"
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", "/local")
    assert cache_directory().as_posix() == "/local/kandle"
    monkeypatch.setattr("sys.platform", "darwin")
    assert cache_directory().as_posix().endswith("Library/Caches/kandle")
