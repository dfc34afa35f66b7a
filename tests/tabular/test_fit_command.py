"""`kandle fit` and `kandle predict`, as a person uses and misuses them."""

import re

import numpy as np
import pandas as pd
import pytest

from kandle import UserError
from kandle.cli import main
from kandle.tabular import Table, load_fitted
from kandle.tabular._baselines import ridge

FAST = ["--layers", "3", "--grid", "3", "--steps", "150"]
FAST += ["--networks", "2", "--smoothness", "1e-4"]


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, (60, 2))
    y = 50 + 10 * np.sin(x[:, 0]) + x[:, 1]
    path = tmp_path / "data.csv"
    pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y}).to_csv(path, index=False)
    return path


def test_fit_then_predict(table, tmp_path, capsys):
    out, predictions = tmp_path / "m.safetensors", tmp_path / "p.csv"
    assert main(["fit", str(table), "--target", "y", *FAST, "--out", str(out)]) == 0
    shown = capsys.readouterr()
    rows = {line.split()[0]: line.split() for line in shown.out.splitlines() if line.strip()}
    assert float(rows["KAN"][-2]) < float(rows["ridge"][-2]) < float(rows["mean"][-2])
    assert "steps, loss" in shown.err
    assert "48 rows to train, 12 to test" in shown.out

    # Columns are found by name, in whatever order, among others.
    frame = pd.read_csv(table)
    shuffled = tmp_path / "new.csv"
    frame[["b", "a"]].assign(note=1).to_csv(shuffled, index=False)
    assert main(["predict", str(out), str(shuffled), "--out", str(predictions)]) == 0
    predicted = pd.read_csv(predictions)
    assert list(predicted) == ["y"]
    np.testing.assert_allclose(
        predicted["y"], load_fitted(out).values(frame[["a", "b"]].to_numpy())[:, 0], rtol=1e-12
    )
    printed = float(rows["KAN"][-2])
    assert np.sqrt(np.mean((predicted["y"] - frame["y"]) ** 2)) < 3 * printed
    assert list(tmp_path.glob(".*")) == []


def test_a_constant_input_is_ignored_and_said(table, tmp_path, capsys):
    frame = pd.read_csv(table).assign(k=7.0, flag=0.0)
    tested = Table(frame[["a", "b", "y"]], "y")
    rows = tested.scaler.invert(tested.evaluation()[0])
    first_tested = int(np.isclose(frame["a"].to_numpy(), rows[0, 0]).argmax())
    frame.loc[first_tested, "flag"] = 1.0  # varies, but not among the training rows
    data, out = tmp_path / "constant.csv", tmp_path / "m.safetensors"
    frame.to_csv(data, index=False)
    assert main(["fit", str(data), "--target", "y", *FAST, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "2 inputs are constant in the training rows, and ignored: k, flag" in printed
    # Nothing was learned about other values: they change nothing.
    fitted = load_fitted(out)
    x = frame[["a", "b", "k", "flag"]].to_numpy()
    other = x + np.array([0.0, 0.0, 1e3, -50.0])
    np.testing.assert_allclose(fitted.values(other), fitted.values(x), rtol=1e-9)


def test_the_printed_test_error_is_that_of_predictions_for_new_data(tmp_path, capsys):
    """Training rows and test rows in two files: the test file alone cannot help the model."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.standard_t(3, (40, 2)), columns=["a", "b"])
    frame["y"] = 10 * frame["a"] + frame["b"] ** 2 + 3 * rng.normal(size=40)
    tested = Table(frame, "y")
    rows = tested.scaler.invert(tested.evaluation()[0])
    is_test = np.isclose(frame["a"].to_numpy()[:, None], rows[:, 0]).any(axis=1)
    assert is_test.sum() == 8
    data, new = tmp_path / "data.csv", tmp_path / "new.csv"
    frame.to_csv(data, index=False)
    frame[is_test].to_csv(new, index=False)
    model, out = tmp_path / "m.safetensors", tmp_path / "p.csv"
    assert main(["fit", str(data), "--target", "y", *FAST, "--out", str(model)]) == 0
    shown = capsys.readouterr().out
    printed = {line.split()[0]: line.split() for line in shown.splitlines() if line.strip()}
    assert main(["predict", str(model), str(new), "--out", str(out)]) == 0
    beyond = capsys.readouterr().err.split("note: ")[1].split(" rows lie outside")[0]
    assert f"{beyond} of the test rows lie outside the range of the training rows" in shown
    error = pd.read_csv(out)["y"].to_numpy() - frame["y"][is_test].to_numpy()
    assert float(printed["KAN"][-2]) == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-3)

    # Neither does it help the others: the mean of the training rows is what it is compared with.
    train = frame["y"][~is_test]
    error = train.mean() - frame["y"][is_test]
    assert float(printed["mean"][-2]) == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-3)

    # And what the test rows are like changes nothing about the model.
    weights = load_fitted(model)
    moved = frame.copy()
    moved.loc[is_test, ["a", "b", "y"]] *= 7
    moved.to_csv(data, index=False)
    assert main(["fit", str(data), "--target", "y", *FAST, "--out", str(model)]) == 0
    again = load_fitted(model)
    assert (again.inputs, again.target) == (weights.inputs, weights.target)
    x = frame[["a", "b"]].to_numpy()
    np.testing.assert_array_equal(again.values(x), weights.values(x))


def test_numbers_out_of_all_proportion(table, tmp_path, capsys):
    frame = pd.read_csv(table)
    known = Table(frame, "y")
    row = int(np.argmin(abs(frame["a"] - known.scaler.invert(known.evaluation()[0])[0, 0])))
    out = str(tmp_path / "m.safetensors")
    for column, shown in (
        ("a", r"ridge .* \S+e\+\d\d +-\S+e\+\d\d\n"),
        ("y", r"KAN .* inf +nan\n"),
    ):
        odd = frame.copy()
        odd.loc[row, column] = 1e300
        odd.to_csv(table, index=False)
        assert main(["fit", str(table), "--target", "y", *FAST, "--out", out]) == 0
        assert re.search(shown, capsys.readouterr().out)
    for unit, more in ((1e300, "more"), (1e-300, "less")):
        frame.assign(y=unit * frame["y"]).to_csv(table, index=False)
        assert main(["fit", str(table), "--target", "y", *FAST, "--out", out]) == 2
        assert f"Column 'y' spreads over {more} than float64 can hold" in capsys.readouterr().err


def test_a_column_with_a_comma_and_one_without_a_name(table, tmp_path, capsys):
    out = tmp_path / "m.safetensors"
    frame = pd.read_csv(table).rename(columns={"y": "y, in m", "a": "a,b"})
    frame.to_csv(table)  # with its index
    options = [*FAST, "--steps", "5", "--out", str(out)]
    assert main(["fit", str(table), "--target", "y, in m", *options]) == 0
    shown = capsys.readouterr()
    assert "y, in m from a,b, b\n" in shown.out
    assert "note: column 1 has no name" in shown.err
    assert load_fitted(out).inputs.columns == ("a,b", "b")
    assert main(["fit", str(table), "--target", "y, in m", "--inputs", "a,b", *options]) == 0
    assert load_fitted(out).inputs.columns == ("a,b",)
    assert "note" not in capsys.readouterr().err


def test_the_same_fit_gives_the_same_bytes(table, tmp_path):
    written = []
    for name in ("one.safetensors", "two.safetensors"):
        main(["fit", str(table), "--target", "y", *FAST, "--out", str(tmp_path / name)])
        written.append((tmp_path / name).read_bytes())
    assert written[0] == written[1]


def test_a_model_of_an_array_says_which_columns_it_needs(table, tmp_path, capsys):
    pytest.importorskip("sklearn")
    from kandle import KANRegressor

    frame = pd.read_csv(table)
    model = KANRegressor(layers=(2,), grid=3, max_iter=2)
    model.fit(frame[["a", "b"]].to_numpy(), frame["y"]).save(tmp_path / "m.safetensors")
    arguments = ["predict", str(tmp_path / "m.safetensors"), str(table)]
    assert main([*arguments, "--out", str(tmp_path / "p.csv")]) == 2
    assert "must have the columns x0, x1. It has a, b, y." in capsys.readouterr().err
    out = tmp_path / "fit.safetensors"
    main(["fit", str(table), "--target", "y", *FAST, "--steps", "5", "--out", str(out)])
    with pytest.raises(UserError, match="load_fitted"):
        KANRegressor.load(out)


def test_predicting_beyond_the_data_is_said(table, tmp_path, capsys):
    out = tmp_path / "m.safetensors"
    main(["fit", str(table), "--target", "y", *FAST, "--steps", "5", "--out", str(out)])
    pd.DataFrame({"a": [0.0, 99.0], "b": [0.0, 0.0]}).to_csv(tmp_path / "far.csv", index=False)
    main(["predict", str(out), str(tmp_path / "far.csv"), "--out", str(tmp_path / "p.csv")])
    assert "1 row lies outside" in capsys.readouterr().err


def test_ridge_is_least_squares_where_nothing_speaks_for_a_penalty():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    y = x @ [[1.0], [2.0], [-1.0]] + 5
    np.testing.assert_allclose(ridge(x, y)(x), y, atol=1e-5)
    noise = rng.normal(size=(30, 1))
    wide = rng.normal(size=(30, 25))
    shrunk = ridge(wide, noise)(wide)
    assert np.std(shrunk) < 0.5 * np.std(noise)


@pytest.mark.parametrize(
    ("edit", "options", "message"),
    [
        (None, ["--target", "z"], "Unknown column 'z'"),
        (("a", 3, "seven"), ["--target", "y"], "Column 'a', row 4 is 'seven'"),
        (
            ("b", 2, None),
            ["--target", "y"],
            "row 3 is missing. `kandle fit --missing impute`",
        ),
        (
            ("y", 2, None),
            ["--target", "y", "--missing", "impute"],
            "Target 'y', row 3 is missing. Leave out rows without a target",
        ),
        (
            "a b y\n" + "1 2 3\n" * 20,
            ["--target", "y"],
            "The table has one column, 'a b y': its columns are separated by something other",
        ),
        ("few", ["--target", "y"], "has 5 rows"),
        ("a,y\n1,2\n", ["--target", "y"], "has 1 row."),
        ("empty", ["--target", "y"], "empty"),
        ("a,y,a\n1,2,3\n4,5,6\n", ["--target", "y"], "Column 'a' occurs more than once in"),
        ("y\n1\n2\n", ["--target", "y"], "nothing to predict y from: its only columns are 'y'"),
        (
            None,
            ["--target", "y", "--seed", f"{2**63}"],
            f"--seed must be an integer from 0 to 2³² - 1. Got {2**63}",
        ),
        (None, ["--target", "y", "--seed", f"{2**32}"], "--seed must be"),
        (None, ["--target", "y", "--seed", "-1"], "--seed must be"),
        (None, ["--target", "y", "--rate", "0"], "'--rate' must be a positive finite number"),
        (None, ["--target", "y", "--weight-decay", "-1"], "'--weight-decay' must be"),
        (None, ["--target", "y", "--recipe", "slow"], "Unknown recipe 'slow'"),
        (None, ["--target", "y", "--separator", "ab"], "--separator must be one character"),
        (None, ["--target", "y", "--init", "xavier"], "Unknown scheme 'xavier'"),
        (
            "a,y\n" + "1,red\n2,blue\n" * 10,
            ["--target", "y", "--task", "regression"],
            "Target 'y' is text, such as 'red', and no number. It can be classified",
        ),
        (None, ["--target", "y", "--init", "power-law:1"], "power-law:0.25,1.75"),
        (None, ["--target", "y", "--no-early-stopping", "--rate", "1e30"], "diverged"),
    ],
)
def test_bad_data_is_one_line_and_no_file(table, tmp_path, capsys, edit, options, message):
    frame = pd.read_csv(table)
    if edit == "few":
        frame = frame.head(5)
    elif isinstance(edit, str):
        table.write_text("" if edit == "empty" else edit)
    elif edit is not None:
        column, row, value = edit
        frame[column] = frame[column].astype(object)
        frame.loc[row, column] = value
    if edit == "few" or not isinstance(edit, str):
        frame.to_csv(table, index=False)
    out = tmp_path / "m.safetensors"
    assert main(["fit", str(table), *options, *FAST, "--out", str(out)]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("kandle: error:")
    assert message in error
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--rate", "fast", "argument --rate/--learning-rate: must be a number"),
        ("--learning-rate", "0", "'--rate' must be a positive finite number. Got 0.0"),
        ("--steps", "1e2.5", "argument --steps: must be a whole number, such as 1000 or 1e3"),
        ("--smoothness", "soft", "argument --smoothness: must be 'auto' or a number"),
        ("--batch-size", "0", "'--batch-size' must be"),
    ],
)
def test_messages_name_the_option(option, value, message, table, tmp_path, capsys):
    command = ["fit", str(table), "--target", "y", "--out", str(tmp_path / "m.safetensors")]
    try:
        status = main([*command, option, value])
    except SystemExit as exit:
        status = exit.code
    assert status == 2
    assert message in capsys.readouterr().err


def test_where_to_write_is_checked_before_training(table, tmp_path, capsys):
    for out, message in (
        (tmp_path / "no" / "m.safetensors", "no folder"),
        (tmp_path / "m", "ends"),
    ):
        assert main(["fit", str(table), "--target", "y", "--out", str(out)]) == 2
        assert message in capsys.readouterr().err


def test_predictions_never_replace_the_data(table, tmp_path, capsys):
    model = tmp_path / "model.safetensors"
    assert main(["fit", str(table), "--target", "y", "--steps", "2", "--out", str(model)]) == 0
    before = table.read_bytes()
    assert main(["predict", str(model), str(table), "--out", str(table)]) == 2
    assert "--out must be another file than DATA" in capsys.readouterr().err
    assert table.read_bytes() == before


def test_columns_of_a_parquet_file_may_be_numbers(tmp_path):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)))
    data, model = tmp_path / "data.parquet", tmp_path / "model.safetensors"
    frame.to_parquet(data)
    assert main(["fit", str(data), "--target", "2", "--steps", "2", "--out", str(model)]) == 0
    assert main(["predict", str(model), str(data), "--out", str(tmp_path / "p.csv")]) == 0


def test_prediction_errors(table, tmp_path, capsys):
    out = tmp_path / "m.safetensors"
    main(["fit", str(table), "--target", "y", *FAST, "--steps", "5", "--out", str(out)])
    pd.DataFrame({"a": [1.0]}).to_csv(tmp_path / "lacks.csv", index=False)
    capsys.readouterr()
    for model, data, message in (
        (out, tmp_path / "lacks.csv", "lacks 1 of the 2 columns that"),
        (tmp_path / "none.safetensors", table, "none.safetensors"),
        (table, table, "damaged or not a saved model"),
        (table, out, "they are swapped"),
    ):
        arguments = ["predict", str(model), str(data), "--out", str(tmp_path / "p.csv")]
        assert main(arguments) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "p.csv").exists()


def test_each_target_has_scores_and_a_ridge_of_its_own(tmp_path, capsys):
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, (2, 80))
    frame = pd.DataFrame({"a": a, "b": b, "price": 1e6 * (a + 2 * b), "rate": np.sin(3 * a) * b})
    frame.to_csv(tmp_path / "two.csv", index=False)
    found = {}
    for target in ("price", "price,rate"):
        command = ["fit", str(tmp_path / "two.csv"), "--target", target, "--inputs", "a,b"]
        assert main([*command, *FAST, "--out", str(tmp_path / "m.safetensors")]) == 0
        found[target] = capsys.readouterr().out
    alone, both = (_scores(text) for text in found.values())
    assert both["ridge"][0] == alone["ridge"][0]  # as good as if there were no other target
    assert len(both["ridge"]) == 2
    text = found["price,rate"]
    assert re.search(r"^price +train +test", text, re.MULTILINE)
    assert re.search(r"^rate +train +test", text, re.MULTILINE)
    assert "no better on the test rows than ridge for price: prefer that." in text
    # In the units of each: the mean is off by its spread.
    price, rate = (float(line[-2]) for line in both["mean"])
    assert price > 1e5
    assert rate < 1


def _scores(text):
    rows = [line.split() for line in text.splitlines()]
    names = ("mean", "ridge", "KAN")
    return {name: [row for row in rows if row and row[0] == name] for name in names}


def test_damaged_metadata_of_a_parquet_file_are_one_line(tmp_path, capsys):
    """pandas looks up keys in them that need not be there."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    table = pa.table({"a": [1.0, 2.0], "y": [1.0, 2.0]})
    damaged = table.replace_schema_metadata({b"pandas": b'{"columns": [{}]}'})
    pyarrow.parquet.write_table(damaged, tmp_path / "bad.parquet")
    out = ["--out", str(tmp_path / "m.safetensors")]
    assert main(["fit", str(tmp_path / "bad.parquet"), "--target", "y", *out]) == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert "bad.parquet' cannot be read as a table: KeyError: " in shown


def test_a_named_index_of_a_parquet_file_is_a_column(tmp_path, capsys):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(-1, 1, (40, 2)), columns=["a", "b"])
    frame.assign(y=frame["a"]).set_index("a").to_parquet(tmp_path / "indexed.parquet")
    command = ["fit", str(tmp_path / "indexed.parquet"), "--target", "y", *FAST]
    assert main([*command, "--out", str(tmp_path / "m.safetensors")]) == 0
    assert capsys.readouterr().out.startswith("y from a, b\n")


def test_a_network_that_no_memory_holds_is_refused(table, tmp_path, capsys):
    out = tmp_path / "model.safetensors"
    options = ["--layers", "2", "--grid", "100000000", "--out", str(out)]
    assert main(["fit", str(table), "--target", "y", *options]) == 2
    assert re.search(r"grid 100000000 has \S+ weights, more than", capsys.readouterr().err)
    assert not out.exists()


@pytest.mark.parametrize(
    "option", [["--layers", "8,,8"], ["--grid", "x"], ["--layers", "0"], ["--steps", "1.5"]]
)
def test_options_are_refused_in_one_line(table, option, capsys):
    with pytest.raises(SystemExit) as left:
        main(["fit", str(table), "--target", "y", *option, "--out", "m.safetensors"])
    assert left.value.code == 2
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    assert text.startswith(f"kandle fit: error: argument {option[0]}: ")
    assert text.endswith("(see kandle fit --help)\n")


def test_scores_are_told_even_if_the_disk_fails(table, tmp_path, capsys, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kandle.tabular.save_fitted", full)
    out = str(tmp_path / "m.safetensors")
    assert main(["fit", str(table), "--target", "y", *FAST, "--out", out]) == 2
    text = capsys.readouterr()
    assert "test R²" in text.out
    assert "No space left" in text.err


def test_an_unknown_option_is_an_error_of_the_command(table, capsys):
    with pytest.raises(SystemExit):
        main(["fit", str(table), "--target", "y", "--out", "m.safetensors", "--knots", "3"])
    shown = capsys.readouterr().err
    assert shown.endswith("unrecognized arguments: --knots 3 (see kandle fit --help)\n")


@pytest.fixture
def flowers(tmp_path):
    """Two classes by text, a column of text, a missing number, semicolons."""
    rng = np.random.default_rng(0)
    a = rng.uniform(-1, 1, 80)
    color = np.where(rng.uniform(size=80) < 0.5, "red", "blue")
    frame = pd.DataFrame({"a": a, "color": color, "kind": np.where(a > 0, "high", "low")})
    frame.loc[5, "a"] = np.nan
    path = tmp_path / "flowers.csv"
    frame.to_csv(path, index=False, sep=";")
    return path


def test_classification_with_text_missing_values_and_semicolons(flowers, tmp_path, capsys):
    out, predictions = tmp_path / "m.safetensors", tmp_path / "p.csv"
    command = ["fit", str(flowers), "--target", "kind", *FAST, "--steps", "1e2", "--out", str(out)]
    assert main([*command, "--missing", "impute"]) == 2
    assert "`kandle fit --categorical` encodes columns of text" in capsys.readouterr().err
    assert main([*command, "--categorical"]) == 2
    assert "row 6 is missing. `kandle fit --missing impute`" in capsys.readouterr().err
    assert main([*command, "--categorical", "--missing", "impute"]) == 0
    shown = capsys.readouterr().out
    assert "task: classification, assumed because kind is text of 2 distinct values" in shown
    assert "held-out training rows" in shown
    assert float(shown.split("KAN (power-law)")[1].split()[2]) > 0.8
    fitted = load_fitted(out)
    assert fitted.inputs.columns == ("a", "color=blue", "color=red")
    new = pd.DataFrame({"color": ["red", "green"], "a": [0.9, np.nan]})
    new.to_csv(tmp_path / "new.tsv", index=False, sep="\t")
    assert main(["predict", str(out), str(tmp_path / "new.tsv"), "--out", str(predictions)]) == 0
    assert "column 'color' has categories" in capsys.readouterr().err
    predicted = pd.read_csv(predictions)
    assert list(predicted) == ["class", "p(high)", "p(low)"]
    assert predicted["class"][0] == "high"
    np.testing.assert_allclose(predicted[["p(high)", "p(low)"]].sum(axis=1), 1)


def test_a_missing_category_is_an_error_unless_it_is_imputed(flowers, tmp_path, capsys):
    frame = pd.read_csv(flowers, sep=";").fillna({"a": 0.0})
    frame.loc[7, "color"] = np.nan
    data, out = tmp_path / "d.csv", tmp_path / "m.safetensors"
    frame.to_csv(data, index=False)
    command = ["fit", str(data), "--target", "kind", "--categorical", *FAST, "--out", str(out)]
    assert main(command) == 2
    error = "Column 'color', row 8 is missing. With `kandle fit --missing impute` it counts as none"
    assert error in capsys.readouterr().err
    assert main([*command, "--missing", "impute"]) == 0
    row = pd.DataFrame({"a": [0.1], "color": [None]})
    encoder = load_fitted(out).encoder
    assert encoder is not None
    np.testing.assert_array_equal(encoder.apply(row), [[0.1, 0.0, 0.0]])


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_a_file_that_is_not_in_utf_8(encoding, table, tmp_path, capsys):
    table.write_text("größe,y\n" + "1,2\n" * 20, encoding=encoding)
    out = tmp_path / "m.safetensors"
    assert main(["fit", str(table), "--target", "y", "--out", str(out)]) == 2
    assert "it is not in UTF-8. Save it in that encoding" in capsys.readouterr().err


def test_dates_are_no_classes(tmp_path, capsys):
    frame = pd.DataFrame({"a": range(40), "y": pd.to_datetime(["2020-01-01", "2021-01-01"] * 20)})
    frame.to_parquet(tmp_path / "d.parquet")
    command = ["fit", str(tmp_path / "d.parquet"), "--target", "y", *FAST]
    assert main([*command, "--out", str(tmp_path / "m.safetensors")]) == 2
    assert "Column 'y', row 1 must be a real number" in capsys.readouterr().err


def test_names_with_commas_are_quoted_among_others(table, tmp_path, capsys):
    pd.read_csv(table).rename(columns={"a": "a, m"}).to_csv(table, index=False)
    out = tmp_path / "m.safetensors"
    command = ["fit", str(table), "--target", "y", *FAST, "--out", str(out)]
    assert main([*command, "--inputs", '"a, m", b']) == 0
    assert load_fitted(out).inputs.columns == ("a, m", "b")


def test_a_decay_that_leaves_a_constant_is_said(table, tmp_path, capsys):
    command = ["fit", str(table), "--target", "y", *FAST, "--no-early-stopping"]
    command += ["--out", str(tmp_path / "m.safetensors"), "--weight-decay"]
    assert main([*command, "10"]) == 0
    assert "hardly vary: --weight-decay 10 may be too large" in capsys.readouterr().out
    assert main([*command, "1e-3"]) == 0
    assert "hardly vary" not in capsys.readouterr().out


def test_the_task_can_be_given(table, tmp_path, capsys):
    frame = pd.read_csv(table).assign(y=lambda f: (f["a"] > 0).astype(int))
    frame.to_csv(table, index=False)
    command = ["fit", str(table), "--target", "y", *FAST, "--out", str(tmp_path / "m.safetensors")]
    assert main(command) == 0
    assert "classification, assumed because y has 2 distinct whole" in capsys.readouterr().out
    frame.assign(y=frame["y"].astype(float)).to_csv(table, index=False)
    assert main(command) == 0
    assert "classification, assumed because y has 2 distinct whole" in capsys.readouterr().out
    frame.assign(y=frame["y"] + 0.5).to_csv(table, index=False)
    assert main([*command, "--steps", "10"]) == 0
    assert "regression, assumed because y is a number of 2 distinct" in capsys.readouterr().out
    assert main([*command, "--task", "regression", "--no-early-stopping"]) == 0
    shown = capsys.readouterr().out
    assert "assumed" not in shown
    assert "150 updates without validation" in shown


def test_the_command_and_the_estimator_have_the_same_defaults():
    import argparse

    pytest.importorskip("sklearn")
    from kandle import KANRegressor
    from kandle.cli import _fit
    from kandle.tabular import FitSettings

    subparsers = argparse.ArgumentParser().add_subparsers()
    _fit.add(subparsers)
    given = subparsers.choices["fit"].parse_args(["d.csv", "--target", "y", "--out", "m"])
    assert _fit.settings_of(given, 0) == FitSettings()
    own = KANRegressor(random_state=0)._settings()
    for name in FitSettings.names():
        assert getattr(own, name) == getattr(FitSettings(), name)


def test_a_large_parquet_file_is_read_by_row_groups(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("kandle.tabular._stream.STREAMED_CELLS", 1000)
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (6000, 2))
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": np.sin(3 * x[:, 0]) + x[:, 1]})
    data, out = tmp_path / "d.parquet", tmp_path / "m.safetensors"
    frame.to_parquet(data, row_group_size=1500)
    command = ["fit", str(data), "--target", "y", *FAST, "--steps", "300", "--out", str(out)]
    assert main([*command, "--batch-size", "64"]) == 0
    shown = capsys.readouterr()
    assert "read by row groups" in shown.err
    assert float(shown.out.split("KAN (power-law)")[1].split()[2]) > 0.9
    assert main([*command, "--categorical"]) == 2
    frame.loc[4000, "b"] = np.nan
    frame.to_parquet(data, row_group_size=1500)
    assert main(command) == 2
    error = capsys.readouterr().err
    assert "Column 'b', row 4001 is missing. A file that is read by row groups must have" in error


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, ["--inputs", "a,y"], "Column 'y' is a target and cannot be an input as well"),
        (
            {"a": "red"},
            [],
            "Column 'a', row 1 is 'red', which is not a finite number",
        ),
        ({"y": None}, [], "Target 'y', row 2001 is missing. Leave out rows without a target"),
        ({"y": 1.5}, [], "Target 'y' is constant in the training rows"),
    ],
    ids=["both", "text", "missing", "constant"],
)
def test_bad_rows_of_a_large_parquet_file(change, options, message, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("kandle.tabular._stream.STREAMED_CELLS", 1000)
    a = np.random.default_rng(0).uniform(-1, 1, 3000)
    frame = pd.DataFrame({"a": a, "b": a**2, "y": np.where(a > 0, "high", "low")})
    frame = frame.assign(**{k: v for k, v in change.items() if v is not None})
    if change.get("y", "") is None:
        frame.loc[2000, "y"] = None
    data, out = tmp_path / "d.parquet", tmp_path / "m.safetensors"
    frame.to_parquet(data, row_group_size=1500)
    command = ["fit", str(data), "--target", "y", *FAST, *options, "--out", str(out)]
    assert main(command) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_columns_by_the_thousand_are_read_in_linear_time(tmp_path):
    """As many look-ups as columns: a quadratic number of them takes minutes."""
    from kandle.tabular import read_frame
    from kandle.tabular._read import numbers

    frame = pd.DataFrame(np.zeros((2, 20_000)), columns=[f"c{i}" for i in range(20_000)])
    frame.to_csv(tmp_path / "wide.csv", index=False)
    read = read_frame(tmp_path / "wide.csv")
    assert numbers(read, list(read.columns)).shape == (2, 20_000)
