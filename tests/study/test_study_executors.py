"""One contract, held against every executor."""

import os
import signal
import sys
import time
import uuid
from types import SimpleNamespace

import pytest
import study_fake
from study_processes import alive, until
from study_rows import assert_same, rows

from kandle import UserError, study
from kandle.study import Batch, Done, InlineExecutor, LocalExecutor, Lost, RunSpec

SPECS = tuple(RunSpec("s", "f1", "glorot", 5, 8, 2, seed) for seed in range(6))


def batch(*seeds):
    return Batch(tuple(SPECS[seed] for seed in seeds), 1.0)


def reports(executor, count, seconds=60):
    """The next `count` reports."""
    found, until = [], time.monotonic() + seconds
    while len(found) < count:
        assert time.monotonic() < until, f"{len(found)} of {count} reports came"
        found += executor.wait(0.2)
    return found


@pytest.fixture(params=["inline", "local", "ray"])
def make(request):
    """A function from the name of a runner to an executor."""
    made = []

    def start(runner):
        match request.param:
            case "inline":
                executor = InlineExecutor(f"study_fake:{runner}")
            case "local":
                executor = LocalExecutor(2, runner=f"study_fake:{runner}")
            case _:
                cluster = request.getfixturevalue("ray_cluster")
                executor = study.RayExecutor(cluster.address, runner=f"study_fake:{runner}")
        made.append(executor)
        return executor

    start.kind = request.param
    yield start
    for executor in made:
        executor.close()


def test_every_batch_is_reported_once_with_its_outcomes_in_order(make):
    executor = make("train")
    assert executor.slots == (1 if make.kind == "inline" else 2)
    given = [batch(0, 1), batch(2, 3, 4), batch(5)]
    for one in given[: executor.slots]:
        executor.submit(one)
    found = reports(executor, executor.slots)
    for one in given[executor.slots :]:
        executor.submit(one)
        found += reports(executor, 1)
    assert executor.wait(0.0) == []
    assert sorted(given.index(done.batch) for done in found) == [0, 1, 2]
    for done in found:
        assert isinstance(done, Done)
        assert done.seconds > 0
        for spec, outcome in zip(done.batch.specs, done.outcomes, strict=True):
            wanted = study_fake.outcome(spec)
            assert (outcome.l2, outcome.status) == (wanted.l2, wanted.status)
            assert outcome.curve.loss.tolist() == wanted.curve.loss.tolist()


def test_an_exception_is_reported_and_the_executor_goes_on(make):
    executor = make("raising_at_seed_3")
    executor.submit(batch(2, 3))
    (lost,) = reports(executor, 1)
    assert lost == Lost(batch(2, 3), "MemoryError: no room for seed 3", again=False)
    executor.submit(batch(1))
    (done,) = reports(executor, 1)
    assert isinstance(done, Done)


def test_a_worker_that_dies_is_reported_and_replaced(make):
    if make.kind == "inline":
        pytest.skip("a crash of this process is a crash of this process")
    executor = make("crashing_at_seed_3")
    executor.submit(batch(3))
    (lost,) = reports(executor, 1)
    assert isinstance(lost, Lost)
    assert lost.again
    if make.kind == "local":
        assert lost.reason == "worker killed by signal 9 (SIGKILL; often out of memory)"
    executor.submit(batch(1))
    (done,) = reports(executor, 1)
    assert isinstance(done, Done)


def test_close_ends_the_workers_whatever_they_do(make):
    if make.kind == "inline":
        pytest.skip("it works in this process")
    executor = make("endless")
    mark = uuid.uuid4().hex
    executor.submit(Batch((SPECS[0].replace(study=mark),), 1.0))
    pid = until(lambda: study_fake.endless_process(mark))
    executor.close()
    # It would sleep for ten minutes.
    until(lambda: not alive(pid))
    assert executor.wait(0.0) == []


def test_every_executor_makes_the_same_rows(make, plan, tmp_path, notes, expected):
    study.run(plan, tmp_path / "store", executor=lambda: make("train"), watcher=notes)
    assert_same(rows(tmp_path / "store"), expected)


def test_workers_are_held_to_one_thread_and_share_a_compilation_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KANDLE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    with LocalExecutor(1, runner="study_fake:environment") as executor:
        executor.submit(batch(0))
        (done,) = reports(executor, 1)
    threads, cache = done.outcomes[0].reason.split(" ")
    assert threads == "1"
    assert cache.startswith(str(tmp_path / "cache" / "programs"))


def test_an_idle_worker_that_died_is_replaced():
    with LocalExecutor(1, runner="study_fake:train") as executor:
        executor.submit(batch(0))
        reports(executor, 1)
        (pid,) = executor.pids
        os.kill(pid, signal.SIGKILL)
        time.sleep(0.2)
        executor.submit(batch(1))
        (report,) = reports(executor, 1)
        # It may have died so late that it took the batch with it; never is the batch forgotten.
        if isinstance(report, Lost):
            executor.submit(batch(1))
            (report,) = reports(executor, 1)
        assert isinstance(report, Done)
        assert executor.pids != [pid]


def test_the_last_words_of_a_worker_are_the_reason():
    with LocalExecutor(1, runner="study_fake:leaving") as executor:
        executor.submit(batch(0))
        (lost,) = reports(executor, 1)
    assert lost.reason == "worker exited with code 7: the disk is on fire"


def test_workers_that_cannot_start_end_the_study():
    with LocalExecutor(1, runner="no_such_module:train") as executor:
        executor.submit(batch(0))
        with pytest.raises(UserError, match=r"cannot start: .*No module named 'no_such_module'"):
            reports(executor, 1)


def test_workers_killed_as_they_start_are_not_to_blame():
    with LocalExecutor(1, runner="study_fake:train") as executor:
        executor.submit(batch(0))
        for _ in range(8):
            os.kill(executor.pids[0], signal.SIGKILL)
            assert executor.wait(10) == []  # another one was hired for the batch
        (report,) = reports(executor, 1)
    assert isinstance(report, Done)


def test_workers_start_anew_after_many_batches(monkeypatch):
    monkeypatch.setattr("kandle.study._local._BATCHES_PER_WORKER", 2)
    with LocalExecutor(1, runner="study_fake:train") as executor:
        seen = set()
        for seed in range(4):
            executor.submit(batch(seed))
            seen |= set(executor.pids)
            reports(executor, 1)
    assert len(seen) == 2


def test_at_least_one_worker():
    with pytest.raises(UserError, match="'workers' must be at least 1"):
        LocalExecutor(0)


def fake_ray(**functions):
    """A stand-in for Ray, whose own failures are hard to bring about."""

    class RayError(Exception):
        pass

    return SimpleNamespace(
        is_initialized=lambda: False,
        init=lambda **options: None,
        shutdown=lambda: None,
        remote=lambda function: SimpleNamespace(options=lambda **options: None),
        get_runtime_context=lambda: SimpleNamespace(get_node_id=lambda: "home"),
        exceptions=SimpleNamespace(RayError=RayError),
        **functions,
    )


def test_ray_that_starts_too_slowly_is_an_error_in_one_line(monkeypatch):
    def init(**options):
        raise Exception("The current node timed out during startup.\nThe raylet failed.")

    ray = fake_ray()
    ray.init = init
    monkeypatch.setitem(sys.modules, "ray", ray)
    with pytest.raises(UserError, match=r"Ray cannot be started here: .* timed out") as caught:
        study.RayExecutor(workers=1)
    assert "\n" not in str(caught.value)


def test_ray_that_has_stopped_is_an_error_that_says_how_to_resume(monkeypatch):
    nodes = [{"NodeID": "home", "Alive": True, "Resources": {"CPU": 2}}]
    ray = fake_ray(nodes=lambda: nodes)
    monkeypatch.setitem(sys.modules, "ray", ray)
    executor = study.RayExecutor(workers=2)
    assert executor.slots == 2

    def gone():
        raise ray.exceptions.RayError("Failed to connect to GCS.")

    ray.nodes = gone
    with pytest.raises(UserError, match=r"Ray has stopped: .* rerun the same command to resume"):
        _ = executor.slots
