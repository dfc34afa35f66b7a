"""Rows out and in again, exactly; rows of others; files that are wrong."""

import csv

import numpy as np
import pandas as pd
import pytest
from study_rows import rows

from kandle import UserError, study
from kandle.store import Outcome, Store
from kandle.study import InlineExecutor, RunSpec
from kandle.study._exchange import defaults

HEADER = "study,problem,scheme,alpha,beta,G,width,depth,seed,loss,l2"


@pytest.fixture
def store(tmp_path, plan, notes):
    """A store with functions, PDEs, settings of all kinds, diverged and failed runs."""
    directory = tmp_path / "store"
    study.run(plan, directory, executor=lambda: InlineExecutor("study_fake:train"), watcher=notes)
    smoke = study.plan(study.get("ntk-pdes"), "smoke")
    study.run(smoke, directory, executor=lambda: InlineExecutor("study_fake:train"), watcher=notes)
    odd = RunSpec("own", "a:b", "quiet", 5, 8, 2, 0, gain=1 / 3, settings='{"split":"half"}')
    with Store.open(directory, "w") as opened:
        opened.add(odd, Outcome("ok", loss=5e-324, l2=1e308, wall_s=0.1 + 0.2, machine='a, "b"'))
        opened.add(odd.replace(seed=1), Outcome("failed", reason="worker killed by signal 9"))
        opened.add(odd.replace(seed=2, problem="é"), Outcome("diverged", diverged_at=3))
        opened.add(odd.replace(rba="", study="pdes", problem="burgers"), Outcome("ok", loss=1.0))
    return directory


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_round_trip_is_exact(store, tmp_path, suffix):
    first, second = tmp_path / f"first.{suffix}", tmp_path / f"second.{suffix}"
    with Store.open(store) as opened:
        count = study.export(opened, first)
        assert count == len(opened)
    with Store.open(tmp_path / "copy", "w") as copy:
        summary = study.import_rows(first, copy)
        assert (summary.rows, summary.repeated, summary.ignored) == (count, 0, ())
        assert (summary.gathered.added, summary.gathered.conflicts) == (count, [])
        study.export(copy, second)
        again = study.import_rows(first, copy)
        assert (again.gathered.added, again.gathered.kept) == (0, count)
    with Store.open(store) as a, Store.open(tmp_path / "copy") as b:
        pd.testing.assert_frame_equal(a.frame(), b.frame(), check_exact=True)
    if suffix == "csv":
        assert first.read_bytes() == second.read_bytes()


def test_csv_and_parquet_open_in_one_line(store, tmp_path):
    with Store.open(store) as opened:
        frame = opened.frame()
        study.export(opened, tmp_path / "rows.csv")
        study.export(opened, tmp_path / "rows.parquet")
    for found in (pd.read_csv(tmp_path / "rows.csv"), pd.read_parquet(tmp_path / "rows.parquet")):
        assert list(found.columns) == list(frame.columns)
        assert found["loss"].tolist()[:9] == pytest.approx(frame["loss"].tolist()[:9], nan_ok=True)


def test_one_study_alone_is_exported(store, tmp_path):
    with Store.open(store) as opened:
        assert study.export(opened, tmp_path / "rows.csv", "ntk-pdes") == 12


def importing(tmp_path, text, name="rows.csv"):
    (tmp_path / name).write_text(text)
    with Store.open(tmp_path / "imported", "w") as opened:
        return study.import_rows(tmp_path / name, opened), opened.frame()


def test_the_rest_defaults_to_the_study(tmp_path):
    summary, frame = importing(
        tmp_path,
        HEADER
        + "\npdes,allen-cahn,power-law,0.25,1.0,5,8,2,0,0.125,0.5"
        + "\npdes,burgers,baseline,,,20,32,3,4,1e-3,0.25"
        + "\nfunctions,f3,glorot,,,5.0,8.0,2.0,0.0,nan,"
        + "\nfeynman,I.6.2,glorot,,,5,8,2,0,1,1\n",
    )
    assert summary.gathered.added == 4
    shapes = study.Axes(architectures=((5, 8, 2), (20, 32, 3)))
    made = {
        spec.identity
        for name in ("pdes", "functions", "feynman")
        for spec in study.plan(study.get(name), axes=shapes).specs
    }
    assert set(frame["identity"]) <= made, (
        "they are runs of the studies, and need not be made again"
    )
    assert frame["status"].tolist() == ["ok", "ok", "diverged", "ok"]
    assert frame["rba"].tolist() == ["published", "published", "", ""]
    assert frame["reference"].tolist() == ["dirichlet", "", "", ""]
    assert frame["steps"].tolist() == [5000, 5000, 2000, 2000]
    assert set(frame["machine"]) == {"imported"}


def test_a_byte_order_mark_is_not_part_of_a_name(tmp_path):
    """Spreadsheets write one before the first column."""
    row = "\npdes,allen-cahn,power-law,0.25,1.0,5,8,2,0,0.125,0.5\n"
    summary, frame = importing(tmp_path, "\ufeff" + HEADER + row)
    assert (summary.gathered.added, summary.ignored) == (1, ())
    assert frame["study"].tolist() == ["pdes"]


def test_repeated_rows_are_replicates(tmp_path):
    row = "pdes,burgers,baseline,,,5,8,2,0,{},0.5\n"
    text = HEADER + "\n" + row.format(0.1) + row.format(0.3) + row.format(0.1)
    summary, frame = importing(tmp_path, text)
    assert (summary.repeated, summary.gathered.added) == (2, 3)
    assert frame[["loss", "replicate"]].to_numpy().tolist() == [[0.1, 0], [0.3, 1], [0.1, 2]]
    summary, frame = importing(tmp_path, text)
    assert (summary.gathered.added, summary.gathered.kept, len(frame)) == (0, 3, 3)


def test_other_contents_are_a_conflict_and_not_stored(tmp_path):
    row = "pdes,burgers,baseline,,,5,8,2,0,{},0.5\n"
    importing(tmp_path, HEADER + "\n" + row.format(0.1))
    summary, frame = importing(tmp_path, HEADER + "\n" + row.format(0.2))
    assert len(summary.gathered.conflicts) == 1
    assert frame["loss"].tolist() == [0.1]


def test_columns_that_mean_nothing_are_left_out(tmp_path):
    summary, _ = importing(
        tmp_path, HEADER + ",colour\npdes,burgers,baseline,,,5,8,2,0,0.1,0.5,red\n"
    )
    assert summary.ignored == ("colour",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("study,problem\npdes,burgers\n", "lacks the column 'scheme'. Required: study, problem"),
        (
            HEADER + "\npdes,burgers,baseline,,,5,8,2,0,0.1\n",
            "row 1: it has 10 fields, the header 11",
        ),
        (
            HEADER + "\npdes,burgers,baseline,,,five,8,2,0,0.1,0.5\n",
            "row 1: 'G' must be a whole number",
        ),
        (
            HEADER + "\npdes,burgers,baseline,,,5.5,8,2,0,0.1,0.5\n",
            "row 1: 'G' must be a whole number",
        ),
        (HEADER + "\npdes,burgers,baseline,,,5,8,2,0,high,0.5\n", "row 1: 'loss' must be a number"),
        (HEADER + "\npdes,burgers,baseline,,,5,8,2,,0.1,0.5\n", "row 1: 'seed' must be given"),
        (
            HEADER + "\npdes,burgers,power-law,0.25,,5,8,2,0,0.1,0.5\n",
            "'beta' must be given for power-law",
        ),
        (
            HEADER + "\npdes,burger,baseline,,,5,8,2,0,0.1,0.5\n",
            "row 1: Unknown problem 'burger'. Did you mean 'burgers'",
        ),
        (
            HEADER + "\npdes,burgers,baseline,,,-5,8,2,0,0.1,0.5\n",
            "row 1: 'G' must be a whole number of at least 1. Got -5",
        ),
        (
            HEADER + "\npdes,burgers,power-law,inf,1,5,8,2,0,0.1,0.5\n",
            "row 1: 'alpha' must be a finite number",
        ),
        (
            HEADER + "\npdes,burgers,baseline,,,5,8,2,99999999999999999999,0.1,0.5\n",
            "row 1: 'seed' must be a whole number",
        ),
        (
            HEADER + ",draws\npdes,burgers,baseline,,,5,8,2,0,0.1,0.5,foo\n",
            "row 1: 'draws' must be one of independent, published. Got 'foo'",
        ),
        (
            HEADER + ",dtype\npdes,burgers,baseline,,,5,8,2,0,0.1,0.5,float16\n",
            "row 1: 'dtype' must be one of 'float32', 'float64'",
        ),
        (
            HEADER + ",steps\npdes,burgers,baseline,,,5,8,2,0,0.1,0.5,-5\n",
            "row 1: 'steps' must be a whole number of at least 1",
        ),
        (
            HEADER + ",settings\npdes,burgers,baseline,,,5,8,2,0,0.1,0.5,not json\n",
            "row 1: 'settings' must be an object in JSON",
        ),
        (
            HEADER + ",loss\npdes,burgers,baseline,,,5,8,2,0,0.1,0.5,0.1\n",
            "has the column 'loss' more than once",
        ),
        (
            HEADER + "\npdes,burgers,baseline,,,5,8,2,0,0.1," + "5" * 200000 + "\n",
            "row 1: field larger than field limit",
        ),
        (
            HEADER + ",status\npdes,burgers,baseline,,,5,8,2,0,0.1,0.5,good\n",
            "'status' must be one of 'ok', 'diverged', 'failed'. Got 'good'",
        ),
    ],
)
def test_a_wrong_row_is_told_by_number_and_nothing_is_stored(tmp_path, text, message):
    with pytest.raises(UserError) as error:
        importing(tmp_path, text)
    assert message in str(error.value)
    with Store.open(tmp_path / "imported") as opened:
        assert len(opened) == 0


def test_what_spreadsheets_make_of_a_file_is_read(tmp_path):
    path, seed = tmp_path / "rows.csv", 2**53 + 1
    text = f"{HEADER}\r\npdes,burgers,baseline,,,5.0,8,2,{seed},0.1,0.5\r\n\r\n"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    with Store.open(tmp_path / "imported", "w") as opened:
        assert study.import_rows(path, opened).rows == 1
        (row,) = opened.frame().to_dict("records")
    assert (row["seed"], row["G"]) == (seed, 5)
    path.write_bytes(text.replace("burgers", "burg\xe9rs").encode("latin-1"))
    with (
        Store.open(tmp_path / "imported", "w") as opened,
        pytest.raises(UserError, match=r"rows.csv is not UTF-8 text"),
    ):
        study.import_rows(path, opened)


def test_rows_of_a_parquet_file_are_counted_through(tmp_path):
    path, rows = tmp_path / "rows.parquet", 3_000  # Arrow reads each row group as a batch
    frame = pd.DataFrame({"study": "own", "problem": "f1", "scheme": "baseline"}, range(rows))
    frame = frame.assign(G=5, width=8, depth=2, seed=range(rows), loss=0.1, l2=0.5)
    frame.loc[rows - 1, "G"] = 0
    frame.to_parquet(path, row_group_size=1000)
    with (
        Store.open(tmp_path / "imported", "w") as opened,
        pytest.raises(UserError, match=f"row {rows}: 'G' must be"),
    ):
        study.import_rows(path, opened)


def test_a_changed_export_is_noticed(store, tmp_path):
    path = tmp_path / "rows.csv"
    with Store.open(store) as opened:
        study.export(opened, path)
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    lines[3]["steps"] = "7"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, lines[0].keys())
        writer.writeheader()
        writer.writerows(lines)
    with (
        Store.open(tmp_path / "copy", "w") as copy,
        pytest.raises(UserError, match="row 4: 'identity'"),
    ):
        study.import_rows(path, copy)


def test_text_in_parquet_that_is_not_utf8_is_refused(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    offsets = pa.py_buffer(np.array([0, 2], np.int32).tobytes())
    text = pa.StringArray.from_buffers(1, offsets, pa.py_buffer(b"\xf0\x28"))
    others = {"problem": "f1", "scheme": "glorot", "G": 5, "width": 8, "depth": 2, "seed": 0}
    others |= {"loss": 0.1, "l2": 0.1}
    table = pa.table({"study": text, **{name: [value] for name, value in others.items()}})
    pyarrow.parquet.write_table(table, tmp_path / "bad.parquet")
    with (
        Store.open(tmp_path / "s", "w") as opened,
        pytest.raises(UserError, match="text that is not UTF-8"),
    ):
        study.import_rows(tmp_path / "bad.parquet", opened)


def test_a_column_name_in_parquet_that_is_not_utf8_is_refused(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    path = tmp_path / "bad.parquet"
    pyarrow.parquet.write_table(pa.table({"extra": [1]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"extra", b"ex\xf0\x28a"))
    with pytest.raises(UserError, match="not a Parquet file: 'utf-8' codec"):
        study.read_file(path)


@pytest.mark.parametrize("name", ["rows.txt", "rows.xlsx"])
def test_other_formats_are_refused(store, tmp_path, name):
    with Store.open(store) as opened, pytest.raises(UserError, match=r"named \*.csv or \*.parquet"):
        study.export(opened, tmp_path / name)
    (tmp_path / name).write_text("x")
    with Store.open(tmp_path / "s", "w") as opened, pytest.raises(UserError, match="named"):
        study.import_rows(tmp_path / name, opened)
    (tmp_path / "bad.parquet").write_text("x")
    with Store.open(tmp_path / "s", "w") as opened, pytest.raises(UserError, match="not a Parquet"):
        study.import_rows(tmp_path / "bad.parquet", opened)
    with (
        Store.open(tmp_path / "s", "w") as opened,
        pytest.raises(UserError, match="There is no file"),
    ):
        study.import_rows(tmp_path / "none.csv", opened)


def test_defaults_are_the_studys_own():
    assert defaults("curves-pdes", "burgers")["curve"] == "all"
    assert defaults("ntk-functions", "f3")["dtype"] == "float64"
    assert defaults("unheard-of", "burgers")["steps"] == 5000


def test_an_export_is_whole_or_not_there(store, tmp_path, monkeypatch):
    def fail(self, path, **options):
        path.write_text("half")
        raise OSError("disk full")

    monkeypatch.setattr(pd.DataFrame, "to_csv", fail)
    with Store.open(store) as opened, pytest.raises(OSError, match="disk full"):
        study.export(opened, tmp_path / "rows.csv")
    assert not (tmp_path / "rows.csv").exists()
    assert rows(store)
