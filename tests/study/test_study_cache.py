"""The cache of compiled programs: bounded, and shared by processes."""

import os
import subprocess
import sys

import pytest

from kandle import UserError, _native
from kandle._cache import cache_limit, prune


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
        "import sys; from pathlib import Path; from kandle._cache import prune\n"
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


def printed_by(code, environment, **variables):
    """What a process prints that looks for compiled programs below its own cache folder."""
    environment = {**environment, **{name: str(value) for name, value in variables.items()}}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


FOLDER = (
    "from kandle.study._environment import prepare; prepare()\n"
    "import os, sys; assert 'jax' not in sys.modules\n"
    "print(os.environ['JAX_COMPILATION_CACHE_DIR'])"
)


@pytest.mark.skipif(_native.fingerprint() == "none", reason="needs the native kernels")
def test_programs_of_other_kernels_are_kept_apart(tmp_path):
    """Whichever library is loaded: that of an editable install lies elsewhere than the package."""
    installed = _native.find().read_bytes()
    same, other = tmp_path / "same.so", tmp_path / "other.so"
    same.write_bytes(installed)
    other.write_bytes(installed + b"\0")  # the loader does not read what follows the last section

    def folder(**variables):
        return printed_by(FOLDER, os.environ, KANDLE_CACHE_DIR=tmp_path, **variables)

    as_installed = folder()
    assert folder(KANDLE_KERNELS=same) == as_installed
    assert folder(KANDLE_KERNELS=other) != as_installed
    assert folder(KANDLE_DISABLE_NATIVE=1) not in (as_installed, folder(KANDLE_KERNELS=other))


def test_a_fit_uses_the_programs_of_studies_without_loading_them(tmp_path, quickly_compiling):
    fit = (
        "import sys; import numpy as np; from kandle import KANRegressor\n"
        "x = np.linspace(0, 1, 40)[:, None]\n"
        "KANRegressor(layers=(2,), n_networks=1, smoothness=0, max_iter=2).fit(x, x[:, 0])\n"
        "print([name for name in sys.modules if name.startswith(('kandle.study', 'kandle.store'))])"
    )
    variables = {"KANDLE_CACHE_DIR": tmp_path}
    assert printed_by(fit, quickly_compiling, **variables) == "[]"
    folders = [str(path) for path in (tmp_path / "programs").iterdir()]
    assert folders == [printed_by(FOLDER, quickly_compiling, **variables)]


def test_the_limit_is_a_setting(monkeypatch):
    monkeypatch.setenv("KANDLE_CACHE_MB", "3")
    assert cache_limit() == 3_000_000
    monkeypatch.setenv("KANDLE_CACHE_MB", "lots")
    with pytest.raises(UserError, match="KANDLE_CACHE_MB must be a whole number of megabytes"):
        cache_limit()
