"""Retries, splitting, failed runs, resuming."""

from dataclasses import replace

import pytest
from study_rows import assert_same, rows

from kandle import UserError, study
from kandle.store import Store
from kandle.study import InlineExecutor, LocalExecutor


def failing(kind, plan, directory, notes):
    return study.run(
        plan,
        directory,
        executor=lambda: LocalExecutor(2, runner=f"study_fake:{kind}"),
        watcher=notes,
    )


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("crashing_at_seed_3", "worker killed by signal 9 (SIGKILL; often out of memory)"),
        ("raising_at_seed_3", "MemoryError: no room for seed 3"),
    ],
)
def test_what_always_fails_is_split_and_recorded(kind, reason, tmp_path, notes):
    plan = study.plan(
        study.get("feynman"), axes=study.Axes(problems=("I.6.2",), architectures=((5, 2, 1),))
    )
    ended = failing(kind, plan, tmp_path, notes)
    bad = [spec for spec in plan.specs if spec.seed == 3]
    assert (ended.failed, ended.trained) == (len(bad), plan.runs - len(bad))
    assert any("trying again in halves" in note for note in notes.notes)
    with Store.open(tmp_path) as store:
        frame = store.frame().set_index("identity")
        assert set(frame.index[frame["status"] == "failed"]) == {spec.identity for spec in bad}
        assert set(frame.loc[[spec.identity for spec in bad], "reason"]) == {reason}
        assert frame.loc[frame["status"] != "failed", "l2"].notna().all()
        summary = study.status(store)["studies"][0]
    assert (summary["failed"], summary["failures"]) == (3, [{"reason": reason, "runs": 3}])

    # They are not tried again unless asked for, and are remembered as failed.
    again = failing("train", plan, tmp_path, notes)
    assert (again.trained, again.failed, again.failed_before) == (0, 0, 3)
    with Store.open(tmp_path) as store:
        assert store.missing(plan.specs, retry_failed=True) == bad
    other = {"crashing_at_seed_3": "raising_at_seed_3"}.get(kind, "crashing_at_seed_3")
    again = study.run(
        plan,
        tmp_path,
        executor=lambda: LocalExecutor(2, runner=f"study_fake:{other}"),
        watcher=notes,
        retry_failed=True,
    )
    assert (again.trained, again.failed) == (0, 3)
    with Store.open(tmp_path) as store:
        [summary] = study.status(store)["studies"][0]["failures"]
    assert summary["reason"] != reason  # the last one
    cured = study.run(
        plan,
        tmp_path,
        executor=lambda: InlineExecutor("study_fake:train"),
        watcher=notes,
        retry_failed=True,
    )
    assert (cured.trained, cured.failed, cured.failed_before) == (3, 0, 0)
    with Store.open(tmp_path) as store:
        assert not (store.frame()["status"] == "failed").any()


def test_only_what_is_missing_is_run(plan, tmp_path, notes, expected):
    part = study.plan(study.get("functions"), axes=study.Axes(**plan.axes.to_dict() | {"seeds": 2}))
    for chosen, new in ((part, part.runs), (plan, plan.runs - part.runs), (plan, 0)):
        ended = study.run(
            chosen,
            tmp_path / "store",
            executor=lambda: InlineExecutor("study_fake:train"),
            watcher=notes,
        )
        assert (ended.trained, ended.done) == (new, chosen.runs)
    assert_same(rows(tmp_path / "store"), expected)


def test_shards_merged_are_the_whole(plan, tmp_path, notes, expected):
    from kandle.store import merge

    for i in (1, 2, 3):
        part = study.plan(study.get("functions"), axes=plan.axes, part=(i, 3))
        study.run(
            part,
            tmp_path / f"shard{i}",
            executor=lambda: InlineExecutor("study_fake:train"),
            watcher=notes,
        )
    with Store.open(tmp_path / "whole", "w") as store:
        for i in (1, 2, 3):
            with Store.open(tmp_path / f"shard{i}") as source:
                merge(store, source)
    assert_same(rows(tmp_path / "whole"), expected)


def test_progress_tells_rate_time_left_and_the_best(plan, tmp_path, notes):
    from kandle.study._display import best, describe

    ended = study.run(
        plan, tmp_path, executor=lambda: InlineExecutor("study_fake:train"), watcher=notes
    )
    assert ended.cost_left == pytest.approx(0.0, abs=1e-6)
    assert ended.seconds_left == pytest.approx(0.0, abs=1e-6)
    with Store.open(tmp_path) as store:
        frame = store.frame()
    for problem, (loss, spec) in ended.best.items():
        assert loss == frame.loc[frame["problem"] == problem, "loss"].min()
        assert spec.identity == frame.loc[frame["loss"] == loss, "identity"].item()
    assert describe(ended)[0] == f"{plan.runs}/{plan.runs} runs"
    assert best(ended, 1)[0].startswith("f1 ")


def test_batches_that_take_too_long_are_cut(tmp_path, notes):
    """Batches take far longer than the model says; those that wait are made smaller."""
    axes = study.Axes(problems=("f1",), grids=(5,), widths=(2,), depths=(1, 2, 3), seeds=8)
    plan = study.plan(study.get("functions"), "paper", axes)
    taken = []

    class Slow(InlineExecutor):
        def wait(self, timeout):
            done = [replace(report, seconds=99 * report.batch.cost) for report in super().wait(0)]
            taken.extend((len(report.batch), report.seconds) for report in done)
            return done

    ended = study.run(plan, tmp_path, executor=lambda: Slow("study_fake:train"), watcher=notes)
    assert ended.trained == plan.runs == sum(size for size, _ in taken)
    assert taken[0][1] > 300
    # Cut in halves until it fits into four minutes, and no further.
    assert all(size == 1 or seconds <= 240 for size, seconds in taken[1:])
    assert max(seconds for size, seconds in taken[1:] if size > 1) > 120


class Recorded(InlineExecutor):
    """Tells how many runs were stored whenever a batch was given to it and had come through."""

    def __init__(self, directory):
        super().__init__("study_fake:train")
        self.directory, self.trained, self.seen = directory, 0, []

    def submit(self, batch):
        with Store.open(self.directory) as store:
            self.seen.append((len(store), self.trained))
        super().submit(batch)

    def wait(self, timeout):
        reports = super().wait(timeout)
        self.trained += sum(len(report.batch) for report in reports)
        return reports


def test_a_worker_is_given_work_before_its_last_is_written(plan, tmp_path, notes, expected):
    executor = Recorded(tmp_path)
    study.run(plan, tmp_path, executor=lambda: executor, watcher=notes)
    assert len(executor.seen) > 2
    # When a batch is given out, the one that came back just before is the only one not stored.
    before = [trained for _, trained in executor.seen]
    assert [stored for stored, _ in executor.seen] == [0, *before[:-1]]
    assert_same(rows(tmp_path), expected)


def test_what_came_back_is_stored_even_if_the_next_batch_cannot_be_given(plan, tmp_path, notes):
    class Interrupted(Recorded):
        def submit(self, batch):
            super().submit(batch)
            if len(self.seen) == 3:
                raise KeyboardInterrupt

    executor = Interrupted(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        study.run(plan, tmp_path, executor=lambda: executor, watcher=notes)
    with Store.open(tmp_path) as store:
        assert len(store) == executor.trained > 0


def test_an_interrupt_right_after_the_writing_counts_nothing_twice(
    plan, tmp_path, notes, monkeypatch
):
    add_many, calls = Store.add_many, []

    def interrupted(store, runs, **options):
        add_many(store, runs, **options)
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Store, "add_many", interrupted)
    with pytest.raises(KeyboardInterrupt):
        study.run(
            plan, tmp_path, executor=lambda: InlineExecutor("study_fake:train"), watcher=notes
        )
    with Store.open(tmp_path) as store:
        (session,) = store.sessions().values()
        assert session.done == len(store) > 0


def test_a_run_that_goes_on_knows_the_best_so_far(plan, tmp_path, notes):
    def go():
        study.run(
            plan, tmp_path, executor=lambda: study.InlineExecutor("study_fake:train"), watcher=notes
        )
        return notes.last.best

    assert go()
    assert go() == go()


def test_a_full_disk_stops_the_study_and_loses_nothing(
    plan, tmp_path, notes, expected, monkeypatch
):
    from kandle.store import StoreError
    from kandle.store import _store as module

    connect = module.connect_writer

    def cramped(path):
        connection, upgraded = connect(path)
        connection.execute("PRAGMA max_page_count = 40")
        return connection, upgraded

    monkeypatch.setattr(module, "connect_writer", cramped)
    with pytest.raises(StoreError, match="No room left to write"):
        study.run(
            plan,
            tmp_path / "store",
            executor=lambda: InlineExecutor("study_fake:train"),
            watcher=notes,
        )
    monkeypatch.undo()
    kept = rows(tmp_path / "store")[0]
    assert 0 < len(kept) < plan.runs
    study.run(
        plan, tmp_path / "store", executor=lambda: InlineExecutor("study_fake:train"), watcher=notes
    )
    assert_same(rows(tmp_path / "store"), expected)


@pytest.mark.parametrize("harm", ["truncated", "overwritten", "an earlier state"])
def test_a_store_overwritten_in_place_is_never_a_success(tmp_path, plan, notes, harm):
    """The file keeps its inode, and the open connection does not notice."""
    directory = tmp_path / "store"
    half = replace(plan, specs=plan.specs[: plan.runs // 2])

    def run(plan, watcher):
        inline = InlineExecutor("study_fake:train")
        return study.run(plan, directory, executor=lambda: inline, watcher=watcher)

    run(replace(plan, specs=plan.specs[:1]), notes)
    early = (directory / "runs.sqlite").read_bytes()
    run(half, notes)

    class Vandal:
        def show(self, progress):
            if progress.done == progress.planned:
                data = {
                    "truncated": b"",
                    "overwritten": b"nothing" * 999,
                    "an earlier state": early,
                }
                (directory / "runs.sqlite").write_bytes(data[harm])

        def note(self, message):
            pass

    with pytest.raises(UserError, match=r"damaged|lacks .* runs") as caught:
        run(plan, Vandal())
    assert "\n" not in str(caught.value)
