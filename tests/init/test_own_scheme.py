"""A scheme of a user's own: named as module:Class, described, drawn, adapted to data."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest

from kandle import KAN, UserError, init
from kandle.train import Architecture, train


@pytest.fixture(autouse=True)
def _beside_the_module(monkeypatch):
    monkeypatch.chdir(Path(__file__).parent)


def test_by_name_and_description():
    scheme = init.get("own_schemes:Small")
    assert scheme.name == scheme.label == "my small one"
    assert scheme.color.startswith("#")
    assert not scheme.normalized
    assert not scheme.needs_data
    described = init.to_dict(init.from_dict({"name": "own_schemes:Small", "size": 0.5}))
    assert described == {"name": "own_schemes:Small", "size": 0.5}
    assert init.from_dict(json.loads(json.dumps(described))).size == 0.5


def test_weights():
    r, _, b = init.get("own_schemes:Small").draw(jax.random.key(0), 40, 50, _basis())
    assert np.std(r) == pytest.approx(0.01, rel=0.1)
    assert np.std(b) == pytest.approx(0.01 / 8, rel=0.05)
    model = KAN([2, 3, 1], init="own_schemes:Small", residual=None, key=jax.random.key(0))
    assert model.layers[0].r is None


def _basis():
    from kandle.bases import BSpline

    return BSpline(5)


def test_training_passes_the_training_inputs_to_the_scheme():
    shape = Architecture(width=3, depth=1, grid=3)
    schemes = ["own_schemes:Centered", "own_schemes:Small"]
    seen = {}

    def on_checkpoint(step, models):
        seen.update({schemes[c.index]: c.model for c in models})

    train(
        "f1",
        shape,
        [(scheme, 0) for scheme in schemes],
        steps=1,
        checkpoints=[0],
        on_checkpoint=on_checkpoint,
        progress=lambda *_: None,
    )
    from kandle import problems

    x = problems.get("f1").arrays("float32")["x"]
    centred, plain = (float(np.mean(seen[scheme](x))) for scheme in schemes)
    assert abs(centred) < 1e-6 < 1e-5 < abs(plain)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_schemes:Large", "Unknown object in own_schemes 'Large'.*Small"),
        ("own_schemes:not_a_scheme", "must be a subclass of kandle.init.Scheme"),
        ("no_such_module:Small", "Scheme .*: there is no module 'no_such_module'"),
        ("own_schemes.py:Small", "A scheme of your own must be given without .py"),
    ],
)
def test_refuses(name, message):
    with pytest.raises(UserError, match=message):
        init.get(name)
    with pytest.raises(UserError, match=r"'colour'.*Known: size"):
        init.from_dict({"name": "own_schemes:Small", "colour": "red"})
