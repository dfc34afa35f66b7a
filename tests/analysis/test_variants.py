"""Variants of a scheme under their own names, and two starts compared over all settings."""

import numpy as np
import pandas as pd
import pytest

from kandle.analysis import named_variants, versus


def frame(rows):
    blank = {"alpha": np.nan, "beta": np.nan, "gain": np.nan, "settings": ""}
    return pd.DataFrame([blank | row for row in rows])


def test_exponents_gain_and_settings_become_part_of_the_name():
    named = named_variants(
        frame(
            [
                {"scheme": "baseline"},
                {"scheme": "power-law", "alpha": 0.25, "beta": 1.75},
                {"scheme": "glorot", "gain": 2.0},
                {"scheme": "quiet", "settings": '{"rule":"lecun","spread":0.5}'},
            ]
        )
    )
    assert list(named["scheme"]) == [
        "baseline",
        "power-law(0.25, 1.75)",
        "glorot(gain=2)",
        "quiet(rule=lecun, spread=0.5)",
    ]
    assert named[["alpha", "beta", "gain"]].isna().all(axis=None)


def test_one_start_against_another():
    """Ten settings: won on eight of those where both exist, by a factor two on the median one."""
    rows = []
    for width in range(10):
        shape = {"problem": "f1", "G": 5, "width": width, "depth": 1}
        ratio = 0.5 if width < 8 else 3.0
        rows.append({"scheme": "a", "loss": ratio, "l2": 1.0} | shape)
        rows.append({"scheme": "b", "loss": 1.0, "l2": 1.0} | shape)
    rows.append(shape | {"scheme": "a", "loss": 1.0, "l2": 1.0, "problem": "f2"})
    told = versus(frame(rows), "a", "b")
    assert (told["wins"], told["settings"], told["percent"]) == (8, 10, 80)
    assert told["low"] < 80 < told["high"]
    assert told["ratio"] == pytest.approx(0.5)
    assert told["ratio_low"] <= 0.5 <= told["ratio_high"]
    assert told["sign"] == pytest.approx(0.109375)  # two-sided, 8 of 10
    assert versus(frame(rows), "a", "b", "l2")["wins"] == 0


def test_without_a_common_setting_there_is_nothing_to_tell():
    shape = {"G": 5, "width": 1, "depth": 1, "loss": 1.0, "l2": 1.0}
    rows = [{"scheme": "a", "problem": "f1"} | shape, {"scheme": "b", "problem": "f2"} | shape]
    told = versus(frame(rows), "a", "b")
    assert told["settings"] == 0
    assert np.isnan(told["ratio"])
