"""Saving and loading: exact round trips, and files that must be refused."""

import json
import struct

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save_file

import kandle
from kandle import KAN, UserError
from kandle.nn import load_metadata

X = np.random.default_rng(0).uniform(-1, 1, (9, 2)).astype(np.float32)


def network(**options):
    return KAN([2, 3, 1], key=jax.random.key(0), **{"grid": 4, **options})


def cubed(x):
    return x**3


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bias": False},
        {"residual": None},
        {"residual": "tanh"},
        {"grid": [3, 7], "degree": 2, "domain": (0.1, 0.7)},
        {"init": "lecun-normalized"},
    ],
)
def test_round_trip_is_exact(tmp_path, options):
    model = network(**options)
    kandle.save(model, tmp_path / "m.safetensors")
    loaded = kandle.load(tmp_path / "m.safetensors")
    assert eqx.tree_equal(model, loaded)
    np.testing.assert_array_equal(model(X), loaded(X))


def test_frozen_statistics_are_saved(tmp_path):
    model = network(init="lecun-normalized").freeze(X)
    kandle.save(model, tmp_path / "m")
    loaded = kandle.load(tmp_path / "m")
    assert eqx.tree_equal(model, loaded)
    np.testing.assert_array_equal(model(X[:1]), loaded(X[:1]))


def test_double_precision_needs_it_on(tmp_path):
    with jax.enable_x64(True):
        model = network(dtype=jnp.float64)
        kandle.save(model, tmp_path / "m")
        assert eqx.tree_equal(kandle.load(tmp_path / "m"), model)
    with pytest.raises(UserError, match=r"float64 model.*jax_enable_x64"):
        kandle.load(tmp_path / "m")


def test_metadata_is_kept(tmp_path):
    kandle.save(network(), tmp_path / "m", {"scaling": "[1, 2]", "note": "æ"})
    assert load_metadata(tmp_path / "m") == {"scaling": "[1, 2]", "note": "æ"}
    with pytest.raises(UserError, match="A key of 'metadata' must be other than 'kandle'"):
        kandle.save(network(), tmp_path / "m", {"kandle": "x"})
    with pytest.raises(UserError, match="'metadata' of save must be"):
        kandle.save(network(), tmp_path / "m", {"x": 1})  # pyright: ignore


def test_a_residual_of_ones_own_is_given_again(tmp_path):
    model = network(residual=cubed)
    kandle.save(model, tmp_path / "m")
    with pytest.raises(UserError, match=r"'cubed'.*load\(path, residual="):
        kandle.load(tmp_path / "m")
    assert eqx.tree_equal(kandle.load(tmp_path / "m", residual=cubed), model)
    kandle.save(network(), tmp_path / "m")
    with pytest.raises(UserError, match="'residual' of load must be None"):
        kandle.load(tmp_path / "m", residual=cubed)


def test_a_stack_of_models_is_refused(tmp_path):
    stacked = jax.tree.map(lambda a: jnp.stack([a, a]), network())
    with pytest.raises(UserError, match="of layer 0 must be of shape"):
        kandle.save(stacked, tmp_path / "m")


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "m"
    kandle.save(network(), path)
    before = path.read_bytes()

    def fail(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="no space"):
        kandle.save(network(bias=False), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


# --- files to refuse ---------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "m.safetensors"
    kandle.save(network(), path)
    return path


def rewrite(path, change):
    """Change the JSON header of a safetensors file in place."""
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + size :])


@pytest.mark.parametrize("kept", [0, 4, 100, -8, -1])
def test_truncated(saved, kept):
    saved.write_bytes(saved.read_bytes()[:kept])
    with pytest.raises(UserError, match=r"m\.safetensors is damaged or not a saved model"):
        kandle.load(saved)


def test_foreign(tmp_path):
    path = tmp_path / "x"
    path.write_text("not a model, but a long enough text to read a header from")
    with pytest.raises(UserError, match="damaged or not a saved model"):
        kandle.load(path)
    save_file({"w": np.zeros(3)}, path)
    with pytest.raises(UserError, match="not one that Kandle saved"):
        kandle.load(path)
    with pytest.raises(UserError, match="is a folder"):
        kandle.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        kandle.load(tmp_path / "nothing")


def test_flipped_weights(saved):
    content = bytearray(saved.read_bytes())
    content[-3] ^= 1
    saved.write_bytes(content)
    with pytest.raises(UserError, match="checksum"):
        kandle.load(saved)


def described(header, change):
    text = json.loads(header["__metadata__"]["kandle"])
    change(text)
    header["__metadata__"]["kandle"] = json.dumps(text)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(version=3), "format version is 3, this Kandle reads 1 and 2"),
        (lambda d: d.update(version=2), "a layer's description lacks entries"),
        (lambda d: d.pop("version"), "no version"),
        (lambda d: d.update(code="import os"), "lacks entries or has unknown ones"),
        (lambda d: d.update(dtype="object"), "dtype is 'object'"),
        (lambda d: d.update(dtype="float16"), "tensor .* is float32"),
        (lambda d: d.update(layers=[]), "no layers"),
        (lambda d: d.update(layers=[1]), "a layer's description"),
        (lambda d: d["layers"][0].update(n_in=3), "tensor .* is float32"),
        (lambda d: d["layers"][0].update(grid=10**12), "tensor .* is float32"),
        (lambda d: d["layers"][0].update(grid=-1), "'grid' of a layer is -1"),
        (lambda d: d["layers"][0].update(grid=True), "'grid' of a layer is True"),
        (lambda d: d["layers"][0].update(bias=0), "'bias' of a layer is 0"),
        (lambda d: d["layers"][0].update(bias=False), "missing or unknown: layers.0.bias"),
        (lambda d: d["layers"][0].update(residual="os.system"), "'residual' of a layer"),
        (lambda d: d["layers"][0].update(residual={"custom": 1}), "'residual' of a layer"),
        (lambda d: d["layers"][0].update(residual=["silu"]), "'residual' of a layer"),
        (lambda d: d["layers"][0].update(domain=3), "'domain' of a layer"),
        (lambda d: d["layers"][0].update(domain=[1.0, -1.0]), "'domain' must be a pair"),
        (lambda d: d["layers"][0].update(frozen=True), "frozen statistics"),
        (lambda d: d["layers"].pop(), "missing or unknown: layers.1.b"),
    ],
)
def test_tampered_description(saved, change, message):
    rewrite(saved, lambda header: described(header, change))
    with pytest.raises(
        UserError, match=rf"m\.safetensors is not a valid Kandle model: .*{message}"
    ):
        kandle.load(saved)


def test_description_that_is_not_json(saved):
    rewrite(saved, lambda header: header["__metadata__"].update(kandle="{"))
    with pytest.raises(UserError, match="not JSON"):
        kandle.load(saved)


def test_nothing_is_unpickled(saved, monkeypatch):
    def forbidden(*_, **__):
        raise AssertionError("a saved model must not be unpickled")

    for name in ("pickle.load", "pickle.loads", "pickle.Unpickler"):
        monkeypatch.setattr(name, forbidden)
    kandle.load(saved)
