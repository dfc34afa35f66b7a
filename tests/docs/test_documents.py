"""What the README and the documentation show must run, and what they link to must exist."""

import importlib.util
import re
import tomllib
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = (
    *("README.md", "docs/quickstart.md", "docs/ntk.md", "docs/schemes/index.md"),
    *("docs/other-libraries.md", "docs/coming-from-pykan.md", "docs/pdes.md", "docs/tables.md"),
    *("docs/least-squares.md", "docs/bases.md", "docs/schemes/data.md", "docs/index.md"),
    *("docs/guides/export.md", "docs/guides/own-scheme.md", "docs/guides/own-basis.md"),
    "docs/reference/file-formats.md",
)
PYTHON = re.compile(r"(?:<!-- needs: ([^>]*) -->\n)?```python\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_python_blocks_run(document, tmp_path, monkeypatch):
    """The blocks of a document run one after the other, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    blocks = PYTHON.findall((ROOT / document).read_text())
    assert blocks
    names: dict = {}
    for needs, code in blocks:
        if any(importlib.util.find_spec(module) is None for module in needs.split()):
            continue
        with warnings.catch_warnings():
            if needs:  # other people's packages warn as they please
                warnings.simplefilter("ignore")
            exec(compile(code, document, "exec"), names)


def test_the_study_file_in_the_readme_is_one(tmp_path):
    from kandle import study

    (code,) = re.findall(r"```toml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert tomllib.loads(code)
    path = tmp_path / "gains.toml"
    path.write_text(code)
    assert study.plan(study.get(path)).runs == 2 * 2 * 2 * (5 + 3 * 5)


def test_the_tables_of_which_initialization_are_those_of_the_runs():
    pytest.importorskip("pyarrow")
    path = ROOT / "benchmarks" / "which_initialization.py"
    spec = importlib.util.spec_from_file_location("which_initialization", path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    page = program.PAGE.read_text()
    assert program.rewritten(page) == page


@pytest.mark.parametrize(
    "document", ["README.md", *(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/**/*.md"))]
)
def test_links_lead_somewhere(document):
    path = ROOT / document
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), target


def test_commands_in_the_documents_exist():
    from kandle.cli._main import build_parser

    shown = set()
    for document in ("README.md", *DOCUMENTS[1:], "docs/reproduction.md"):
        shown |= set(re.findall(r"(?<!from )\bkandle ([a-z]{3,})\b", (ROOT / document).read_text()))
    (commands,) = [action.choices for action in build_parser()._actions if action.dest == "command"]
    assert {"reproduce", "study", "export"} <= shown
    assert shown <= set(commands or ())
