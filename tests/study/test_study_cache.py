"""The cache of compiled programs: bounded, and shared by processes."""

import os
import subprocess
import sys

import pytest

from kandle._errors import UserError
from kandle.study._cache import cache_limit, prune


def fill(folder, count, size=1000):
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(count):
        path = folder / f"program{i:03d}"
        path.write_bytes(bytes(size))
        os.utime(path, (1_000_000 + i, 1_000_000 + i))


def test_the_oldest_programs_go_first_whatever_machine_they_are_for(tmp_path):
    fill(tmp_path / "one", 10)
    fill(tmp_path / "other", 5)
    assert prune(tmp_path, 9_500) == 9_000
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("p*"))
    assert left == [f"one/program{i:03d}" for i in range(3, 10)] + [
        f"other/program{i:03d}" for i in (3, 4)
    ]
    assert prune(tmp_path, 9_000) == 9_000


def test_a_folder_that_is_not_there(tmp_path):
    assert prune(tmp_path / "none", 0) == 0


def test_processes_may_prune_while_others_write(tmp_path):
    code = (
        "import sys; from pathlib import Path; from kandle.study._cache import prune\n"
        "folder, name = Path(sys.argv[1]), sys.argv[2]\n"
        "for i in range(60):\n"
        "    (folder / f'{name}-{i}').write_bytes(bytes(1000))\n"
        "    prune(folder, 20_000)\n"
    )
    tmp_path.joinpath("x").mkdir()
    processes = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "x"), f"p{i}"])
        for i in range(3)
    ]
    assert [process.wait(120) for process in processes] == [0, 0, 0]
    size = sum(path.stat().st_size for path in (tmp_path / "x").iterdir())
    assert 0 < size <= 20_000 + 3 * 1000  # what is written between looking and deleting


def test_workers_share_a_cache_whose_entries_may_be_cut_off(tmp_path):
    """A killed process leaves half an entry: the program is compiled again, to the same effect."""
    code = (
        "from kandle.study._environment import prepare; prepare()\n"
        "import jax, jax.numpy as jnp\n"
        "jax.config.update('jax_persistent_cache_min_compile_time_secs', 0)\n"
        "print(float(jax.jit(lambda x: jnp.sin(x) @ x)(jnp.arange(5.0))))"
    )
    environment = {**os.environ, "KANDLE_CACHE_DIR": str(tmp_path)}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)

    def run():
        command = [sys.executable, "-W", "ignore", "-c", code]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout

    first = run()
    entries = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert entries
    for path in entries:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert run() == first


def test_the_limit_is_a_setting(monkeypatch):
    monkeypatch.setenv("KANDLE_CACHE_MB", "3")
    assert cache_limit() == 3_000_000
    monkeypatch.setenv("KANDLE_CACHE_MB", "lots")
    with pytest.raises(UserError, match="KANDLE_CACHE_MB must be a whole number of megabytes"):
        cache_limit()
