"""Files made to confuse `load`: every one ends in a one-line error, and none runs code."""

import json
import random
import sys

import jax
import numpy as np
import pytest
from safetensors.numpy import save_file

import kandle
from kandle import UserError

LAYER = {
    "n_in": 2,
    "n_out": 1,
    "grid": 3,
    "degree": 3,
    "domain": [-1.0, 1.0],
    "residual": "silu",
    "bias": True,
    "normalized": False,
    "frozen": False,
}


def model_file(path, header):
    """A safetensors file with this text as its description."""
    save_file({"layers.0.c": np.zeros((1, 2), np.float32)}, path, {"kandle": header})
    return path


def header(version=1, **changes):
    return json.dumps({"version": version, "dtype": "float32", "layers": [{**LAYER, **changes}]})


def basis(description):
    """The header of a layer with another basis than uniform B-splines."""
    layer = {name: LAYER[name] for name in LAYER if name not in ("grid", "degree", "domain")}
    layer["basis"] = description
    return json.dumps({"version": 2, "dtype": "float32", "layers": [layer]})


@pytest.mark.parametrize(
    "text",
    [
        header().replace('"grid": 3', f'"grid": {"9" * 5000}'),
        header().replace("-1.0", "-1" + "0" * 400),
        header().replace("-1.0", "-1e400"),
        header().replace("-1.0", "NaN"),
        header(domain=[[1], {}]),
        header(domain="ab"),
        header(n_in=10**30),
        header(residual={"custom": ["x"]}),
        header(residual=["silu"]),
        header().replace('"degree": 3', '"degree": 1000000000000'),
        basis({"name": "knots", "knots": [0, 1], "degree": 10**18}),
        basis({"name": "knots", "knots": [0, 1], "degree": 3 * 10**9}),
        basis({"name": "fourier", "order": 10**18}),
        basis({"name": "chebyshev", "degree": 10**18}),
        basis({"name": "rbf", "centers": 10**18}),
        basis({"name": ["knots"]}),
        "[" * 100_000,
        '{"version": 1}',
        json.dumps({"version": [1], "dtype": {}, "layers": 3}),
        json.dumps({"version": 1, "dtype": "float32", "layers": [[]]}),
    ],
)
def test_a_hostile_description_is_an_error_in_one_line(tmp_path, text):
    with pytest.raises(UserError) as error:
        kandle.load(model_file(tmp_path / "model.safetensors", text))
    assert "\n" not in str(error.value)
    assert "model.safetensors" in str(error.value)


@pytest.mark.parametrize("path", [b"model.safetensors", 5, None, "a\0b", ["x"]])
def test_a_path_is_text_or_a_path(path):
    with pytest.raises(UserError, match="The path of a model must be text"):
        kandle.load(path)


def test_loading_a_model_never_imports_a_module(tmp_path, monkeypatch):
    (tmp_path / "evil_basis.py").write_text("raise SystemExit('it ran')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    text = basis({"name": "evil_basis:Basis"})
    with pytest.raises(UserError, match="loading a model runs no code"):
        kandle.load(model_file(tmp_path / "model.safetensors", text))
    assert "evil_basis" not in sys.modules


def test_a_damaged_file_is_never_another_model(tmp_path):
    """Single bytes changed anywhere: the model is the same, or an error says that it is damaged."""
    path = tmp_path / "model.safetensors"
    model = kandle.KAN([2, 2, 1], grid=2, key=jax.random.key(0))
    kandle.save(model, path)
    data, chance = path.read_bytes(), random.Random(0)
    for _ in range(150):
        changed = bytearray(data)
        changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
        try:
            found = kandle.load(path)
        except UserError:
            continue
        same = jax.tree.map(lambda a, b: bool((a == b).all()), found, model)
        assert all(jax.tree.leaves(same))
