"""`benchmarks/peers.py`: its rows, its counts, and that peers train the same networks."""

import json
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kandle import MissingExtra, UserError

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import speed
from peers import main
from speed import _arithmetic
from speed._cases import CASES, Case
from speed._kandle import KandleRunner, kandle_runner
from speed._measure import medians
from speed._memory import peak
from speed._runner import Runner

TINY = Case("tiny", "f3", 2, 1, 4)
TINY_PDE = Case("tiny-pde", "allen-cahn", 2, 1, 4)
KEYS = {"case", "peer", "kandle_ms", "peer_ms", "ratio", "share", "kernels"}


def peer_runner(name: str, case: Case) -> Runner:
    with warnings.catch_warnings():
        # What other libraries warn of on import is not ours.
        warnings.simplefilter("ignore")
        try:
            return speed.PEERS[name].load()(case)
        except MissingExtra as error:
            pytest.skip(str(error))


class Sleeper(Runner):
    """A library whose step takes no time; remembers how it was asked."""

    def __init__(self, turns: list[str], name: str):
        self.turns, self.name = turns, name

    def run(self, steps: int) -> float:
        self.turns.append(self.name)
        return 0.0

    @property
    def parameters(self) -> int:
        return 0


def test_json_is_exactly_a_list_of_rows(capsys):
    assert main(["--cases", "functions-small", "--rounds", "1", "--json"]) == 0
    out = capsys.readouterr().out
    [row] = json.loads(out)
    assert set(row) == KEYS
    assert row["case"] == "functions-small"
    assert row["kandle_ms"] > 0
    assert 0 < row["share"] < 1
    assert set(row["kernels"]) == {"forward", "weight_gradient", "input_gradient"}
    assert all(0 < share < 1 for share in row["kernels"].values())
    assert row["peer"] is row["peer_ms"] is row["ratio"] is None


def test_ratio_is_the_peers_time_over_ours_a_network(monkeypatch):
    monkeypatch.setattr("speed._measure.kandle_runner", lambda case: None)
    monkeypatch.setattr("speed._measure._kernels.shares", lambda case, rate: {})
    peers = {"pykan": lambda case: None}
    cases = [CASES["functions-small"], CASES["functions-small-batch16"], CASES["pde-small"]]
    monkeypatch.setattr("speed._measure.medians", lambda r, rounds: [8.0, 40.0][: len(r)])
    rows = list(speed.measure(cases, peers, 1, 1e9))
    assert [(r.peer, r.kandle_ms, r.peer_ms, r.ratio) for r in rows] == [
        ("pykan", 8.0, 40.0, 5.0),
        ("pykan", 0.5, 40.0, 80.0),
        (None, 8.0, None, None),  # pykan has no PDE case
    ]


def test_libraries_take_turns():
    turns: list[str] = []
    medians([Sleeper(turns, "a"), Sleeper(turns, "b")], rounds=3)
    assert turns[-6:] == ["a", "b"] * 3


def test_a_missing_peer_is_a_note_with_the_command_to_install_it(monkeypatch, capsys):
    def no_module(name: str):
        raise ImportError(f"No module named {name}", name="jaxkan")

    monkeypatch.setattr("speed._peers.importlib.import_module", no_module)
    found, [note] = speed.find(("jaxkan",))
    assert found == {}
    assert "pip install 'kandle[bench]'" in note
    assert "\n" not in note


def test_an_error_in_our_own_adapter_is_not_taken_for_a_missing_peer(monkeypatch):
    def broken(name: str):
        raise ImportError("cannot import name 'x'", name="kandle.train")

    monkeypatch.setattr("speed._peers.importlib.import_module", broken)
    with pytest.raises(ImportError, match="cannot import name"):
        speed.find(("jaxkan",))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--cases", "functions-smal"], "functions-small"),
        (["--peers", "jaxkam"], "jaxkan"),
    ],
)
def test_unknown_names_are_told_with_the_nearest(options, named, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(options)
    error = capsys.readouterr().err
    assert f"Did you mean {named!r}?" in error
    assert len(error.splitlines()) == 1


def test_kandle_trains_what_it_times():
    runner = KandleRunner(TINY)
    edges = 2 * 2 + 2 * 1
    assert TINY.edges == edges
    assert runner.parameters == edges * (4 + 3 + 2) + 2 + 1
    first = runner.run(1)
    assert np.isfinite(first)
    assert runner.run(60) < first


def test_floating_point_operations_of_the_small_cases():
    edges = 2 * 8 + 8 * 8 + 8
    assert _arithmetic.flops(CASES["functions-small"]) == 2 * 15 * edges * 4000
    by_hand = 2 * edges * (15 * 192 + 60 * 4096)
    assert _arithmetic.flops(CASES["pde-small"]) == by_hand


def test_peak_memory_is_of_this_process():
    before = peak()
    block = np.ones(64 * 2**20, np.uint8)
    assert peak() >= before
    assert peak() > block.nbytes


@pytest.mark.parametrize("case", [TINY, TINY_PDE], ids=lambda case: case.name)
def test_jaxkan_trains_the_same_network(case):
    """From equal weights both libraries go the same way, residual-based attention included."""
    theirs = peer_runner("jaxkan", case)
    ours = KandleRunner(case)
    assert theirs.parameters == ours.parameters
    [model] = ours._population.models()
    leaves = [w for layer in model.layers for w in (layer.bias, layer.b, layer.r, layer.c)]
    weights, *others = theirs._state
    structure = jax.tree.structure(weights)  # a layer: bias, c_basis, c_res, c_spl
    # Copies, because either library reuses the memory of its state.
    copies = jax.tree.unflatten(structure, [jnp.array(leaf) for leaf in leaves])
    theirs._state = (copies, *others)
    for _ in range(3):
        np.testing.assert_allclose(theirs.run(1), ours.run(1), rtol=1e-4)


TINY_TABLE = Case("tiny-table", "random", 3, 1, 4, ends=(4, 2), rows=20)


@pytest.mark.parametrize("fused", [False, True])
def test_a_loop_as_users_write_it_trains(fused):
    runner = kandle_runner(replace(TINY_TABLE, fused=fused))
    assert runner.parameters == TINY_TABLE.edges * (4 + 3 + 2) + 3 + 2
    first = runner.run(1)
    assert runner.run(50) < first


@pytest.mark.parametrize("name", ["mlp-jax", "mlp-torch"])
def test_peers_train_and_predict_random_tables(name):
    trained = peer_runner(name, TINY_TABLE)
    first = trained.run(1)
    assert trained.run(50) < first
    assert trained.parameters == TINY_TABLE.edges + 3 + 2
    predicting = replace(TINY_TABLE, predict=True)
    assert peer_runner(name, predicting).run(2) == peer_runner(name, predicting).run(1)
    assert kandle_runner(predicting).run(2) == kandle_runner(predicting).run(1)


def test_a_peer_of_no_package_index_needs_its_folder(tmp_path):
    found, [note] = speed.find(("efficient-kan",))
    assert found == {}
    assert "--peer-path efficient-kan=DIR" in note
    with pytest.raises(UserError, match="efficient_kan/"):
        speed.find((), {"efficient-kan": str(tmp_path)})
    with pytest.raises(UserError, match="efficient-kan"):
        speed.find((), {"efficient-kna": str(tmp_path)})


def test_a_peer_is_found_in_its_folder(tmp_path, monkeypatch):
    package = tmp_path / "src" / "efficient_kan"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "import torch\n"
        "def KAN(widths, grid_size):\n"
        "    return torch.nn.Linear(widths[0], widths[-1])\n"
    )
    monkeypatch.setattr(sys, "path", sys.path[:])
    found, notes = speed.find(("efficient-kan",), {"efficient-kan": str(tmp_path)})
    assert notes == []
    runner = found["efficient-kan"](TINY_TABLE)
    sys.modules.pop("efficient_kan")
    assert runner.parameters == 4 * 2 + 2


def test_pykan_trains_the_same_edges():
    theirs = peer_runner("pykan", TINY)
    # pykan has no bias.
    assert theirs.parameters == KandleRunner(TINY).parameters - sum(TINY.widths[1:])
    first = theirs.run(1)
    assert theirs.run(3) < first
