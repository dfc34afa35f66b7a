"""The comparison with published results: which cells there are and when one is inside."""

import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
PARTS = ("functions-small", "pdes-small", "feynman-small", "functions-large", "pdes-large")


@pytest.fixture(scope="module")
def faithfulness():
    spec = importlib.util.spec_from_file_location("faithfulness", FOLDER / "faithfulness.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def runs_of(part, faithfulness, factor: float) -> pd.DataFrame:
    """Three runs a published cell with medians `factor` times the published ones."""
    cells = faithfulness.published(part).pivot(
        index=faithfulness.KEY, columns="metric", values="median"
    )
    rows = []
    for (problem, scheme, alpha, beta), row in cells.iterrows():
        for seed, spread in enumerate((0.1, 1.0, 10.0)):
            rows.append(
                {
                    "problem": problem,
                    "scheme": scheme,
                    "alpha": alpha,
                    "beta": beta,
                    "seed": seed,
                    "steps": 2000,
                    "status": "ok",
                    "G": 5,
                    "width": 8,
                    "depth": 2,
                    "loss": factor * spread * row["loss"],
                    "l2": factor * spread * row["l2"],
                }
            )
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("part", "cells"),
    [
        ("functions-small", 5 * (5 + 4)),
        ("functions-large", 5 * (5 + 4)),
        ("pdes-small", 2 * 3 * 5),
        ("feynman-small", 2 * 20 * 3),
    ],
)
def test_published_cells_all_meet_equal_medians(part, cells, faithfulness):
    compared = faithfulness.compare(part, runs_of(part, faithfulness, 1.0))
    assert len(compared) == cells
    assert compared["inside"].all()
    np.testing.assert_allclose(compared["ratio"], 1.0)


def test_only_what_is_within_the_widened_range_is_inside(faithfulness):
    published = faithfulness.published("functions-small").iloc[0]
    one = runs_of("functions-small", faithfulness, 1.0)
    key = (one[faithfulness.KEY].fillna(0) == published[faithfulness.KEY].fillna(0)).all(axis=1)
    for value, inside in (
        (published["most"] * 1.49, True),
        (published["most"] * 1.51, False),
        (published["least"] / 1.49, True),
        (published["least"] / 1.51, False),
    ):
        runs = one[key].assign(loss=value)
        compared = faithfulness.compare("functions-small", runs)
        [cell] = compared[compared["own"].notna() & compared["metric"].eq("loss")].to_dict(
            "records"
        )
        assert bool(cell["inside"]) is inside


def test_printed_medians_allow_a_factor_two_and_their_rounding(faithfulness):
    assert faithfulness.compare("feynman-small", runs_of("feynman-small", faithfulness, 1.99))[
        "inside"
    ].all()
    far = faithfulness.compare("feynman-small", runs_of("feynman-small", faithfulness, 2.1))
    coarse = far["metric"].eq("loss") & far["scheme"].isin(["baseline", "glorot"])
    assert not far.loc[~coarse, "inside"].any()


def test_cells_without_a_published_figure_are_not_judged(faithfulness):
    runs = runs_of("pdes-small", faithfulness, 1.0)
    extra = runs[runs["scheme"].eq("baseline")].assign(scheme="lecun-normalized")
    compared = faithfulness.compare("pdes-small", pd.concat([runs, extra]))
    new = compared[compared["scheme"].eq("lecun-normalized")]
    assert len(new) == 6
    assert new["inside"].isna().all()


@pytest.mark.parametrize("draws", ["published", "independent"])
@pytest.mark.parametrize("part", PARTS)
def test_studies_cover_the_published_cells(part, draws, faithfulness):
    from kandle.study import get

    study = get(FOLDER / f"{faithfulness.STUDIES[draws]}-{part}.toml")
    assert {spec.draws for spec in study.specs()} == {draws}
    if draws == "published":
        assert {spec.seed for spec in study.specs()} == set(range(43, 48))
    trained = {
        (spec.problem, spec.scheme, spec.alpha, spec.beta)
        if spec.scheme == "power-law"
        else (spec.problem, spec.scheme)
        for spec in study.specs()
    }
    cells = faithfulness.published(part)
    cells = cells[cells["problem"].isin(study.problems)]
    wanted = {
        (row.problem, row.scheme, row.alpha, row.beta)
        if row.scheme == "power-law"
        else (row.problem, row.scheme)
        for row in cells.itertuples()
    }
    assert wanted <= trained
    assert set(PARTS) == set(faithfulness.PARTS)
