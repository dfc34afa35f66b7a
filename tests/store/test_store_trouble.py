"""Locks, readers beside a writer, and everything that can be wrong with a disk or a file."""

import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kandle.store import Curve, Outcome, Spectrum, Store, StoreError, writer
from kandle.store import _place as place
from kandle.store import _schema as schema
from kandle.store._blobs import pack
from kandle.study import RunSpec

STEPS = np.unique(np.geomspace(1, 2000, 230).astype(int))


def spec(seed):
    return RunSpec("functions", "f3", "glorot", 5, 8, 2, seed)


def outcome(seed=0):
    rng = np.random.default_rng(seed)
    return Outcome(
        "ok",
        loss=float(rng.random()),
        l2=0.5,
        curve=Curve(STEPS, rng.random(len(STEPS), np.float32)),
    )


def filled(directory, runs=20):
    with Store.open(directory, "w") as store:
        store.add_many([(spec(seed), outcome(seed)) for seed in range(runs)])
    return directory


def count(directory):
    with Store.open(directory) as store:
        return len(store)


def test_there_is_one_writer(tmp_path):
    with Store.open(tmp_path, "w"):
        with pytest.raises(StoreError, match=f"being written by process {os.getpid()} on "):
            Store.open(tmp_path, "w")
        assert writer(tmp_path).startswith(f"process {os.getpid()} on ")
    assert writer(tmp_path) is None
    Store.open(tmp_path, "w").close()


def test_the_lock_of_a_killed_writer_is_gone(tmp_path):
    code = (
        "import sys, time; from kandle.store import Store; s = Store.open(sys.argv[1], 'w');"
        "print('open', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    with process.stdout:
        assert process.stdout.readline() == b"open\n"
        with pytest.raises(StoreError, match=f"process {process.pid} on "):
            Store.open(tmp_path, "w")
        process.kill()
        process.wait()
    Store.open(tmp_path, "w").close()


def test_a_reader_sees_whole_transactions_while_a_writer_writes(tmp_path):
    runs, stop, polls = 400, threading.Event(), []
    results = [(spec(seed), outcome(seed)) for seed in range(runs)]
    Store.open(tmp_path, "w").close()

    def poll():
        while not stop.is_set():
            with Store.open(tmp_path) as store:
                polls.append(len(store.frame()))

    reader = threading.Thread(target=poll)
    reader.start()
    try:
        with Store.open(tmp_path, "w") as store:
            for i in range(0, runs, 16):
                store.add_many(results[i : i + 16])
                # Let the reader look before the next transaction, at least now and then.
                until = len(polls) + (i % 64 == 0)
                while len(polls) < until and reader.is_alive():
                    time.sleep(0.001)
    finally:
        stop.set()
        reader.join()
    assert len(set(polls)) > 3
    assert polls == sorted(polls)
    assert all(count % 16 == 0 for count in polls)
    assert count(tmp_path) == runs


def test_no_store(tmp_path):
    with pytest.raises(StoreError, match=r"There is no store at .*runs\.sqlite is missing"):
        Store.open(tmp_path)


def test_a_newer_format_is_refused_and_left_alone(tmp_path):
    filled(tmp_path)
    connection = sqlite3.connect(tmp_path / "runs.sqlite")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = (tmp_path / "runs.sqlite").read_bytes()
    for mode in "rw":
        with pytest.raises(StoreError, match=r"written by a newer Kandle \(format 99"):
            Store.open(tmp_path, mode)
    assert (tmp_path / "runs.sqlite").read_bytes() == before


def test_an_older_format_is_read_as_it_is_and_brought_up_when_written(tmp_path):
    filled(tmp_path)
    values = np.array([2.0, 1.0])
    with_spectrum = replace(outcome(99), spectra=(Spectrum("ntk", 0, values, values / 3),))
    with sqlite3.connect(tmp_path / "runs.sqlite") as old:
        old.execute("ALTER TABLE spectra DROP COLUMN error_share")
        for column in ("curve_sum", "spectra_sum", "checksum"):
            old.execute(f"ALTER TABLE runs DROP COLUMN {column}")
        old.execute("ALTER TABLE sessions DROP COLUMN checksum")
        old.execute("DROP TABLE schemes")
        old.execute("DROP TABLE digests")
        old.execute("PRAGMA user_version = 1")
        old.execute("INSERT INTO spectra VALUES (1, 'ntk', 0, ?)", (pack(values),))
    old.close()
    with Store.open(tmp_path) as store:
        (only,) = store.spectra().values()
        assert only[0].error_share is None
        np.testing.assert_array_equal(only[0].eigenvalues, values)
    with Store.open(tmp_path, "w") as store:
        store.add(spec(99), with_spectrum)
    with contextlib.closing(sqlite3.connect(tmp_path / "runs.sqlite")) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)
        assert file.execute("SELECT study, runs FROM digests").fetchall() == [("functions", 21)]
    with Store.open(tmp_path) as store:
        shares = [spectrum.error_share for (spectrum,) in store.spectra().values()]
    assert shares[0] is None
    np.testing.assert_array_equal(shares[1], values / 3)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE curves SET loss = x'66' || randomblob(40)",  # as text
        "UPDATE curves SET loss = CAST(x'66' || randomblob(40) AS BLOB)",
        "UPDATE curves SET steps = x''",
        "UPDATE runs SET configuration = substr(configuration, 2)",
    ],
)
def test_what_cannot_be_unpacked_is_reported_as_damage(tmp_path, statement):
    with contextlib.closing(sqlite3.connect(filled(tmp_path) / "runs.sqlite")) as file:
        file.execute(statement)
        file.commit()
    with Store.open(tmp_path) as store, pytest.raises(StoreError, match="damaged"):
        list(store.records())


def test_a_store_in_the_making_is_empty_not_damaged(tmp_path):
    (tmp_path / "runs.sqlite").touch()
    with pytest.raises(StoreError, match="is empty: nothing is stored there yet"):
        Store.open(tmp_path)
    assert len(Store.open(tmp_path, "w").frame()) == 0


@pytest.mark.parametrize("mode", ["r", "w"])
def test_another_file_is_refused_and_left_alone(tmp_path, mode):
    path = tmp_path / "runs.sqlite"
    path.write_bytes(b"no database at all, but rather long " * 100)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="damaged or not a Kandle store"):
        Store.open(tmp_path, mode)
    assert path.read_bytes() == before
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE cats (name)")
    connection.close()
    with pytest.raises(StoreError, match="another program's database"):
        Store.open(tmp_path, mode)


@pytest.mark.parametrize("harm", ["overwritten", "truncated"])
def test_a_damaged_file_is_told_and_left_alone(tmp_path, harm):
    path = filled(tmp_path, 200) / "runs.sqlite"
    data = bytearray(path.read_bytes())
    if harm == "overwritten":
        data[8192 : len(data) // 2] = os.urandom(len(data) // 2 - 8192)
    else:
        del data[len(data) // 2 :]
    path.write_bytes(data)
    with pytest.raises(StoreError, match="damaged"):
        Store.open(tmp_path, "w")
    with pytest.raises(StoreError, match="damaged"), Store.open(tmp_path) as store:
        list(store.records())
    assert path.read_bytes() == data
    assert writer(tmp_path) is None


def test_a_full_disk_loses_nothing(tmp_path):
    """The limit on the size of a file stands in for a full disk: writes beyond it fail alike."""
    filled(tmp_path, 20)
    code = (
        "import sys, resource; sys.path.insert(0, sys.argv[2]); import test_store_trouble as t;"
        "from kandle.store import Store;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000));"
        "s = Store.open(sys.argv[1], 'w');"
        "[s.add(t.spec(i), t.outcome(i)) or print(i, flush=True) for i in range(20, 2000)]"
    )
    output = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), str(Path(__file__).parent)],
        capture_output=True,
        text=True,
    )
    assert "StoreError: No room left to write" in output.stderr
    assert "All runs stored so far are safe" in output.stderr
    acknowledged = [int(line) for line in output.stdout.split()]
    assert acknowledged
    with Store.open(tmp_path, "w") as store:
        kept = set(store.frame()["seed"])
        assert kept >= {*range(20), *acknowledged}
        store.add(spec(9999), outcome())


def test_a_store_that_may_only_be_read():
    """As another user where the tests run as root, whom permissions do not stop."""
    code = (
        "import os, sys, pandas; from kandle.store import Store, StoreError\n"
        "if os.geteuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "with Store.open(sys.argv[1]) as s: print(len(s), len(s.frame()), len(s.curves()))\n"
        "try: Store.open(sys.argv[1], 'w')\n"
        "except StoreError as error: print(error)"
    )
    with tempfile.TemporaryDirectory() as directory:
        store = filled(Path(directory) / "store")
        (store / "writer.lock").unlink()
        os.chmod(directory, 0o755)
        for path in (*store.iterdir(), store):
            path.chmod(0o555 if path.is_dir() else 0o444)
        output = subprocess.run(
            [sys.executable, "-c", code, str(store)], capture_output=True, text=True
        )
        store.chmod(0o755)
    assert output.stderr == ""
    assert output.stdout.splitlines()[0] == "20 20 20"
    assert "cannot be written here (Permission denied)" in output.stdout


def test_runs_in_the_log_are_read_where_no_log_can_be_shared(tmp_path, monkeypatch):
    """A killed writer leaves runs in the log; on a network filesystem they must be read as well."""
    code = (
        "import sys, os; sys.path.insert(0, sys.argv[2]); import test_store_trouble as t;"
        "from kandle.store import Store; s = Store.open(sys.argv[1], 'w');"
        "[s.add(t.spec(i), t.outcome(i)) for i in range(5)]; os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path), str(Path(__file__).parent)])
    assert (tmp_path / "runs.sqlite-wal").stat().st_size > 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr(schema, "on_network", lambda path: True)
    assert count(tmp_path) == 5
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


MOUNTS = r"""22 1 254:0 / / rw,relatime - ext4 /dev/root rw
30 22 0:25 / /home rw,relatime shared:1 - nfs4 server:/home rw,vers=4.2
31 30 254:1 / /home/me/local rw - xfs /dev/sdb1 rw
32 22 0:30 / /mnt/my\040share rw - cifs //server/share rw
33 22 0:31 / /scratch rw - lustre mds:/scratch rw
34 22 0:32 / /far rw - fuse.sshfs me@far: rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/tmp/x", "ext4"),
        ("/home/me/store", "nfs4"),
        ("/home/me/local/store", "xfs"),
        ("/homeless", "ext4"),
        ("/mnt/my share/store", "cifs"),
        ("/scratch/me", "lustre"),
        ("/far/away", "fuse.sshfs"),
    ],
)
def test_filesystems_are_told_apart(tmp_path, path, kind):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert place.filesystem(Path(path), mounts) == kind
    assert (kind in place._NETWORK) == (kind not in ("ext4", "xfs"))
    assert place.filesystem(Path(path), tmp_path / "none") == ""


def test_a_network_filesystem_is_read_but_not_written(tmp_path, monkeypatch):
    filled(tmp_path)
    monkeypatch.setattr(place, "filesystem", lambda path: "nfs4")
    with pytest.raises(StoreError, match=r"network filesystem \(nfs4\).*--shard I/N.*study merge"):
        Store.open(tmp_path, "w")
    assert count(tmp_path) == 20
    from kandle.store import merge

    with Store.open(tmp_path) as source:
        monkeypatch.undo()
        with Store.open(tmp_path.with_name("local"), "w") as target:
            assert merge(target, source).added == 20
