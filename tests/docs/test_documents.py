"""What the README and the documentation show must run, and what they link to must exist."""

import importlib.util
import re
import tomllib
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = (
    *("docs/quickstart.md", "docs/ntk.md", "docs/schemes/index.md"),
    *("docs/other-libraries.md", "docs/coming-from-pykan.md", "docs/pdes.md"),
    *("docs/least-squares.md", "docs/bases.md", "docs/schemes/data.md", "docs/index.md"),
    *("docs/guides/export.md", "docs/guides/own-scheme.md", "docs/guides/own-basis.md"),
    *("docs/reference/file-formats.md", "docs/reference/tables.md"),
)
NUMBER = re.compile(r"-?\d+\.\d+")
SHOWN = re.compile(r"^print\(.*\)  # (?P<number>-?[\d.]+)$")
PYTHON = re.compile(r"(?:<!-- needs: ([^>]*) -->\n)?```python\n(.*?)```", re.DOTALL)


def run_blocks(document: str) -> list[str]:
    """Run a document's blocks of Python whose packages are installed, and return them."""
    names: dict = {}
    blocks = []
    for needs, code in PYTHON.findall((ROOT / document).read_text()):
        if any(importlib.util.find_spec(module) is None for module in needs.split()):
            continue
        with warnings.catch_warnings():
            if needs:  # other people's packages warn as they please
                warnings.simplefilter("ignore")
            exec(compile(code, document, "exec"), names)
        blocks.append(code)
    return blocks


@pytest.mark.parametrize("document", DOCUMENTS)
def test_python_blocks_run(document, tmp_path, monkeypatch):
    """The blocks of a document run one after the other, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    assert run_blocks(document)


def test_the_readme_shows_what_its_blocks_print(tmp_path, monkeypatch, capsys):
    """The last line of every block is a `print`, and the comment behind it is the result."""
    monkeypatch.chdir(tmp_path)
    blocks = run_blocks("README.md")
    assert blocks
    shown = [SHOWN.search(code.rstrip().splitlines()[-1]) for code in blocks]
    expected = [float(match["number"]) for match in shown if match is not None]
    printed = [float(number) for number in NUMBER.findall(capsys.readouterr().out)]
    assert len(expected) == len(blocks)
    assert printed == pytest.approx(expected, abs=0.02)


def test_the_readme_fits_on_its_page():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 100


def test_the_study_file_in_the_quick_start_is_one(tmp_path):
    from kandle import study

    text = (ROOT / "docs/quickstart.md").read_text()
    (code,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    assert tomllib.loads(code)
    path = tmp_path / "gains.toml"
    path.write_text(code)
    assert study.plan(study.get(path)).runs == 2 * 2 * 2 * (5 + 3 * 5)


def test_the_answers_of_which_initialization_are_in_its_tables():
    """A ratio with its interval, as `**3.6** [3.1, 4.1]`."""
    ratio = re.compile(r"\*\*[\d.]+\*\* \[[\d.]+, [\d.]+\]")
    answers = ratio.findall((ROOT / "docs/which-initialization.md").read_text())
    tables = (ROOT / "docs/which-initialization-tables.md").read_text()
    assert len(answers) > 10
    assert [answer for answer in answers if answer not in tables] == []


def test_limits_of_the_kernels_are_those_in_the_code():
    page = (ROOT / "docs/kernel-limits.md").read_text()
    rows = re.findall(r"^\| `([^`]+)` \| (`[^|]+`) \|", page, re.MULTILINE)
    assert len(rows) > 30
    for constant, files in rows:
        for file in re.findall(r"`([^`]+)`", files):
            assert constant in (ROOT / file).read_text(), f"{constant} in {file}"


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
    for document in ("README.md", *DOCUMENTS, "docs/reproduction.md"):
        shown |= set(re.findall(r"(?<!from )\bkandle ([a-z]{3,})\b", (ROOT / document).read_text()))
    (commands,) = [action.choices for action in build_parser()._actions if action.dest == "command"]
    assert {"reproduce", "study", "export"} <= shown
    assert shown <= set(commands or ())
