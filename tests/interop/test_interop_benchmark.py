"""The benchmark of other libraries' starts runs, shortened; without a library it says so."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "interop.py"
SHORT = ["--problems", "f2", "--seeds", "2", "--steps", "3", "--rows", "32"]


def load():
    spec = importlib.util.spec_from_file_location("benchmark_interop", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("library", ["pykan", "jaxkan"])
def test_both_starts_are_trained_and_compared(library, capsys):
    benchmark = load()
    if any(importlib.util.find_spec(package) is None for package in benchmark.PACKAGES[library]):
        pytest.skip(f"{library} is not installed")
    [row] = benchmark.main(["--libraries", library, *SHORT])
    assert row["ratio"] == pytest.approx(row["default"] / row["kandle"])
    assert row["default"] != row["kandle"]
    assert f"{library:8} f2" in capsys.readouterr().out


@pytest.mark.parametrize(("library", "package"), [("pykan", "kan"), ("jaxkan", "jaxkan")])
def test_a_missing_library_is_one_line(library, package, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\n"
        "find = u.find_spec\n"
        f"u.find_spec = lambda name, *a: None if name == {package!r} else find(name, *a)\n"
    )
    folders = [str(tmp_path), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))}
    command = [sys.executable, str(BENCHMARK), "--libraries", library, *SHORT]
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert run.returncode == 1
    assert run.stdout == ""
    [line] = run.stderr.strip().splitlines()
    assert f"pip install 'kandle[{library}]'" in line
