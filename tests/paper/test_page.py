"""The results page and the demo: what they count, and that the page in the docs is current."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
import synthetic

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import claims
import demo
import results_page

from kandle.analysis import share_interval
from kandle.paper._tables import table

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("wins", "of", "verdict"),
    [
        (19, 20, "holds"),
        (11, 20, "holds in part"),
        (9, 20, "does not hold"),
        (10, 20, "does not hold"),
        (0, 0, "no runs yet"),
    ],
)
def test_a_verdict_follows_from_the_interval(wins, of, verdict):
    claim = claims.Claim("4.1", "text", "80%", wins, of, "Table 1")
    assert claim.verdict == verdict
    if of:
        low, high = share_interval(wins, of)
        assert claim.ours.endswith(f"[{low:.0f}, {high:.0f}]")


def test_claims_count_what_the_tables_count(tmp_path):
    runs = synthetic.grid_study(
        problems=("f1", "f3"), shapes=[(5, 8, 2), (5, 4, 1)], seeds=2, power_seeds=1
    )
    # On one setting the search is incomplete, and the best of the rest proves nothing.
    power = runs["scheme"].eq("power-law") & runs["problem"].eq("f3") & runs["width"].eq(4)
    runs = runs[~(power & runs["alpha"].gt(0.25))]
    synthetic.write_store(tmp_path / "store", runs)
    found = {claim.text: claim for claim in claims.claims(tmp_path / "store")}
    tidy = table("1", tmp_path / "store").tidy
    own = tidy[tidy["scheme"].eq("glorot") & tidy["metric"].eq("loss")]
    glorot = found["Functions: Glorot is better than the baseline (loss)"]
    assert (glorot.wins, glorot.of) == (own["wins"].sum(), own["of"].sum()) == (glorot.wins, 4)
    assert glorot.paper == "74%"
    lecun = found["Functions: LeCun–numerical is worse than the baseline (loss)"]
    own = tidy[tidy["scheme"].eq("lecun-numerical") & tidy["metric"].eq("loss")]
    assert lecun.wins == own["of"].sum() - own["wins"].sum()
    assert found["PDEs: Glorot is better than the baseline (L²)"].verdict == "no runs yet"
    best = found[
        "Functions: the power law with the best of 81 pairs is better than the baseline (loss)"
    ]
    one = found[
        "Functions: the power law with the one pair (0.25, 1) is better than the baseline (both)"
    ]
    assert (best.of, one.of) == (3, 4)
    assert best.source == "2 of 5 problems, 2 of 96 architectures with all 81 pairs"
    text = results_page.page(tmp_path / "store")
    assert text.count("| 4.1 |") == 17


def test_curve_claims_count_problems_and_sizes(tmp_path):
    data = synthetic.curves_study(problems=("f1", "f2"), seeds=2, points=9)
    decaying = data.runs["schedule"].ne("constant")
    # With the decaying rate, LeCun wins everywhere: the order changes on every setting.
    lower = decaying & data.runs["scheme"].eq("lecun-numerical")
    runs = data.runs.assign(loss=data.runs["loss"].mask(lower, 1e-30))
    synthetic.write_store(tmp_path / "store", synthetic.Data(runs, data.curves))
    found = {claim.text: claim for claim in claims.claims(tmp_path / "store")}
    wins = {text: (claim.wins, claim.of) for text, claim in found.items() if claim.of}
    assert wins["Functions, constant rate: the power law ends with the lowest loss"] == (4, 4)
    assert wins["Functions, decaying rate: the power law ends with the lowest loss"] == (0, 4)
    assert wins["Functions: a decaying rate leaves the order of the schemes unchanged"] == (0, 4)
    assert found["PDEs, constant rate: the power law ends with the lowest loss"].of == 0


def test_the_page_names_what_is_missing():
    studies = {"functions": {"overnight": [5, 9]}, "feynman": {"overnight": [3, 3]}}
    text = " ".join(results_page._missing({"studies": studies}))
    assert "functions (5 of 9 runs)" in text
    assert "feynman" not in text
    assert results_page._missing({"studies": {"feynman": {"overnight": [3, 3]}}}) == []


@pytest.mark.skipif(not (ROOT / "results").is_dir(), reason="the results are not in this checkout")
def test_the_page_in_the_docs_is_made_from_the_shipped_results():
    assert (ROOT / "docs" / "results.md").read_text(encoding="utf-8") == results_page.page(
        ROOT / "results"
    )


def test_the_demo_trains_runs_that_the_results_plan():
    plans = demo.live_plans()
    assert [plan.study.name for plan in plans] == ["feynman", "curves-functions", "curves-pdes"]
    assert [plan.runs for plan in plans] == [60, 40, 4]


def test_agreement_pairs_the_same_runs(tmp_path):
    runs = synthetic.feynman(problems=("I.6.2",), seeds=1, power_seeds=1)
    synthetic.write_store(tmp_path / "stored", runs)
    synthetic.write_store(tmp_path / "live", runs.iloc[:2].assign(loss=runs["loss"] * 3))
    found = demo.agreement(tmp_path / "live", tmp_path / "stored")
    assert found["ratio"].tolist() == pytest.approx([3.0, 3.0])
    lines = demo._agreement(found)
    assert "0 of 2 runs agree within a factor of two" in lines[-1]
    assert lines[1].split()[:3] == ["feynman", "Baseline", "1"]
    assert "none of these runs" in demo._agreement(found.iloc[:0])[0]
