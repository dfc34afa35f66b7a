"""Short trainings have the results of the record; `recorded.py` compares all of them."""

import json
from pathlib import Path

import pytest
import recorded

RECORD = Path(__file__).with_name("recorded.json")


def test_results_are_those_of_the_record(capsys):
    """In a process of its own, which compiles as users do and has one thread.

    To the bit on the kind of machine of the record, elsewhere to rounding.
    """
    n_changed = recorded.compare(RECORD, "--quick")
    assert n_changed == 0, capsys.readouterr().out


OLD = json.loads(RECORD.read_text())["results"]["pde/coefficient/glorot-0"]


@pytest.mark.parametrize("name", ["loss", "curve", "weights", "coefficients"])
def test_a_difference_in_one_value_is_reported(name):
    values = {key: value for key, value in OLD.items() if key not in recorded.SETTINGS}
    assert recorded.differences(OLD, values, to_the_bit=True) == []
    assert recorded.differences(OLD, {**values, name: "0x1.0p-60"}, to_the_bit=True) == [name]


def test_rounding_counts_only_where_bits_are_compared():
    loss = float.fromhex(OLD["loss"])
    near = {**OLD, "loss": (loss * (1 + 0.5 * OLD["rtol"])).hex(), "weights": ""}
    far = {**OLD, "loss": (loss * (1 + 2 * OLD["rtol"])).hex()}
    assert recorded.differences(OLD, near, to_the_bit=True) == ["loss", "weights"]
    assert recorded.differences(OLD, near, to_the_bit=False) == []
    assert recorded.differences(OLD, far, to_the_bit=False) == ["loss"]
