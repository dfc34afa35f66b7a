"""The effects of the switchable differences: which runs are paired, and with what."""

import sys
from pathlib import Path

import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import differences

from kandle import study

ROOT = Path(__file__).parents[2]


def run(scheme="glorot", seed=43, loss=1.0, problem="f1", **switches):
    plain = {"gain": float("nan"), "settings": "", "draws": "independent", "bias": True}
    plain |= {"rba": "", "reference": "", "alpha": float("nan"), "beta": float("nan")}
    shape = {"G": 5, "width": 8, "depth": 2, "l2": loss**0.5}
    return (
        plain
        | shape
        | {"scheme": scheme, "seed": seed, "loss": loss, "problem": problem}
        | switches
    )


def test_pairs_differ_in_one_switch_alone():
    runs = pd.DataFrame(
        [
            run(loss=1.0),
            run(loss=4.0, gain=1.0),
            run(loss=2.0, seed=44),
            run(loss=8.0, seed=44, gain=1.0),
            run(loss=100.0, gain=1.0, bias=False),  # two switches: in no pair
            run("lecun-numerical", loss=3.0, settings='{"split":"equal"}'),
            run("lecun-numerical", loss=9.0, settings='{"split":"half"}'),
            run("lecun-numerical", loss=6.0, settings='{"split":"equal"}', bias=False),
            run("baseline", problem="allen-cahn", rba="published", reference="dirichlet"),
            run("baseline", 43, 16.0, "allen-cahn", rba="text", reference="dirichlet"),
            run("baseline", 43, 25.0, "allen-cahn", rba="text", reference="periodic"),
        ]
    )
    found = differences.effects(runs).set_index("switched")
    assert found["pairs"].to_dict() == {
        "Glorot with gain 1 (Eq. 5 to the letter)": 2,
        "RBA as in the text": 1,
        "no bias (Eq. 1 to the letter)": 1,
        "LeCun with a 50–50 split": 1,
    }
    assert found["loss"].tolist() == pytest.approx([4.0, 16.0, 2.0, 3.0])
    assert found["l2"].tolist() == pytest.approx([2.0, 4.0, 2.0**0.5, 3.0**0.5])


@pytest.mark.parametrize(("part", "runs"), [("functions", 180), ("bias", 60), ("pdes", 81)])
def test_the_study_files_switch_what_is_compared(part, runs):
    plan = study.plan(study.get(ROOT / "studies" / f"differences-{part}.toml"), "paper")
    assert plan.runs == runs
    assert plan.study.name == f"differences-{part}"
