"""A store file of an earlier version: runs of every scheme, on functions and PDEs, with spectra."""

import gzip
import json
from pathlib import Path

import pytest

from kandle import study
from kandle.store import RunSpec, Store, merge

FILE = Path(__file__).parent / "data" / "format-2.sqlite.gz"
SCHEMES = """
name = "{name}"
problems = {problems}
architectures = ["{architecture}"]
steps = {steps}
draws = "{draws}"
[[schemes]]
name = "baseline"
seeds = 1
[[schemes]]
name = "lecun-numerical"
seeds = 1
[[schemes]]
name = "lecun-normalized"
seeds = 1
[[schemes]]
name = "glorot"
seeds = 1
[[schemes]]
name = "power-law"
seeds = 1
alpha = [0.25]
beta = [1.0, 1.75]
[[schemes]]
name = "quiet"
seeds = 1
[[schemes]]
name = "quiet"
seeds = 1
spread = 0.5
"""
STUDIES = {
    "base": (["f1", "burgers"], "small", 60, "independent"),
    "base-large": (["f2"], "large", 12, "independent"),
    "base-published": (["f3", "burgers"], "small", 60, "published"),
}


@pytest.fixture
def old(tmp_path):
    (tmp_path / "runs.sqlite").write_bytes(gzip.decompress(FILE.read_bytes()))
    return tmp_path


def test_every_identity_recomputes(old):
    with Store.open(old) as store:
        records = list(store.records())
        frame = store.frame()
    assert len(records) == len(frame) == 44
    assert [RunSpec.from_dict(found).identity for _, found, _ in records] == [
        identity for identity, _, _ in records
    ]
    assert set(frame["scheme"]) == {
        *("baseline", "lecun-numerical", "lecun-normalized", "glorot", "power-law", "quiet")
    }
    assert (frame["status"] == "ok").all()
    assert all(outcome.curve is not None for _, _, outcome in records)
    assert sum(len(outcome.spectra) for _, _, outcome in records) == 20


@pytest.mark.parametrize("name", STUDIES)
def test_the_runs_of_the_same_study_are_done(old, tmp_path, name):
    problems, architecture, steps, draws = STUDIES[name]
    path = tmp_path / "study.toml"
    path.write_text(
        SCHEMES.format(
            name=name,
            problems=json.dumps(problems),
            architecture=architecture,
            steps=steps,
            draws=draws,
        )
    )
    plan = study.plan(study.get(path))
    assert plan.runs == 8 * len(problems)
    with Store.open(old) as store:
        assert store.missing(plan.specs) == []


def test_the_built_in_runs_are_done(old):
    plan = study.plan(study.get("ntk-functions"), "smoke", study.Axes(problems=("f1",)))
    with Store.open(old) as store:
        assert store.missing(plan.specs) == []


def test_writing_to_it_changes_nothing_that_is_there(old, tmp_path):
    with Store.open(old) as store:
        before = store.frame()
        curves = {k: v.loss.tolist() for k, v in store.curves().items()}
    with Store.open(old, "w") as store, Store.open(tmp_path / "new", "w") as copy:
        assert merge(copy, store).added == 44
        assert merge(store, copy).kept == 44
    for directory in (old, tmp_path / "new"):
        with Store.open(directory) as store:
            assert store.frame().equals(before)
            assert {k: v.loss.tolist() for k, v in store.curves().items()} == curves
