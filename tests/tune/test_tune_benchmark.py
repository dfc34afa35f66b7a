"""The benchmark of searching against training all pairs runs, shortened."""

import importlib.util
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "tune.py"


def test_a_search_is_compared_with_the_whole_table(tmp_path, monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("benchmark_tune", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    monkeypatch.setattr(benchmark, "GRID", 5)
    monkeypatch.setattr(benchmark, "WIDTH", 2)
    monkeypatch.setattr(benchmark, "DEPTH", 1)
    store = str(tmp_path / "store")
    arguments = ["--store", store, "--problems", "f1", "--seeds", "1", "--steps", "20"]
    [row] = benchmark.main(arguments)
    assert row["problem"] == "f1"
    assert row["ratio"] >= 1
    assert row["cost"] <= 0.2
    assert row["found_loss"] == pytest.approx(row["ratio"] * row["best_loss"])
    assert "f1" in capsys.readouterr().out
