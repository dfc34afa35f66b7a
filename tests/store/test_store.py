"""What goes in comes out, once, whole and unchanged."""

import math
import sqlite3

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from kandle.store import COLUMNS, TYPES, Curve, Outcome, Spectrum, Store, StoreError, merge
from kandle.store._blobs import pack, unpack
from kandle.study import RunSpec

DESIGNED = [
    "study",
    "problem",
    "scheme",
    "alpha",
    "beta",
    "G",
    "degree",
    "width",
    "depth",
    "seed",
    "steps",
    "optimizer",
    "learning_rate",
    "schedule",
    "dtype",
    "rba",
    "gain",
    "reference",
    "status",
    "diverged_at",
    "loss",
    "l2",
    "l2_robust",
    "test_mse",
    "wall_s",
]


def spec(seed=0, **changes):
    return RunSpec("functions", "f3", "power-law", 5, 8, 2, seed, alpha=0.25, beta=1.75).replace(
        **changes
    )


def outcome(loss=0.1, **changes):
    steps = np.array([1, 2, 10, 2000])
    curve = Curve(steps, np.array([1.0, 0.5, 0.25, loss], np.float32))
    spectra = (
        Spectrum("ntk", 0, np.array([3.0, 1.0])),
        Spectrum("ntk", 2000, np.array([2.0, 1e-9]), np.array([0.75, 0.25], np.float32)),
    )
    values = {
        "l2": 0.2,
        "test_mse": 0.3,
        "wall_s": 1.5,
        "machine": "m",
        "backend": "native",
        "version": "1",
    }
    return Outcome("ok", loss=loss, curve=curve, spectra=spectra, **values | changes)


def test_a_run_comes_back_whole(tmp_path):
    with Store.open(tmp_path, "w") as store:
        store.add(spec(), outcome())
        ((identity, configuration, found),) = store.records()
    assert identity == spec().identity
    assert RunSpec.from_dict(configuration) == spec()
    assert math.isnan(found.l2_robust)
    assert found.diverged_at is None
    assert (found.status, found.loss, found.l2, found.wall_s) == ("ok", 0.1, 0.2, 1.5)
    assert (found.machine, found.backend, found.version) == ("m", "native", "1")
    np.testing.assert_array_equal(found.curve.steps, outcome().curve.steps)
    np.testing.assert_array_equal(found.curve.loss, outcome().curve.loss)
    assert [(s.block, s.step, s.eigenvalues.tolist()) for s in found.spectra] == [
        ("ntk", 0, [3.0, 1.0]),
        ("ntk", 2000, [2.0, 1e-9]),
    ]
    assert found.spectra[0].error_share is None
    assert found.spectra[1].error_share.tolist() == [0.75, 0.25]


def test_the_frame_has_the_exported_columns_in_order(tmp_path):
    with Store.open(tmp_path, "w") as store:
        empty = store.frame()
        store.add_many([(spec(seed), outcome(seed + 0.5)) for seed in range(3)])
        store.add(spec(9, study="other"), Outcome("diverged", diverged_at=7))
        frame, part = store.frame(), store.frame("functions")
    for found in (empty, frame):
        assert list(found.columns) == list(COLUMNS)
        assert list(found.columns)[: len(DESIGNED)] == DESIGNED
        assert {n: str(t) for n, t in found.dtypes.items()} | {"x": ""} == {
            **{n: str(pd.Series([], dtype=t).dtype) for n, t in TYPES.items()},
            "x": "",
        }
    assert frame["loss"].tolist()[:3] == [0.5, 1.5, 2.5]
    assert frame["diverged_at"].tolist()[3] == 7
    assert frame["loss"].isna().tolist() == [False, False, False, True]
    assert frame["rba"].tolist() == [""] * 4
    assert len(part) == 3


def test_one_line_opens_a_store_elsewhere(tmp_path):
    with Store.open(tmp_path, "w") as store:
        store.add(spec(), outcome())
    connection = sqlite3.connect(tmp_path / "runs.sqlite")
    frame = pd.read_sql("SELECT * FROM results", connection)
    connection.close()
    assert list(frame.columns)[: len(DESIGNED)] == DESIGNED
    assert frame.loc[0, ["problem", "alpha", "G", "loss"]].tolist() == ["f3", 0.25, 5, 0.1]


def test_missing_tells_what_is_left(tmp_path):
    specs = [spec(seed) for seed in range(5)]
    with Store.open(tmp_path, "w") as store:
        store.add(specs[1], outcome())
        store.add(specs[3], Outcome("failed", reason="memory"))
        assert store.missing(specs) == [specs[0], specs[2], specs[4]]
        assert store.missing(specs, retry_failed=True) == [specs[0], *specs[2:]]


def test_a_finished_run_is_never_changed(tmp_path):
    with Store.open(tmp_path, "w") as store:
        store.add(spec(), outcome(0.1))
        store.add(spec(), outcome(0.1, wall_s=99.0, machine="other"))  # the same result
        with pytest.raises(StoreError, match="holds other results"):
            store.add(spec(), outcome(0.2))
        with pytest.raises(StoreError, match="holds other results"):
            store.add_many([(spec(1), outcome()), (spec(), outcome(0.2))])
        assert len(store) == 1, "a transaction is stored whole or not at all"
        assert store.frame()[["loss", "wall_s"]].iloc[0].tolist() == [0.1, 1.5]


def test_a_failed_run_gives_way_to_a_result(tmp_path):
    with Store.open(tmp_path, "w") as store:
        store.add(spec(), Outcome("failed", reason="memory"))
        store.add(spec(), outcome(0.1))
        store.add(spec(), Outcome("failed", reason="again"))
        frame = store.frame()
    assert frame[["status", "reason"]].to_numpy().tolist() == [["ok", ""]]


def test_merging_adds_keeps_and_reports(tmp_path):
    with Store.open(tmp_path / "a", "w") as a, Store.open(tmp_path / "b", "w") as b:
        a.add_many([(spec(seed), outcome(0.1)) for seed in (0, 1, 2)])
        b.add_many([(spec(seed), outcome(0.1, wall_s=3.0)) for seed in (2, 3)])
        b.add(spec(1), outcome(0.7))
        b.add(spec(4), outcome(0.9))
        summary = merge(a, b)
        assert (summary.added, summary.kept, summary.conflicts) == (2, 1, [spec(1).identity])
        again = merge(a, b)
        assert (again.added, again.kept, again.conflicts) == (0, 3, [spec(1).identity])
        assert a.frame().set_index("seed")["loss"].to_dict() == {
            0: 0.1,
            1: 0.1,
            2: 0.1,
            3: 0.1,
            4: 0.9,
        }
        assert set(a.curves()) == set(a.spectra()) == {spec(seed).identity for seed in range(5)}


def test_another_curve_is_a_conflict(tmp_path):
    with Store.open(tmp_path / "a", "w") as a, Store.open(tmp_path / "b", "w") as b:
        a.add(spec(), outcome())
        other = Curve(np.array([1, 2000]), np.array([1.0, 0.1], np.float32))
        b.add(spec(), Outcome("ok", loss=0.1, l2=0.2, test_mse=0.3, curve=other))
        assert merge(a, b).conflicts == [spec().identity]


def test_a_lacking_curve_is_added(tmp_path):
    with Store.open(tmp_path / "a", "w") as a, Store.open(tmp_path / "b", "w") as b:
        a.add(spec(), Outcome("ok", loss=0.1, l2=0.2, test_mse=0.3))
        b.add(spec(), outcome())
        assert (merge(a, b).kept, len(a.curves()), len(a.spectra())) == (1, 1, 1)


def test_other_spectra_are_a_conflict_and_not_stored(tmp_path):
    def outcome(*spectra):
        return Outcome("ok", loss=1.0, spectra=spectra)

    old, other = Spectrum("ntk", 0, np.array([2.0, 1.0])), Spectrum("ntk", 0, np.array([9.0, 8.0]))
    later = Spectrum("ntk", 5, np.array([3.0, 1.0]))
    with Store.open(tmp_path / "a", "w") as a, Store.open(tmp_path / "b", "w") as b:
        a.add(spec(), outcome(old))
        b.add(spec(), outcome(other, later))
        assert merge(a, b).conflicts == [spec().identity]
        (kept,) = a.spectra()[spec().identity]
    np.testing.assert_array_equal(kept.eigenvalues, old.eigenvalues)


@given(
    hnp.arrays(st.sampled_from([np.float32, np.float64]), st.integers(0, 50)),
)
def test_arrays_of_floats_are_packed_exactly(array):
    np.testing.assert_array_equal(unpack(pack(array)), array)
    assert unpack(pack(array)).dtype == array.dtype


@given(hnp.arrays(np.int64, st.integers(0, 50), elements=st.integers(0, 2**30)))
def test_whole_numbers_are_packed_exactly(array):
    np.testing.assert_array_equal(unpack(pack(array)), array)


def test_an_unknown_mode(tmp_path):
    with pytest.raises(ValueError, match="'r' or 'w'"):
        Store.open(tmp_path, "a")
