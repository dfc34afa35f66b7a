"""Damage is noticed: single bits, vanished rows, deleted files. Nothing is silently wrong."""

import random
import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from store_flips import Readings, flip, readings

from kandle import UserError
from kandle.cli import main
from kandle.store import (
    Curve,
    Outcome,
    RunSpec,
    SchemeLook,
    Spectrum,
    Store,
    StoreError,
    StoreMoved,
    merge,
    repair,
    verify,
)


def spec(seed):
    return RunSpec("functions", "f3", "glorot", 5, 8, 2, seed)


def outcome(seed):
    rng = np.random.default_rng(seed)
    return Outcome(
        "ok",
        loss=float(rng.random()),
        l2=0.5,
        machine="m",
        curve=Curve(np.arange(1, 40), rng.random(39, np.float32)),
        spectra=(Spectrum("ntk", 0, rng.random(5), rng.random(5, np.float32)),),
    )


@pytest.fixture
def store(tmp_path):
    directory = tmp_path / "store"
    with Store.open(directory, "w") as opened:
        number = opened.begin_session("functions", "paper", "kandle", planned=30, done=0)
        opened.add_many([(spec(seed), outcome(seed)) for seed in range(30)], session=number)
        opened.add_schemes({("mine:Own", ""): SchemeLook("Own", "#123456")})
        opened.end_session(number, "complete")
    return directory


def change(directory, statement):
    with closing(sqlite3.connect(directory / "runs.sqlite")) as file:
        file.execute(statement)
        file.commit()


def outcome_of(read):
    """What `read` returns, or the error that it ends in."""
    try:
        return read()
    except UserError as error:
        return error


def test_an_undamaged_store(store):
    found = verify(store)
    assert (found.intact, found.unchecked, found.damaged) == (30, 0, ())
    assert repair(store).backup is None


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE runs SET loss = loss + 1e-16 WHERE id = 7", "its configuration or results"),
        ("UPDATE runs SET status = 'diverged' WHERE id = 7", "its configuration or results"),
        ("UPDATE runs SET machine = 'n' WHERE id = 7", "its configuration or results"),
        ("UPDATE runs SET checksum = 'x' WHERE id = 7", "its configuration or results"),
        (
            "UPDATE runs SET configuration = replace(configuration, '8', '9') WHERE id = 7",
            "its configuration or results",
        ),
        ("UPDATE curves SET loss = steps WHERE run = 7", "its curve was changed or lost"),
        ("DELETE FROM curves WHERE run = 7", "its curve was changed or lost"),
        ("UPDATE spectra SET step = 1 WHERE run = 7", "its spectra were changed or lost"),
        ("UPDATE spectra SET error_share = NULL WHERE run = 7", "its spectra were changed"),
    ],
)
def test_a_damaged_run_is_named_dropped_and_trained_again(store, statement, named, capsys):
    change(store, statement)
    (line,) = verify(store).damaged
    assert line.startswith(f"run {spec(6).identity[:12]} of study 'functions': {named}")
    with Store.open(store) as opened, pytest.raises(StoreError, match="has 1 damaged record"):
        list(opened.records())
    assert main(["study", "verify", "--store", str(store)]) == 1
    assert line in capsys.readouterr().out
    assert main(["study", "verify", "--repair", "--store", str(store)]) == 0
    assert f"dropped {line}" in capsys.readouterr().out
    assert main(["study", "verify", "--store", str(store)]) == 0
    assert (store / "runs.sqlite.damaged").exists()
    with Store.open(store, "w") as opened:
        assert opened.missing([spec(seed) for seed in range(30)]) == [spec(6)]
        assert len(opened.curves()) == len(opened.spectra()) == 29
        assert opened.schemes() == {("mine:Own", ""): ("Own", "#123456")}
        assert [session.done for session in opened.sessions().values()] == [30]
        opened.add(spec(6), outcome(6))
    assert verify(store).damaged == ()


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("DELETE FROM runs WHERE id = 7", "study 'functions' (29 runs found, 30 recorded)"),
        ("UPDATE digests SET runs = 31", "study 'functions' (30 runs found, 31 recorded)"),
        ("UPDATE sessions SET planned = 31", "session 1"),
        ("UPDATE schemes SET label = 'Other'", "scheme 'mine:Own': its label or color"),
    ],
)
def test_other_damage_is_named_too(store, statement, named):
    change(store, statement)
    (line,) = verify(store).damaged
    assert named in line
    assert repair(store).kept == 30 - statement.startswith("DELETE")
    assert verify(store).damaged == ()


def test_reading_commands_refuse_damaged_runs(store, tmp_path, capsys):
    change(store, "UPDATE runs SET loss = 0 WHERE id = 7")
    for command in (
        ["status", "--store", str(store)],
        ["export", "--store", str(store), "--out", str(tmp_path / "rows.csv")],
        ["merge", str(store), "--store", str(tmp_path / "other")],
    ):
        assert main(["study", *command]) == 2
        assert "1 damaged record: run " in capsys.readouterr().err
    assert not (tmp_path / "rows.csv").exists()
    assert not (tmp_path / "other").exists()


def test_a_merge_that_finds_a_damaged_curve_leaves_no_empty_store(store, tmp_path, capsys):
    change(store, "UPDATE curves SET loss = steps WHERE run = 7")
    merge = ["study", "merge", str(store), "--store", str(tmp_path / "other")]
    assert main(merge) == 2
    assert "damaged" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_a_session_without_a_checksum_is_checked_for_its_kinds(store):
    change(store, "UPDATE sessions SET checksum = NULL")
    with Store.open(store) as opened:
        assert len(opened.sessions()) == 1
    change(store, "UPDATE sessions SET planned = 'many'")
    with Store.open(store) as opened, pytest.raises(StoreError, match="session 1"):
        opened.sessions()


def test_random_flips_are_never_silent(store, tmp_path):
    """Every bit of the file may flip: what is read is right, or an error says that it is not."""
    expected = readings(store)
    original = (store / "runs.sqlite").read_bytes()
    chance, seen = random.Random(0), {"noticed": 0, "harmless": 0}
    for i in range(80):
        copy = tmp_path / f"copy{i}"
        copy.mkdir()
        (copy / "runs.sqlite").write_bytes(flip(original, chance))
        found = outcome_of(lambda: readings(copy))  # noqa: B023
        if isinstance(found, UserError):
            assert "\n" not in str(found)
            seen["noticed"] += 1
        else:
            assert found == expected, f"flip {i} was read back as other values"
            seen["harmless"] += 1
        shutil.rmtree(copy)
    assert min(seen.values()) > 5


def test_a_flipped_store_can_be_repaired(store, tmp_path):
    original = (store / "runs.sqlite").read_bytes()
    chance, repaired = random.Random(1), 0
    for i in range(20):
        copy = tmp_path / f"copy{i}"
        copy.mkdir()
        (copy / "runs.sqlite").write_bytes(flip(original, chance))
        try:
            repair(copy)
        except UserError:
            continue  # the head of the file, without which nothing can be read
        found = verify(copy)
        assert found.damaged == ()
        repaired += found.intact
        with Store.open(copy, "w") as opened:  # what is left is as it was
            opened.add_many([(spec(seed), outcome(seed)) for seed in range(30)])
        assert isinstance(readings(copy), Readings)
        shutil.rmtree(copy)
    assert repaired > 10 * 25


def test_a_deleted_or_replaced_file_is_noticed_at_the_next_write(store, tmp_path):
    opened = Store.open(store, "w")
    shutil.move(store, tmp_path / "elsewhere")
    with pytest.raises(StoreMoved, match="was deleted"):
        opened.add(spec(99), outcome(99))
    opened.save_copy(tmp_path / "saved")
    opened.close()
    with Store.open(tmp_path / "saved", "w") as saved:
        assert saved.missing([spec(seed) for seed in range(30)]) == []
    opened = Store.open(tmp_path / "saved", "w")
    shutil.copy(tmp_path / "saved" / "runs.sqlite", tmp_path / "new")
    shutil.move(tmp_path / "new", tmp_path / "saved" / "runs.sqlite")
    with pytest.raises(StoreMoved, match="was deleted"):
        opened.add(spec(98), outcome(98))
    opened.close()


def test_merging_old_and_new_formats_keeps_checks(store, tmp_path):
    with Store.open(store) as source, Store.open(tmp_path / "merged", "w") as target:
        assert merge(target, source).added == 30
    assert verify(tmp_path / "merged").unchecked == 0
