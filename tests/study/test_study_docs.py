"""The examples of the documentation are what they say."""

import re
import subprocess
from pathlib import Path

import pytest

from kandle import study
from kandle.cli import main

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


@pytest.mark.parametrize("number", range(3))
def test_the_cluster_scripts_are_bash(number, tmp_path):
    script = blocks("cluster.md", "bash")[number]
    path = tmp_path / "job.sh"
    path.write_text(script)
    assert script.startswith("#!/bin/bash\n#SBATCH")
    subprocess.run(["bash", "-n", str(path)], check=True)


def test_the_study_file_is_a_study(tmp_path, monkeypatch):
    (declared,) = blocks("study-files.md", "toml")
    path = tmp_path / "gains.toml"
    declared = declared.replace("mypackage.problems:wave", "study_problem:wave")
    path.write_text(declared.replace("mypackage.schemes:Shrunk", "study_problem:Shrunk"))
    found = study.get(path)
    # 4 architectures × 2 rates × 2 schedules × (5 + 3 · 3 + 4 · 5 + 2) on each problem
    assert len(found.specs()) == 3 * 4 * 4 * 36
    assert {spec.steps for spec in study.plan(found, "smoke").specs} == {10}
    assert {spec.problem for spec in study.plan(found, "quick").specs} == {"f1"}


def test_the_own_problem_and_scheme_can_be_planned(tmp_path, monkeypatch, capsys):
    (code,) = (block for block in blocks("study-files.md", "python") if "# waves.py" in block)
    (tmp_path / "waves.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    (line,) = (
        line
        for block in blocks("study-files.md", "console")
        for line in block.splitlines()
        if "waves:Shrunk" in line
    )
    words = line.removeprefix("$ kandle study run ").split()
    assert main(["study", "plan", *words[: words.index("--store")]]) == 0
    assert "5 runs" in capsys.readouterr().out
