"""Tables of data: scaling, splitting, and errors that name the column and the row."""

import numpy as np
import pandas as pd
import pytest

from kandle import UserError
from kandle.problems import get
from kandle.tabular import Scaler, Table, numbers, read_frame

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {"a": RNG.uniform(10, 20, 50), "b": RNG.normal(size=50), "y": RNG.normal(5, 3, 50)}
)


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_csv_parquet_and_frame_agree(tmp_path):
    FRAME.to_csv(tmp_path / "d.csv", index=False)
    FRAME.to_parquet(tmp_path / "d.parquet")
    given = FRAME, tmp_path / "d.csv", str(tmp_path / "d.parquet")
    one, *others = (Table(data, target="y", seed=3).arrays("float64") for data in given)
    for other in others:
        for key in one:
            np.testing.assert_allclose(one[key], other[key], rtol=1e-12, atol=1e-12)


def test_scaling_and_split():
    table = Table(FRAME, target="y", inputs=["b", "a"], seed=1, name="mine")
    data = table.arrays("float64")
    assert (table.name, table.kind, table.n_in, table.n_out) == ("mine", "function", 2, 1)
    assert data["x"].shape == (40, 2)
    assert data["x_test"].shape == (10, 2)
    # The training rows alone decide the scaling.
    x, y = data["x"], data["y"]
    np.testing.assert_allclose([x.min(0), x.max(0)], [[-1, -1], [1, 1]], atol=1e-12)
    np.testing.assert_allclose([y.mean(), y.std()], [0, 1], atol=1e-12)
    x, y = np.concatenate([x, data["x_test"]]), np.concatenate([y, data["y_test"]])
    # Every row is there once, inputs and target together.
    rows = np.concatenate([table.scaler.invert(x), table.target_scaler.invert(y)], axis=1)
    expected = FRAME[["b", "a", "y"]].to_numpy()
    np.testing.assert_allclose(rows[np.argsort(rows[:, 0])], expected[np.argsort(expected[:, 0])])
    points, reference = table.evaluation()
    np.testing.assert_array_equal(points, data["x_test"])
    np.testing.assert_array_equal(reference, data["y_test"])
    assert len(table.ntk_points()["x"]) == 40
    assert get(table) is table


def test_the_seed_decides_the_split():
    a, b, c = (Table(FRAME, target="y", seed=s).arrays("float64")["x_test"] for s in (0, 0, 1))
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)


def test_test_rows_change_nothing_about_the_training_and_may_lie_outside():
    rows = np.arange(40.0)
    frame = pd.DataFrame({"a": rows, "y": rows**2})
    before = Table(frame, "y")
    test = np.rint(before.scaler.invert(before.arrays("float64")["x_test"])[:, 0]).astype(int)
    moved = frame.copy()
    moved.loc[test, ["a", "y"]] *= 1e3
    after = Table(moved, "y")
    assert after.scaler == before.scaler
    assert after.target_scaler == before.target_scaler
    one, other = before.arrays("float64"), after.arrays("float64")
    for name in ("x", "y"):
        np.testing.assert_array_equal(one[name], other[name])
    # As they are predicted: not moved into the domain.
    expected = after.scaler.apply(moved.loc[test, ["a"]].to_numpy())
    np.testing.assert_array_equal(other["x_test"], expected)
    assert other["x_test"].max() > 100


def test_a_column_that_varies_in_the_test_rows_only():
    frame = pd.DataFrame({"a": np.arange(20.0), "flag": 3.0, "y": np.arange(20.0) ** 2})
    table = Table(frame, "y", inputs=["a"])
    tested = int(np.rint(table.scaler.invert(table.evaluation()[0])[0, 0]))
    for column in ("flag", "y"):
        flat = frame.assign(**{column: 3.0})
        flat.loc[tested, column] = 4.0
        message = f"Column '{column}' is constant in the 16 training rows, all 3, .*another seed"
        with pytest.raises(UserError, match=message):
            Table(flat, "y", inputs=["a", "flag"] if column == "flag" else ["a"])


def test_test_rows_far_beyond_float32_stay_finite():
    frame = pd.DataFrame({"a": np.arange(20.0), "y": np.arange(20.0) ** 2})
    table = Table(frame, "y")
    tested = int(np.rint(table.scaler.invert(table.evaluation()[0])[0, 0]))
    frame.loc[tested, ["a", "y"]] = 1e300
    data = Table(frame, "y").arrays("float32")
    assert np.isfinite(data["x_test"]).all()
    assert np.isinf(data["y_test"]).sum() == 1  # and with it the error


def test_two_targets_and_two_rows():
    table = Table(FRAME[:2], target=["y", "b"], test_fraction=0.9)
    assert (table.n_in, table.n_out) == (1, 2)
    assert table.arrays()["y"].shape == (1, 2)
    assert table.arrays()["y_test"].shape == (1, 2)


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_the_separator_is_detected(tmp_path, separator):
    lines = ["a,b,y", "1,2,3", "2,4,6", "3,5,7"]
    path = write(tmp_path / "d.csv", "\n".join(lines).replace(",", separator))
    assert Table(path, target="y").inputs == ("a", "b")


def test_decimal_commas_are_detected_where_they_separate_nothing(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("a;b;name\n0,5;1;x,1\n-1,25e1;2;y\n;3;z\n")
    frame = read_frame(path)
    np.testing.assert_array_equal(frame["a"], [0.5, -12.5, np.nan])
    assert frame["name"].tolist() == ["x,1", "y", "z"]
    path.write_text("a;b\n1,x;1\n2,5;2\n")
    assert read_frame(path)["a"].tolist() == ["1,x", "2,5"]


def test_a_wrong_separator_is_named(tmp_path):
    path = write(tmp_path / "d.csv", "a,b,y\n1,2,3\n")
    with pytest.raises(UserError, match=r"only one column if separated by ';': 'a,b,y'.* by ','"):
        read_frame(path, ";")
    assert list(read_frame(write(tmp_path / "one.csv", "y\n1\n"), ";")) == ["y"]


def test_spaces_byte_order_mark_blank_lines_and_booleans(tmp_path):
    path = write(tmp_path / "d.csv", "\ufeffa, b ,y\n\n1, True,3\n2, False,5\n\n")
    assert Table(path, target="y").inputs == ("a", "b")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,y\n1,2,3\n2,high,4\n3,3,9\n", "Column 'b', row 2 is 'high'.*--categorical"),
        ("a,b,y\n1,2024-01-31,3\n2,2024-02-01,4\n", "Column 'b', row 1 is .*Replace dates by num"),
        ("a,b,y\n1,31.1.24,3\n2,1.2.24,4\n", "Column 'b', row 1 is .*Replace dates by numbers"),
        ("a,b,y\n1,2,3\n2,5,4\n,3,9\n", "Column 'a', row 3 is missing"),
        ("a,b,y\n1,2,3\n2,NaN,4\n3,,9\n", r"Column 'b', row 2 is missing \(and 1 more"),
        ("a,b,y\n1,2,3\n2,5,inf\n", "Column 'y', row 2 is inf"),
        ("a,b,y\n1e400,2,3\n2,5,1\n", "Column 'a', row 1 is inf"),
        ("a,b,y\n1,7,3\n2,7,4\n3,7,9\n", "Column 'b' is constant: rows 1 to 3 are all 7"),
        ("a,b,y\n1,2,0.1\n2,5,0.1\n3,1,0.1\n", "Column 'y' is constant"),
        ("a,b,y\n1,2,3\n", "one row"),
        ("a,b,y\n", "no rows, only columns: a, b, y"),
        ("", "is empty"),
        ("a,b\n1,2\n2,3\n", "Unknown column 'y'. Known: a, b"),
        ("a,b,y\n1,2,3\n2,3,4,5\n", "cannot be read as a table.*line 3"),
        ("a,b,y\n1,2,3,4\n2,3,4,5\n", "cannot be read as a table"),
        ("y\n1\n2\n", "nothing to predict y from: its only columns are 'y'"),
        (",y\n1,2\n2,3\n", "nothing to predict y from"),
        ("a,y,a\n1,2,3\n2,3,5\n", "Column 'a' occurs more than once"),
    ],
)
def test_bad_data(tmp_path, text, message):
    with pytest.raises(UserError, match=message):
        Table(write(tmp_path / "d.csv", text), target="y")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.csv", None, "There is no file '.*none.csv'"),
        ("d.xlsx", b"", "must be a file that ends in .csv, .tsv, .parquet, .pq"),
        ("d.csv", bytes(range(256)), "cannot be read as a table"),
        ("d.parquet", b"not parquet", "cannot be read as a table"),
    ],
)
def test_bad_files(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        Table(tmp_path / name, target="y")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": "z"}, "Unknown column 'z'. Known: a, b, y"),
        ({"target": "y", "inputs": ["a", "bb"]}, "Unknown column 'bb'. Did you mean 'b'"),
        ({"target": "y", "inputs": ["a", "y"]}, "Column 'y' is a target"),
        ({"target": "y", "inputs": ["a", "a"]}, "distinct columns"),
        ({"target": "y", "inputs": []}, "'inputs' of Table"),
        ({"target": []}, "'target' of Table"),
        ({"target": "y", "seed": 2**32}, r"'seed' of Table must be an integer from 0 to 2³² - 1"),
        ({"target": "y", "seed": "1"}, "'seed' of Table"),
        ({"target": "y", "test_fraction": 1.0}, "'test_fraction' of Table"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(UserError, match=message):
        Table(FRAME, **arguments)


def test_columns_of_a_frame_that_are_not_numbers():
    dates = FRAME.assign(a=pd.date_range("2020", periods=50))
    with pytest.raises(
        UserError, match=r"Column 'a', row 1 must be a real number.*2020-01-01.*dates by"
    ):
        Table(dates, target="y")
    gaps = FRAME.assign(a=pd.array([1, None] * 25, dtype="Int64"))
    with pytest.raises(UserError, match="Column 'a', row 2 is missing"):
        Table(gaps, target="y")
    twice = pd.concat([FRAME, FRAME[["a"]]], axis=1)
    with pytest.raises(UserError, match="Column 'a' occurs more than once"):
        Table(twice, target="y", inputs=["a"])
    with pytest.raises(UserError, match="a path or a pandas DataFrame"):
        Table(3, target="y")  # pyright: ignore[reportArgumentType]


def test_scaler_round_trips():
    x = FRAME.to_numpy()
    for scaler in (
        Scaler.to_interval(x, "aby", low=0.0, high=3.0),
        Scaler.standard(x, "aby"),
    ):
        np.testing.assert_allclose(scaler.invert(scaler.apply(x)), x, rtol=1e-12)
        assert Scaler.from_dict(scaler.to_dict()) == scaler
    z = Scaler.to_interval(x, "aby", low=0.0, high=3.0).apply(x)
    np.testing.assert_allclose([z.min(0), z.max(0)], [[0] * 3, [3] * 3], atol=1e-12)


def test_a_scaler_may_leave_a_column_without_spread_alone():
    x = [[0.1, 1.0], [0.1, 3.0], [0.1, 5.0]]
    for make in (Scaler.to_interval, Scaler.standard):
        with pytest.raises(UserError, match="Column 'a' is constant"):
            make(x, "ab")
        scaler = make(x, "ab", flat=1.0)
        np.testing.assert_allclose(scaler.apply(x)[:, 0], 0, atol=1e-15)
        assert scaler.scale[0] == 1
        assert scaler.scale[1] == make(np.asarray(x)[:, 1:], "b").scale[0]


def test_scaler_of_extreme_numbers():
    scaler = Scaler.to_interval([[1e308], [-1e308]], ["a"])
    assert scaler.apply([[1e308], [-1e308]]).tolist() == [[1.0], [-1.0]]
    with pytest.raises(UserError, match="Column 'a' spreads over more than float64 can hold"):
        Scaler.standard([[1e308], [-1e308]], ["a"])
    for flat in (None, 1.0):
        with pytest.raises(UserError, match="Column 'a' spreads over less than float64 can hold"):
            Scaler.standard([[1e-300], [2e-300]], ["a"], flat=flat)


@pytest.mark.parametrize(
    "given",
    [
        {"columns": ["a"], "offset": [0.0]},
        {"columns": ["a"], "offset": [0.0], "scale": [1.0], "extra": 1},
        {"columns": ["a", "b"], "offset": [0.0], "scale": [1.0]},
        {"columns": ["a"], "offset": [0.0], "scale": [0.0]},
        {"columns": ["a"], "offset": [float("nan")], "scale": [1.0]},
    ],
)
def test_wrong_scalers(given):
    with pytest.raises(UserError, match="Scaler"):
        Scaler.from_dict(given)


def test_columns_go_by_their_names_as_text():
    frame = pd.DataFrame({0: [0.0, 1.0, 2.0], 1: [1.0, 3.0, 5.0]})
    table = Table(frame, "1")
    assert (table.inputs, table.target) == (("0",), ("1",))
    with pytest.raises(UserError, match="'target' of Table must be one or more names of columns"):
        Table(frame, 1)
    with pytest.raises(UserError, match="'test_fraction' of Table must be between 0 and 1"):
        Table(frame, "1", test_fraction="a")


def test_rounding_does_not_lead_out_of_the_domain():
    close = np.nextafter(1.0, 2.0)
    x = Table(pd.DataFrame({"a": [1.0, close, 1.0], "y": [1.0, 2.0, 3.0]}), "y").arrays("float64")
    assert np.abs(np.concatenate([x["x"], x["x_test"]])).max() <= 1


def test_a_whole_number_beyond_float64_is_named(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text(f"a,b\n1,2\n{'9' * 5000},4\n3,x\n")
    frame = read_frame(path)
    with pytest.raises(UserError, match=r"Column 'a', row 2 is '9{60}…', which is not a finite"):
        numbers(frame, ["a"])
    with pytest.raises(UserError, match="row 2 is a whole number beyond float64, which is not"):
        numbers(pd.DataFrame({"a": [1, 10**5000]}), ["a"])
