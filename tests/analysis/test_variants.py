"""Variants of a scheme under their own names, and two starts compared over all settings."""

import numpy as np
import pandas as pd
import pytest

from kandle.analysis import (
    best_exponents,
    fixed_exponents,
    named_variants,
    variants_apart,
    versus,
)


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


def test_only_schemes_with_several_variants_are_told_apart():
    runs = frame(
        [
            {"scheme": "baseline"},
            {"scheme": "glorot", "gain": 0.5},
            {"scheme": "glorot", "gain": 1.0},
            {"scheme": "glorot"},
            {"scheme": "quiet", "settings": '{"spread":0.5}'},
            {"scheme": "power-law", "alpha": 0.25, "beta": 1.0, "gain": 2.0},
            {"scheme": "power-law", "alpha": 0.25, "beta": 1.75},
        ]
    )
    named = variants_apart(runs)
    assert list(named["scheme"]) == [
        "baseline",
        "glorot(gain=0.5)",
        "glorot(gain=1)",
        "glorot",
        "quiet",
        "power-law(gain=2)",
        "power-law",
    ]
    assert named["settings"][4] == '{"spread":0.5}'
    assert named.loc[5, ["alpha", "beta"]].tolist() == [0.25, 1.0]
    assert named["gain"].isna().all()
    alike = runs[runs["gain"].isna()]
    pd.testing.assert_frame_equal(variants_apart(alike), alike)


def test_a_baseline_never_used_as_it_is_stays_the_baseline():
    runs = frame([{"scheme": "baseline", "settings": f'{{"noise":{n}}}'} for n in (0.1, 0.2)])
    assert set(variants_apart(runs)["scheme"]) == {"baseline"}


def test_each_variant_of_the_power_law_has_its_own_best_exponents():
    shape = {"problem": "f1", "G": 5, "width": 1, "depth": 1, "l2": 1.0}
    rows = [
        shape | {"scheme": scheme, "alpha": 0.25, "beta": beta, "loss": loss}
        for scheme, beta, loss in (
            ("power-law", 1.0, 3.0),
            ("power-law", 1.75, 2.0),
            ("power-law(gain=2)", 1.0, 1.0),
            ("power-law(gain=2)", 1.75, 4.0),
        )
    ]
    assert best_exponents(frame(rows))["loss"].tolist() == [2.0, 1.0]
    assert fixed_exponents(frame(rows), (0.25, 1.75))["loss"].tolist() == [2.0, 4.0]


def test_one_start_against_another():
    """Ten settings: won on eight of those where both exist, by a factor two on the median one."""
    rows = []
    for width in range(10):
        shape = {"problem": "f1", "G": 5, "width": width, "depth": 1}
        ratio = 0.5 if width < 8 else 3.0
        rows.append({"scheme": "a", "loss": ratio, "l2": 1.0} | shape)
        rows.append({"scheme": "b", "loss": 1.0, "l2": 1.0} | shape)
    rows.append(shape | {"scheme": "a", "loss": 1.0, "l2": 1.0, "problem": "f2"})
    summary = versus(frame(rows), "a", "b")
    assert (summary["wins"], summary["settings"], summary["percent"]) == (8, 10, 80)
    assert summary["low"] < 80 < summary["high"]
    assert summary["ratio"] == pytest.approx(0.5)
    assert summary["ratio_low"] <= 0.5 <= summary["ratio_high"]
    assert summary["sign"] == pytest.approx(0.109375)  # two-sided, 8 of 10
    assert versus(frame(rows), "a", "b", "l2")["wins"] == 0


def test_without_a_common_setting_there_is_nothing_to_tell():
    shape = {"G": 5, "width": 1, "depth": 1, "loss": 1.0, "l2": 1.0}
    rows = [{"scheme": "a", "problem": "f1"} | shape, {"scheme": "b", "problem": "f2"} | shape]
    summary = versus(frame(rows), "a", "b")
    assert summary["settings"] == 0
    assert np.isnan(summary["ratio"])
