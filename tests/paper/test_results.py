"""The results that come with the project: packed, verified, truthful about what they cover."""

import json
import sqlite3
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
import synthetic

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import pack_results

from kandle import study
from kandle.cli import main
from kandle.cli._results import describe
from kandle.store import Store, StoreError, read_manifest
from kandle.store._packed import MANIFEST, PACKED

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "results"


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KANDLE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """A packed store of a few synthetic runs, with the manifest."""
    folder = tmp_path_factory.mktemp("packed")
    runs = synthetic.grid_study(problems=("f1",), shapes=[(5, 4, 1)], exponents=(0.25, 1.0))
    synthetic.write_store(
        folder / "store", runs, synthetic.curves_study(problems=("f1",), points=9)
    )
    made = pack_results.build(
        [folder / "store"], folder / "out", commit="c" * 40, command="kandle …"
    )
    return folder / "out", made, folder / "store"


def test_packing_keeps_every_run_curve_and_result(packed):
    directory, made, source = packed
    with Store.open(source) as before, Store.open(directory) as after:
        assert before.frame().equals(after.frame())
        wanted = before.frame("curves-functions")["identity"].tolist()
        old, new = before.curves(wanted), after.curves(wanted)
        assert all((old[i].loss == new[i].loss).all() for i in wanted)
    assert read_manifest(directory) == json.loads(json.dumps(made))
    assert made["studies"]["functions"]["runs"] == 32
    assert made["studies"]["functions"]["overnight"] == [16, 7440]
    assert not made["studies"]["functions"]["complete_at_overnight"]


def test_packing_extends_what_is_packed(packed, tmp_path):
    """The one command that adds finished runs to the results: old and new stores, one of them
    written in the format of version 0.1.0."""
    old = tmp_path / "old"
    more = synthetic.feynman(problems=("I.6.2",), seeds=1, power_seeds=1)
    synthetic.write_store(old, more)
    with sqlite3.connect(old / "runs.sqlite") as database:
        database.execute("DROP TABLE schemes")
        database.execute("PRAGMA user_version = 2")
    for name in (PACKED, MANIFEST):
        (tmp_path / name).write_bytes((packed[0] / name).read_bytes())
    made = pack_results.build([tmp_path, old], tmp_path, commit="d" * 40, command="kandle …")
    assert made["studies"]["functions"] == packed[1]["studies"]["functions"]
    assert made["studies"]["feynman"]["runs"] == len(more) == 6
    with Store.open(tmp_path) as joined, Store.open(packed[0]) as before:
        assert len(joined) == len(before) + 6
    assert "feynman" in "\n".join(describe(made))


def test_writing_a_packed_store_is_refused(packed, capsys):
    directory = packed[0]
    with pytest.raises(StoreError, match="read only"):
        Store.open(directory, "w")
    options = ["--problems", "f1", "--grids", "3", "--widths", "2", "--depths", "1"]
    assert main(["study", "run", "functions", "--store", str(directory), *options]) == 2
    assert "read only" in capsys.readouterr().err
    assert sorted(p.name for p in directory.iterdir()) == [MANIFEST, PACKED]


@pytest.mark.parametrize("file", [PACKED, MANIFEST])
def test_a_damaged_store_is_refused(packed, tmp_path, file, monkeypatch):
    monkeypatch.setenv("KANDLE_CACHE_DIR", str(tmp_path / "cache"))
    for name in (PACKED, MANIFEST):
        data = (packed[0] / name).read_bytes()
        (tmp_path / name).write_bytes(data)
    data = bytearray((tmp_path / file).read_bytes())
    data[len(data) // 2] ^= 1
    if file == MANIFEST:
        data = bytes(data).replace(b'"sha256": "', b'"sha256": "0')
    (tmp_path / file).write_bytes(data)
    with pytest.raises(StoreError, match=r"checksum differs|not readable|does not match"):
        Store.open(tmp_path)


def test_a_directory_called_results_wins(tmp_path, monkeypatch, packed):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    with pytest.raises(StoreError, match="There is no store at results"):
        Store.open("results")
    synthetic.write_store(tmp_path / "results", synthetic.feynman(problems=("I.6.2",), seeds=1))
    with Store.open("results") as store:
        assert store.studies().keys() == {"feynman"}


def test_without_the_results_it_says_where_to_get_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("kandle.store._packed.__file__", str(tmp_path / "a/b/c/_packed.py"))
    with pytest.raises(StoreError, match="not part of this installation"):
        Store.open("results")


# the shipped results ---------------------------------------------------------------------------

shipped = pytest.mark.skipif(not SHIPPED.is_dir(), reason="the results are not in this checkout")


@shipped
def test_the_shipped_results_match_their_manifest_and_the_plan(tmp_path, monkeypatch):
    manifest = read_manifest(SHIPPED)
    assert manifest["bytes"] == (SHIPPED / PACKED).stat().st_size <= pack_results.LIMIT
    with Store.open(SHIPPED) as store:
        frame = store.frame()
        identities = pack_results.finished_identities(store)
    assert frame["status"].value_counts().to_dict() == manifest["status"]
    # Truthful: counted anew from the store and the plans.
    assert pack_results.coverage(identities) == manifest["studies"]
    for name, part in manifest["studies"].items():
        assert part["unplanned"] == 0, name
        planned = {spec.identity for spec in study.plan(study.get(name), "overnight").specs}
        missing = planned - identities.get(name, set())
        assert part["complete_at_overnight"] == (not missing)
    full = {"functions": 2000, "feynman": 2000, "pdes": 5000}
    for name, steps in full.items():
        assert set(frame.loc[frame["study"].eq(name), "steps"]) <= {steps}


@shipped
def test_every_command_reads_the_shipped_results_from_anywhere(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["results"]) == 0
    assert "Verified" in capsys.readouterr().out
    assert main(["table", "3", "--store", "results", "--format", "csv"]) == 0
    assert capsys.readouterr().out.startswith("problem,scheme,loss,l2")
    assert main(["study", "status", "--store", "results"]) == 0
    assert "feynman" in capsys.readouterr().out
    assert main(["figure", "fig1", "--store", "results", "--out", "fig1.svg"]) == 0
    assert main(["reproduce", "fig1", "--scale", "smoke", "--store", "results"]) == 2
    assert "read only" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()
