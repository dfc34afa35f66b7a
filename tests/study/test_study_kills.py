"""Processes are really killed here, and nothing may be lost, made twice or left behind."""

import importlib.util
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from study_processes import alive, children, command_of, descendants, until
from study_rows import assert_same, rows

from kandle import study
from kandle.store import Store, StoreError
from kandle.study import LocalExecutor, _batch

HERE = Path(__file__).parent
DRIVER = [sys.executable, str(HERE / "study_driver.py")]


def stored(directory):
    try:
        with Store.open(directory) as store:
            return {row.identity for row in store.rows()}
    except StoreError:  # there is none yet
        return set()


linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def test_a_driver_killed_at_twenty_moments(tmp_path, plan, expected):
    directory, log = tmp_path / "store", tmp_path / "log"
    log.touch()
    environment = {**os.environ, "FAKE_LOG": str(log)}
    chance = random.Random(0)
    acknowledged: set[str] = set()
    kills = 0
    while kills < 20:
        begun = len(log.read_text().splitlines())
        process = subprocess.Popen(
            [*DRIVER, str(directory), "study_fake:logged"],
            env=environment,
            stdout=subprocess.DEVNULL,
        )
        # A moment of the run, not of the start of Python: counted from the first batch begun.
        while len(log.read_text().splitlines()) == begun and process.poll() is None:
            time.sleep(0.01)
        time.sleep(chance.uniform(0.0, 0.25))
        process.kill()
        process.wait()
        kills += 1
        begun_now = log.read_text().splitlines()[begun:]
        assert not acknowledged & set(begun_now), "a stored run was made again"
        now = stored(directory)
        assert acknowledged <= now, "a stored run was lost"
        acknowledged = now
    assert len(acknowledged) > 0
    subprocess.run(
        [*DRIVER, str(directory), "study_fake:logged"],
        env=environment,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    assert_same(rows(directory), expected)
    # More than a handful of the kills must have hit a run under way.
    assert len(log.read_text().splitlines()) > plan.runs + 20


@linux
def test_a_killed_driver_leaves_no_workers_behind(tmp_path):
    process = subprocess.Popen(
        [*DRIVER, str(tmp_path), "study_fake:endless"], stdout=subprocess.DEVNULL
    )
    workers = until(lambda: (found := children(process.pid)) and len(found) == 2 and found)
    process.kill()
    process.wait()
    until(lambda: not any(alive(worker) for worker in workers), 5)


def test_the_lifeline_alone_ends_a_worker():
    """Where the kernel does not tell a process that its parent died, the end of a pipe does."""
    read, write = os.pipe()
    code = (
        "import sys, time; from kandle.study._worker import _end_with; sys.platform = 'elsewhere';"
        f"_end_with({os.getpid()}, {read}); print('up', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], pass_fds=[read], stdout=subprocess.PIPE
    )
    os.close(read)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"up\n"
        os.close(write)
        assert process.wait(5) == 1


def test_killed_workers_are_replaced_and_their_batches_retried(
    tmp_path, plan, expected, notes, monkeypatch
):
    monkeypatch.setattr(_batch, "_MOST_RUNS", 8)
    made = []

    def executor():
        made.append(LocalExecutor(2, runner="study_fake:slowly"))
        return made[0]

    chance, ended = random.Random(1), threading.Event()
    killed = []

    def kill():
        while len(killed) < 8 and not ended.wait(0.4):
            pids = made[0].pids if made else []
            if pids:
                killed.append(chance.choice(pids))
                os.kill(killed[-1], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        progress = study.run(plan, tmp_path / "store", executor=executor, watcher=notes)
    finally:
        ended.set()
        killer.join()
    assert len(killed) >= 4
    assert any("killed by signal 9" in note for note in notes.notes)
    assert progress.failed == 0
    assert_same(rows(tmp_path / "store"), expected)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_driver_stops_at_once_and_stays_resumable(tmp_path, number):
    process = subprocess.Popen(
        [*DRIVER, str(tmp_path), "study_fake:endless"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    workers = until(lambda: children(process.pid)) if sys.platform == "linux" else set()
    process.send_signal(number)
    # The batch under way would take ten minutes: ending at all means not waiting for it.
    _, stderr = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in stderr
    # One that was just being started ends by itself when it finds its driver gone.
    until(lambda: not any(alive(worker) for worker in workers), 5)
    with Store.open(tmp_path) as store:
        (found,) = study.status(store)["studies"]
    assert found["session"]["state"] == "stopped"


def test_a_second_driver_is_refused(tmp_path):
    first = subprocess.Popen(
        [*DRIVER, str(tmp_path), "study_fake:endless"], stdout=subprocess.PIPE, text=True
    )
    assert first.stdout is not None
    with first.stdout:
        first.stdout.readline()
        second = subprocess.run(
            [*DRIVER, str(tmp_path), "study_fake:endless"], capture_output=True, text=True
        )
        first.kill()
        first.wait()
    assert second.returncode == 1
    assert f"is being written by process {first.pid} " in second.stderr


@linux
def test_a_killed_agent_of_ray_costs_nothing_that_is_stored(tmp_path, expected):
    """Ray's node dies with its agents, and the driver stops; the same command resumes."""
    if importlib.util.find_spec("ray") is None:  # importing it here would fix its addresses
        pytest.skip("Ray is not installed")
    command = [*DRIVER, str(tmp_path / "store"), "study_fake:very_slowly", "ray"]
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    until(lambda: len(stored(tmp_path / "store")) >= 4 or process.poll() is not None, 120)
    agents = [
        pid
        for pid in descendants(process.pid)
        if "dashboard" in command_of(pid).split("ray", 1)[-1]
    ]
    assert agents
    before = stored(tmp_path / "store")
    for pid in agents:
        os.kill(pid, signal.SIGKILL)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "Ray's node on this machine has died" in stderr
    assert "rerun the same command to resume" in stderr
    assert before <= stored(tmp_path / "store")
    again = [*DRIVER, str(tmp_path / "store"), "study_fake:train"]
    subprocess.run(again, check=True, stdout=subprocess.DEVNULL)
    assert_same(rows(tmp_path / "store"), expected)


@pytest.mark.parametrize("harm", ["deleted", "moved"])
def test_a_store_that_vanishes_is_never_a_success(tmp_path, plan, expected, harm):
    store = tmp_path / "store"
    process = subprocess.Popen(
        [*DRIVER, str(store), "study_fake:very_slowly"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: len(stored(store)) >= 4)
    before = stored(store)
    store.rename(tmp_path / "moved")
    if harm == "deleted":
        shutil.rmtree(tmp_path / "moved")
    _, stderr = process.communicate(timeout=120)
    assert process.returncode != 0
    saved = tmp_path / "store-rescued"
    assert "was deleted" in stderr
    assert f"are saved in {saved}: run the same command with this store" in stderr
    assert before <= stored(saved)
    subprocess.run([*DRIVER, str(saved), "study_fake:train"], check=True, stdout=subprocess.DEVNULL)
    assert_same(rows(saved), expected)


def test_a_ray_node_removed_on_the_way(tmp_path, plan, expected, notes, ray_cluster, monkeypatch):
    monkeypatch.setattr(_batch, "_MOST_RUNS", 10)

    def lost_a_batch(store) -> bool:
        """Remove a node while batches are under way; whether one of them was on it."""
        notes.last = None
        doomed = ray_cluster.add_node(num_cpus=2)
        made, slots = [], []
        ended = threading.Event()

        def executor():
            made.append(study.RayExecutor(ray_cluster.address, runner="study_fake:very_slowly"))
            return made[0]

        def remove():
            while not ended.wait(0.1):
                # When the first batch is back, the others are under way.
                if notes.last is not None and notes.last.done > 0:
                    slots.append(made[0].slots)
                    ray_cluster.remove_node(doomed, allow_graceful=False)
                    return

        remover = threading.Thread(target=remove)
        remover.start()
        try:
            progress = study.run(plan, store, executor=executor, watcher=notes)
        finally:
            ended.set()
            remover.join()
        assert slots == [4]
        assert progress.failed == 0
        assert_same(rows(store), expected)
        return any("worker lost on Ray" in note for note in notes.notes)

    # Where Ray puts a batch is its own choice: by chance the node may have none at that moment.
    assert any(lost_a_batch(tmp_path / f"store{attempt}") for attempt in range(4))
