"""Fitted models changed by somebody, with a right checksum: one-line errors, and no code runs."""

import json
import sys

import jax
import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("pandas")

from kandle import KAN, KANClassifier, KANRegressor, UserError
from kandle.cli import main
from kandle.nn import load_metadata, save
from kandle.nn._save import FITTED, load_network
from kandle.tabular import Fitted, load_fitted, save_fitted
from kandle.tabular._encode import Column, Encoder
from kandle.tabular._scaler import Scaler

X = np.linspace(-1, 1, 24).reshape(12, 2)


def resaved(path, change):
    """Change the description of a fit, and save it as `save` does."""
    described = json.loads(load_metadata(path)[FITTED])
    described = change(described) or described
    save(load_network(path), path, {FITTED: json.dumps(described)})


@pytest.fixture
def fitted(tmp_path):
    """A classifier with a column of categories, as `kandle fit` writes it."""
    columns = Encoder((Column("a"), Column("kind", ("red", "green"))))
    inputs = Scaler(tuple(columns.names), (0.0,) * 3, (1.0,) * 3)
    model = KAN([3, 2], grid=2, key=jax.random.key(0))
    path = tmp_path / "m.safetensors"
    save_fitted(Fitted(model, inputs, None, ["no", "yes"], {"columns": columns.to_dict()}), path)
    (tmp_path / "d.csv").write_text("a,kind\n0.5,red\n-1,green\n")
    return path


def put(*keys, value):
    def change(described):
        for key in keys[:-1]:
            described = described[key]
        described[keys[-1]] = value

    return change


def without(*keys):
    def change(described):
        for key in keys[:-1]:
            described = described[key]
        del described[keys[-1]]

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: ["x"], "not an object"),
        (without("classes"), "lacks 'classes'"),
        (put("extra", value="x"), "'extra' is not an object"),
        (put("extra", "columns", value=7), "int"),
        (put("extra", "columns", 0, "name", value="b"), "not those of the inputs"),
        (without("extra", "columns", 1), "not those of the inputs"),
        (without("extra", "columns", 0, "fill"), "lacks 'fill'"),
        (put("extra", "columns", 0, "fill", value=10**400), "too large"),
        (put("inputs", "offset", 0, value=10**400), "too large"),
        (put("inputs", "scale", 0, value=0), "scale above 0"),
        (put("inputs", value=None), "NoneType"),
        (put("target", value={"columns": ["y"], "offset": [0], "scale": [1]}), "'classes'"),
        (put("classes", value=None), "'target' and 'classes'"),
        (put("classes", value="ny"), "not texts or numbers"),
        (put("classes", value=[[1], [2]]), "not texts or numbers"),
        (put("classes", value=["no", "yes", "maybe"]), "other inputs or outputs"),
    ],
)
def test_a_changed_description_is_one_line(fitted, tmp_path, capsys, change, message):
    resaved(fitted, change)
    with pytest.raises(UserError, match=message):
        load_fitted(fitted)
    code = main(["predict", str(fitted), str(tmp_path / "d.csv"), "--out", str(tmp_path / "o.csv")])
    error = capsys.readouterr().err
    assert (code, error.count("\n"), "damaged description" in error) == (2, 1, True)
    assert not (tmp_path / "o.csv").exists()


def test_a_description_nested_too_deeply_is_one_line(fitted):
    model = load_network(fitted)
    save(model, fitted, {FITTED: "[" * 100_000})
    with pytest.raises(UserError, match="damaged description"):
        load_fitted(fitted)


def test_a_basis_nested_too_deeply_is_one_line(tmp_path):
    from kandle._model_file import FormatError, from_json

    layer = {"n_in": 1, "n_out": 1, "residual": None, "bias": False, "normalized": False}
    layer |= {"frozen": False, "basis": {"name": "knots", "degree": 1, "knots": "@"}}
    text = json.dumps({"version": 2, "dtype": "float32", "layers": [layer]})
    with pytest.raises(FormatError, match="'basis' of a layer"):
        from_json(text.replace('"@"', "[" * 600 + "]" * 600))


def test_unknown_categories_are_shown_safely(fitted, tmp_path, capsys):
    (tmp_path / "d.csv").write_text("a,kind\n0.5,b\x1b[31m\n")
    main(["predict", str(fitted), str(tmp_path / "d.csv"), "--out", str(tmp_path / "o.csv")])
    error = capsys.readouterr().err
    assert "b\\x1b[31m" in error
    assert "\x1b" not in error


@pytest.mark.parametrize("form", ["text", "table"])
def test_a_scheme_in_a_file_is_never_imported(tmp_path, monkeypatch, form):
    (tmp_path / "evil_scheme.py").write_text("open('ran', 'w')\nraise SystemExit\n")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "m.safetensors"
    KANRegressor(layers=(2,), grid=2, max_iter=1, n_networks=1).fit(X, X[:, 0]).save(path)
    name = "evil_scheme:Thing"
    resaved(path, put("extra", "init", value=name if form == "text" else {"name": name}))
    if form == "text":
        with pytest.warns(UserWarning, match="evil_scheme:Thing"):
            model = KANRegressor.load(path)
        assert model.init == "power-law"
        model.fit(X, X[:, 0])
    else:
        with pytest.raises(UserError, match="not the description of a scheme"):
            KANRegressor.load(path)
    assert not (tmp_path / "ran").exists()
    assert "evil_scheme" not in sys.modules


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("extra", "parameters", value=[]), "'parameters' is not an object"),
        (put("extra", "parameters", "x\ny", value=1), "x y"),
        (put("extra", "networks", value=0), "0 networks"),
        (put("extra", "networks", value=3), "3 networks do not fit into the widths"),
        (put("extra", "updates", value="many"), "'many'"),
        (put("extra", "dtype", value="<U1"), "not of the type <U1"),
        (put("extra", "dtype", value="<U100000000"), "of the type <U100000000"),
        (put("extra", "dtype", value="os"), "os"),
        (without("extra", "named"), "lacks 'named'"),
    ],
)
def test_a_changed_estimator_is_one_line(tmp_path, change, message):
    path = tmp_path / "c.safetensors"
    options = {"layers": (2,), "grid": 2, "max_iter": 1, "n_networks": 2}
    y = np.where(X[:, 0] > 0, "above", "below")
    KANClassifier(**options).fit(X, y).save(path)
    assert list(KANClassifier.load(path).classes_) == ["above", "below"]
    resaved(path, change)
    with pytest.raises(UserError, match=message) as caught:
        KANClassifier.load(path)
    assert "\n" not in str(caught.value)
