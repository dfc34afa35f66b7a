"""The benchmark command: its rows, its counts, and that peers train the same networks."""

import json
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kandle import bench
from kandle._errors import MissingExtra
from kandle.bench import _arithmetic
from kandle.bench._cases import CASES, Case
from kandle.bench._clock import medians
from kandle.bench._kandle import KandleRunner
from kandle.bench._peak import peak
from kandle.bench._runner import Runner
from kandle.cli import main

TINY = Case("tiny", "f3", 2, 1, 4)
TINY_PDE = Case("tiny-pde", "allen-cahn", 2, 1, 4)
KEYS = {"case", "peer", "kandle_ms", "peer_ms", "ratio"}


def peer_runner(name: str, case: Case) -> Runner:
    with warnings.catch_warnings():
        # What other libraries warn of on import is not ours.
        warnings.simplefilter("ignore")
        try:
            return bench.PEERS[name].load()(case)
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
    assert main(["bench", "--cases", "functions-small", "--rounds", "1", "--json"]) == 0
    out = capsys.readouterr().out
    [row] = json.loads(out)
    assert set(row) == KEYS
    assert row["case"] == "functions-small"
    assert row["kandle_ms"] > 0
    assert row["peer"] is row["peer_ms"] is row["ratio"] is None


def test_ratio_is_the_peers_time_over_ours_a_network(monkeypatch):
    monkeypatch.setattr("kandle.bench._bench.KandleRunner", lambda case: None)
    peers = {"pykan": lambda case: None}
    cases = [CASES["functions-small"], CASES["functions-small-batch16"], CASES["pde-small"]]
    monkeypatch.setattr("kandle.bench._bench.medians", lambda r, rounds: [8.0, 40.0][: len(r)])
    rows = list(bench.measure(cases, peers, 1))
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

    monkeypatch.setattr("kandle.bench._peers.importlib.import_module", no_module)
    found, [note] = bench.find(("jaxkan",))
    assert found == {}
    assert "pip install 'kandle[bench]'" in note
    assert "\n" not in note


def test_an_error_in_our_own_adapter_is_not_taken_for_a_missing_peer(monkeypatch):
    def broken(name: str):
        raise ImportError("cannot import name 'x'", name="kandle.train")

    monkeypatch.setattr("kandle.bench._peers.importlib.import_module", broken)
    with pytest.raises(ImportError, match="cannot import name"):
        bench.find(("jaxkan",))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--cases", "functions-smal"], "functions-small"),
        (["--peers", "jaxkam"], "jaxkan"),
    ],
)
def test_unknown_names_are_told_with_the_nearest(options, named, capsys):
    assert main(["bench", *options]) == 2
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
    model = ours._program.model(ours._state.weights[0])
    leaves = [w for layer in model.layers for w in (layer.bias, layer.b, layer.r, layer.c)]
    weights, *others = theirs._state
    structure = jax.tree.structure(weights)  # a layer: bias, c_basis, c_res, c_spl
    # Copies, because either library reuses the memory of its state.
    copies = jax.tree.unflatten(structure, [jnp.array(leaf) for leaf in leaves])
    theirs._state = (copies, *others)
    for _ in range(3):
        np.testing.assert_allclose(theirs.run(1), ours.run(1), rtol=1e-4)


def test_pykan_trains_the_same_edges():
    theirs = peer_runner("pykan", TINY)
    # pykan has no bias.
    assert theirs.parameters == KandleRunner(TINY).parameters - sum(TINY.widths[1:])
    first = theirs.run(1)
    assert theirs.run(3) < first
