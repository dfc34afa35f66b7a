"""The version is written once; what repeats it must agree."""

import importlib.metadata
import re
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


def _text(name: str) -> str:
    return (ROOT / name).read_text()
