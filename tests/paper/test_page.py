"""The results page and the demo: what they count, and that the page in the docs is current."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
import synthetic

from kandle.analysis import share_interval
from kandle.paper import _demo, _page

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
    claim = _page.Claim("4.1", "text", "80%", wins, of, "Table 1")
    assert claim.verdict == verdict
    if of:
        low, high = share_interval(wins, of)
        assert claim.ours.endswith(f"[{low:.0f}, {high:.0f}]")


def test_claims_count_what_the_tables_count(tmp_path):
    runs = synthetic.grid_study(
        problems=("f1", "f3"), shapes=[(5, 8, 2), (5, 4, 1)], exponents=(0.25, 1.0), seeds=2
    )
    synthetic.write_store(tmp_path / "store", runs)
    found = {claim.text: claim for claim in _page.claims(tmp_path / "store")}
    tidy = _page.table("1", tmp_path / "store").tidy
    own = tidy[tidy["scheme"].eq("glorot") & tidy["metric"].eq("loss")]
    glorot = found["functions: Glorot is better than the baseline (loss)"]
    assert (glorot.wins, glorot.of) == (own["wins"].sum(), own["of"].sum()) == (glorot.wins, 4)
    assert glorot.paper == "74%"
    lecun = found["functions: LeCun–numerical is worse than the baseline (loss)"]
    own = tidy[tidy["scheme"].eq("lecun-numerical") & tidy["metric"].eq("loss")]
    assert lecun.wins == own["of"].sum() - own["wins"].sum()
    assert found["PDEs: Glorot is better than the baseline (L²)"].verdict == "no runs yet"
    text = _page.page(tmp_path / "store")
    assert text.count("| 4.1 |") == 16


@pytest.mark.skipif(not (ROOT / "results").is_dir(), reason="the results are not in this checkout")
def test_the_page_in_the_docs_is_made_from_the_shipped_results():
    assert (ROOT / "docs" / "results.md").read_text(encoding="utf-8") == _page.page(
        ROOT / "results"
    )


def test_the_demo_trains_runs_that_the_results_plan():
    plans = _demo.live_plans()
    assert [plan.study.name for plan in plans] == ["feynman", "curves-functions"]
    assert [plan.runs for plan in plans] == [18, 16]


def test_agreement_pairs_the_same_runs(tmp_path):
    runs = synthetic.feynman(problems=("I.6.2",), seeds=1, power_seeds=1)
    synthetic.write_store(tmp_path / "stored", runs)
    synthetic.write_store(tmp_path / "live", runs.iloc[:2].assign(loss=runs["loss"] * 3))
    found = _demo.agreement(tmp_path / "live", tmp_path / "stored")
    assert found["ratio"].tolist() == pytest.approx([3.0, 3.0])
