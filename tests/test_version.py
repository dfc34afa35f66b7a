"""The version is written once; what repeats it must agree."""

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import kandle

ROOT = Path(__file__).parents[1]


def test_the_installed_package_has_it():
    assert importlib.metadata.version("kandle") == kandle.__version__


def test_the_citation_names_the_newest_release():
    citation = dict(
        re.findall(r"^(version|date-released): \"?([^\"\n]+)", _text("CITATION.cff"), re.M)
    )
    releases = re.findall(r"^## \[([\d.]+)\] - (\d{4}-\d\d-\d\d)$", _text("CHANGELOG.md"), re.M)
    assert (citation["version"], citation["date-released"]) == releases[0]
    assert releases[0][0] == kandle.__version__.partition(".dev")[0]
    assert [date for _, date in releases] == sorted((date for _, date in releases), reverse=True)


def test_no_other_file_states_it():
    """`pyproject.toml` reads it from the package."""
    project = _text("pyproject.toml").partition("[project]")[2].partition("\n[")[0]
    assert 'dynamic = ["version"]' in project
    assert "\nversion" not in project


def test_the_oldest_releases_that_are_tested_are_those_declared():
    project = _text("pyproject.toml")
    (listed,) = re.findall(r"^dependencies = \[\n(.*?)^\]", project, re.M | re.S)
    declared = dict(re.findall(r'"([a-z]+)>=([\d.]+)', listed))
    tested = dict(re.findall(r"^([a-z]+)==([\d.]+)$", _text("tests/oldest.txt"), re.M))
    assert tested.pop("jaxlib") == tested["jax"]
    assert set(tested) == set(declared)
    for name, version in tested.items():
        assert f"{version}.".startswith(f"{declared[name]}."), name


def _text(name: str) -> str:
    return (ROOT / name).read_text()


def test_the_package_runs_as_a_program():
    run = [sys.executable, "-m", "kandle", "--version"]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"kandle {kandle.__version__}"
