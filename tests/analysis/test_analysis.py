"""The rules by which runs become answers, checked by hand or by another route."""

import itertools
import math
import statistics

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from kandle import UserError, analysis, store


def row(scheme, seed, loss, l2=None, **other):
    base = {"study": "functions", "problem": "f1", "G": 5, "width": 8, "depth": 2, "status": "ok"}
    base |= {"alpha": math.nan, "beta": math.nan}
    l2 = math.sqrt(loss) if l2 is None else l2
    return base | {"scheme": scheme, "seed": seed, "loss": loss, "l2": l2} | other


def frame(*rows):
    return pd.DataFrame(list(rows))


def test_the_kept_run_is_the_nearest_to_the_median_with_its_own_l2():
    losses = {0: 5.0, 1: 1.0, 2: 3.0, 3: 2.0, 4: 40.0}
    kept = analysis.representatives(
        frame(*(row("glorot", s, loss, l2=100 + s) for s, loss in losses.items()))
    )
    assert kept[["loss", "l2", "seed", "runs", "attempted"]].values.tolist() == [[3, 102, 2, 5, 5]]


@pytest.mark.parametrize("losses", [(0.1, 0.2), (0.3, 0.1, 0.7, 0.2), (1e-9, 3e-9)])
def test_a_tie_takes_the_lower_loss_whatever_rounding_does(losses):
    runs = frame(*(row("glorot", s, loss) for s, loss in enumerate(losses)))
    assert analysis.representatives(runs)["loss"].item() == statistics.median_low(losses)


def test_diverged_failed_and_not_finite_runs_are_not_counted():
    kept = analysis.representatives(
        frame(
            row("glorot", 0, 1.0),
            row("glorot", 1, 0.001, status="diverged"),
            row("glorot", 2, 0.002, status="failed"),
            row("glorot", 3, math.nan),
            row("glorot", 4, math.inf),
            row("glorot", 5, 3.0),
            row("glorot", 6, 2.0),
            row("baseline", 0, math.nan),
        )
    )
    assert kept[["scheme", "loss", "runs", "attempted"]].values.tolist() == [["glorot", 2.0, 3, 7]]


def test_a_duplicate_counts_once_and_a_finished_one_goes_first():
    runs = frame(
        row("glorot", 0, math.nan, status="failed"),
        row("glorot", 1, 2.0),
        row("glorot", 2, 3.0),
        row("glorot", 0, 1.0),
        row("glorot", 2, 99.0),
        row("glorot", 2, 99.0),
    )
    assert analysis.distinct(runs)["loss"].tolist() == [2.0, 3.0, 1.0]
    assert analysis.representatives(runs)["loss"].item() == 2.0


def test_repeats_told_apart_by_replicate_are_runs_of_their_own():
    runs = frame(*(row("glorot", 0, loss, replicate=i) for i, loss in enumerate((3.0, 1.0, 2.0))))
    kept = analysis.representatives(runs)
    assert kept[["loss", "runs"]].values.tolist() == [[2.0, 3]]


def test_separate_medians():
    runs = frame(row("glorot", 0, 1.0, 9.0), row("glorot", 1, 2.0, 7.0), row("glorot", 2, 6.0, 8.0))
    found = analysis.medians(runs)
    assert (found["loss"].item(), found["l2"].item()) == (2.0, 8.0)


def power(alpha, beta, loss, l2=None, seed=0, **other):
    return row("power-law", seed, loss, l2, alpha=alpha, beta=beta, **other)


def test_the_best_exponents_are_those_of_lowest_loss_and_not_of_lowest_l2():
    cells = analysis.representatives(
        frame(power(0.0, 1.0, 2.0, 0.1), power(0.25, 1.0, 1.0, 0.9), row("baseline", 0, 1.5, 0.5))
    )
    best = analysis.best_exponents(cells)
    assert best["scheme"].tolist() == ["baseline", "power-law"]
    assert best.iloc[1][["alpha", "beta", "l2"]].tolist() == [0.25, 1.0, 0.9]
    fixed = analysis.fixed_exponents(cells, (0.0, 1.0))
    assert fixed.iloc[1]["loss"] == 2.0


def test_wins_are_strict_and_both_means_both_on_one_architecture():
    rows = []
    outcomes = {2: (0.5, 0.5), 4: (1.0, 1.0), 8: (0.5, 2.0), 16: (2.0, 0.5), 32: (2.0, 2.0)}
    for width, (loss, l2) in outcomes.items():
        rows += [
            row("baseline", 0, 1.0, 1.0, width=width),
            row("glorot", 0, loss, l2, width=width),
        ]
    rows.append(row("glorot", 0, 0.1, 0.1, width=64))  # no baseline there
    rates = analysis.win_rates(analysis.representatives(frame(*rows))).set_index("metric")
    assert rates["wins"].to_dict() == {"loss": 2, "l2": 2, "both": 1}
    assert set(rates["of"]) == {5}
    assert rates.loc["loss", "percent"] == 40.0
    assert rates.loc["loss", "sign"] == 1.0  # two won, two lost
    assert math.isnan(rates.loc["both", "rank"])


def test_a_pair_counts_the_architectures_where_it_exists():
    rows = [
        row("baseline", 0, 1.0, width=2),
        row("baseline", 0, 1.0, width=4),
        power(0.25, 1.0, 0.5, width=2),
        power(0.25, 1.75, 0.1, width=2),
        power(0.25, 1.75, 0.1, width=4),
    ]
    cells = analysis.representatives(frame(*rows))
    fixed = analysis.win_rates(cells, pair=(0.25, 1.0))
    assert fixed["of"].unique().tolist() == [1]
    assert analysis.win_rates(cells)["of"].unique().tolist() == [2]


@pytest.mark.parametrize(
    ("wins", "of", "percent"),
    [(75, 96, 78.13), (63, 96, 65.63), (39, 71, 54.93), (58, 96, 60.42), (0, 9, 0), (9, 9, 100)],
)
def test_percentages_round_half_up(wins, of, percent):
    assert analysis.percentage(wins, of) == percent


def test_no_architecture_gives_no_percentage():
    assert math.isnan(analysis.percentage(0, 0))


@pytest.mark.parametrize(("wins", "of"), [(30, 96), (1, 10), (71, 72), (0, 9), (9, 9), (1, 1)])
def test_the_share_interval_is_wilson_s(wins, of):
    """Against the roots of (p̂ - p)² = z² p(1 - p)/n, which define it."""
    low, high = analysis.share_interval(wins, of)
    z2, share = stats.norm.isf(0.025) ** 2, wins / of
    roots = np.roots([1 + z2 / of, -(2 * share + z2 / of), share**2])
    assert sorted(roots.real) == pytest.approx([low / 100, high / 100], abs=1e-9)
    assert low <= 100 * share <= high


def test_more_wins_never_lower_an_interval():
    found = [analysis.share_interval(wins, 96) for wins in range(97)]
    for (low, high), (next_low, next_high) in itertools.pairwise(found):
        assert low < next_low
        assert high < next_high


def test_holm_s_adjustment():
    """Against its definition, test by test, and a worked example."""
    p = np.random.default_rng(2).random(9) ** 3
    for i, adjusted in enumerate(analysis.holm(p)):
        smaller = [q for q in p if q <= p[i]]
        steps = [sum(other >= q for other in p) * q for q in smaller]
        assert adjusted == pytest.approx(min(1.0, max(steps)))
    assert analysis.holm([0.01, 0.02, 0.03, 0.04]).tolist() == pytest.approx(
        [0.04, 0.06, 0.06, 0.06]
    )
    with_gap = analysis.holm([0.01, math.nan, 0.02])
    assert with_gap[[0, 2]].tolist() == [0.02, 0.02]
    assert math.isnan(with_gap[1])


def test_a_clean_sweep_is_not_certain():
    low, high = analysis.share_interval(72, 72)
    assert high == 100.0
    assert 94 < low < 96
    assert analysis.share_interval(0, 72) == pytest.approx((0.0, 100 - low))
    assert analysis.share_interval(3, 3)[0] < analysis.share_interval(30, 30)[0]


@pytest.mark.parametrize("n", [6, 7, 24, 61])
def test_the_interval_of_a_median_is_scipy_s_and_contains_it(n):
    values = np.random.default_rng(n).normal(size=n)
    low, high = analysis.median_interval(values)
    wanted = stats.quantile_test(values, q=0, p=0.5).confidence_interval(0.95)
    assert (low, high) == pytest.approx((wanted.low, wanted.high))
    assert low <= np.median(values) <= high


@pytest.mark.parametrize("n", range(1, 6))
def test_a_handful_of_values_has_no_tighter_interval_than_its_range(n):
    values = np.random.default_rng(n).normal(size=n)
    assert analysis.median_interval(values) == (values.min(), values.max())
    assert all(map(math.isnan, analysis.median_interval(np.zeros(0))))


def test_paired_tests_agree_with_scipy_and_bear_degenerate_input():
    ratios = np.exp(np.random.default_rng(3).normal(0.4, 1.0, 40))
    assert analysis.signed_rank_test(ratios) == stats.wilcoxon(np.log(ratios)).pvalue
    assert analysis.signed_rank_test(np.ones(7)) == 1.0
    assert analysis.signed_rank_test(np.array([0.0, math.inf, math.nan, 1.0])) == 1.0
    assert analysis.sign_test(8, 0) == pytest.approx(2 / 2**8)
    assert analysis.sign_test(0, 0) == 1.0


def landscape(noise=0.0, alphas=(0.0, 0.25, 0.5, 1.0), betas=(0.5, 1.0, 1.5, 2.0), seeds=2):
    """Loss lowest at (0.25, 1.5) and within a factor of 2 on its neighbours."""
    draw = np.random.default_rng(0)
    rows = []
    for width in (2, 4, 8, 16, 32, 64):
        for depth in (1, 2, 3, 4):
            for a in alphas:
                for b in betas:
                    height = 4 * (a - 0.25) ** 2 + (b - 1.5) ** 2
                    loss = 10 ** (height - depth + noise * draw.normal())
                    for seed in range(seeds):
                        rows.append(power(a, b, loss, seed=seed, width=width, depth=depth))
    return frame(*rows)


def test_the_favourable_region_is_where_the_loss_is_near_the_best_single_pair_s():
    region = analysis.favourable_region(landscape())
    assert region.iloc[0][["alpha", "beta", "ratio"]].tolist() == [0.25, 1.5, 1.0]
    for _, r in region.iterrows():
        height = 4 * (r["alpha"] - 0.25) ** 2 + (r["beta"] - 1.5) ** 2
        assert r["ratio"] == pytest.approx(10**height)
        assert r["inside"] == (10**height <= 2)
    assert analysis.describe(region) == (
        "α = 0: β = 1.5; α = 0.25: β = 1, 1.5, 2; α = 0.5: β = 1.5"
    )
    assert analysis.confidence(region) == "24 settings; 5 of its 5 pairs certain"


def test_one_seed_makes_no_pair_certain():
    region = analysis.favourable_region(landscape(seeds=1))
    assert region["inside"].sum() == 5
    assert not region["certain"].any()
    assert analysis.confidence(region) == "24 settings; 0 of its 5 pairs certain"


def test_settings_that_cannot_tell_pairs_apart_do_not_decide():
    """30 settings on which all pairs but one are equal would make every pair favourable."""
    telling = landscape()
    trivial = landscape().assign(loss=1.0, problem="f2")
    more = [trivial.assign(G=G) for G in (3, 4)]
    both = pd.concat([telling, trivial, *more], ignore_index=True)
    assert analysis.trivial_settings(both) == 72
    wanted, found = map(analysis.favourable_region, (telling, both))
    pd.testing.assert_frame_equal(found, wanted)
    assert analysis.trivial_settings(trivial) == 0  # if there is nothing else


def test_the_best_of_many_equal_pairs_wins_only_where_it_was_chosen():
    """Baseline and 40 pairs drawn alike: the best pair beats it always, held out about half."""
    draw = np.random.default_rng(5)
    rows = []
    for width in range(60):
        rows += [row("baseline", s, draw.lognormal(), width=width) for s in range(3)]
        for i in range(40):
            rows += [power(i / 4, 1.0, draw.lognormal(), seed=s, width=width) for s in range(3)]
    runs = frame(*rows)
    cells = analysis.representatives(runs)
    wins = lambda rates: rates.set_index("metric").loc["loss", "wins"]  # noqa: E731
    assert wins(analysis.win_rates(cells)) >= 59
    found = analysis.held_out(runs)
    assert found.chosen_on == "other seeds"
    baseline = cells[cells["scheme"].eq("baseline")]
    judged = pd.concat([baseline, found.cells.assign(scheme="held-out")])
    assert 20 <= wins(analysis.win_rates(judged)) <= 40


def test_held_out_results_are_those_of_the_definition():
    rows = [power(a, 1.0, loss, l2=a + s, seed=s) for a, s, loss in [
        (0.0, 0, 1.0), (0.0, 1, 5.0), (0.0, 2, 9.0), (1.0, 0, 4.0), (1.0, 1, 4.0), (1.0, 2, 4.0),
    ]]  # fmt: skip
    # Without seed 0, the lower middle of (5, 9) is 5 and of (4, 4) 4: α = 1, judged 4. Without
    # seed 1: 1 against 4: α = 0, judged 5. Without seed 2: 1 against 4: α = 0, judged 9.
    (found,) = analysis.held_out(frame(*rows)).cells.to_dict("records")
    assert (found["loss"], found["alpha"], found["l2"]) == (5.0, 0.0, 1.0)


def test_a_choice_on_other_seeds_worked_out_by_hand():
    """Seeds 0, 1, 2 of pair A lose 1, 10, 10, of pair B 5, 2, 20.

    Without seed 0, A has (10, 10) and B (2, 20), whose lower middles are 10 and 2: B is chosen, and
    seed 0 judges it by 5. Without seed 1: A by (1, 10) against B (5, 20), judged by 10. Without
    seed 2: A by (1, 10) against B (2, 5), judged by 10. The middle of 5, 10, 10 is 10. In sample, B
    is chosen for its median 5.
    """
    setting = {"problem": "f1", "scheme": "power-law", "G": 5, "width": 8, "depth": 2}
    losses = {(0.25, 1.0): (1, 10, 10), (0.5, 1.0): (5, 2, 20)}
    runs = pd.DataFrame(
        setting | {"alpha": a, "beta": b, "seed": seed, "loss": loss, "l2": loss / 10}
        for (a, b), values in losses.items()
        for seed, loss in enumerate(values)
    )
    found = analysis.held_out(runs)
    assert found is not None
    assert found.chosen_on == "other seeds"
    assert found.cells[["alpha", "loss", "l2"]].to_numpy().tolist() == [[0.25, 10.0, 1.0]]
    best = analysis.best_exponents(analysis.representatives(runs))
    assert best[["alpha", "loss"]].to_numpy().tolist() == [[0.5, 5.0]]


def test_with_one_seed_exponents_are_chosen_on_the_other_problems():
    rows = []
    for problem, best in (("f1", 0.0), ("f2", 1.0), ("f3", 1.0)):
        rows += [
            power(a, 1.0, 10 ** (2 * (a - best) ** 2), problem=problem) for a in (0.0, 0.5, 1.0)
        ]
    found = analysis.held_out(frame(*rows))
    assert found.chosen_on == "other problems"
    chosen = found.cells.set_index("problem")["alpha"].to_dict()
    assert chosen == {"f1": 1.0, "f2": 0.5, "f3": 0.5}
    # A pair that diverges where it is judged counts as an infinite loss.
    lost = [
        r | ({"status": "diverged"} if r["problem"] == "f1" and r["alpha"] == 1 else {})
        for r in rows
    ]
    cells = analysis.held_out(frame(*lost)).cells.set_index("problem")
    assert cells.loc["f1", "loss"] == math.inf
    assert analysis.held_out(frame(*rows[:3])) is None  # one seed, one problem


def test_divergence_counts_as_a_loss_if_asked():
    rows = [row("baseline", s, 1.0, 1.0, width=w) for w in range(4) for s in range(2)]
    rows += [row("glorot", s, 0.5, 0.5, width=0) for s in range(2)]
    for width in range(1, 4):
        rows += [
            row("glorot", s, math.nan, math.nan, width=width, status="diverged") for s in (0, 1)
        ]
    runs = frame(*rows)
    paper, ours = (
        analysis.win_rates(analysis.representatives(runs, diverged_as_inf=flag)).iloc[0]
        for flag in (False, True)
    )
    assert (paper["percent"], paper["of"]) == (100.0, 1)
    assert (ours["percent"], ours["of"]) == (25.0, 4)


def test_a_range_of_exponents_is_one_only_where_all_between_was_tried():
    fine = landscape(alphas=(0.25,), betas=(0.75, 1.0, 1.25, 1.5, 2.0))
    assert analysis.describe(analysis.favourable_region(fine)) == "α = 0.25: β = 1–1.5, 2"


def test_the_region_survives_noise_and_knows_that_it_is_less_sure():
    clean = analysis.favourable_region(landscape())
    noisy = analysis.favourable_region(landscape(noise=0.3))
    assert tuple(noisy.iloc[0][["alpha", "beta"]]) == (0.25, 1.5)
    assert (noisy["high"] - noisy["low"]).median() > (clean["high"] - clean["low"]).median()


def test_a_diverged_pair_is_outside_and_an_untried_one_is_judged_where_it_was_tried():
    runs = landscape()
    leader = runs["alpha"].eq(0.25) & runs["beta"].eq(1.0)
    diverged = runs.copy()
    diverged.loc[leader & diverged["width"].ge(4), "status"] = "diverged"
    pick = lambda region: region.set_index(["alpha", "beta"]).loc[(0.25, 1.0)]  # noqa: E731
    outside = pick(analysis.favourable_region(diverged))
    assert outside["ratio"] == math.inf
    assert not outside["inside"]
    untried = analysis.favourable_region(runs[~(leader & runs["width"].ge(4))])
    assert pick(untried)["inside"]
    assert pick(untried)["settings"] == 4


def test_settings_on_which_the_leader_diverged_count_against_it():
    """On most settings the leader diverges and another pair does not: it is not shut out."""
    rows = []
    for width in range(1, 12):
        rows.append(power(0.25, 1.0, 1.0, width=width))
        diverged = {"status": "diverged"} if width > 6 else {}
        rows.append(power(0.25, 1.5, 1e-3, width=width, **diverged))
        rows.append(power(0.5, 1.0, 1e-9, width=width, status="diverged" if width < 11 else "ok"))
    region = analysis.favourable_region(frame(*rows)).set_index(["alpha", "beta"])
    assert region.index[0] == (0.25, 1.5)
    other = region.loc[(0.25, 1.0)]
    assert other["low"] == 0.0  # where the leader has no result at all
    assert other["ratio"] == pytest.approx(1e3)
    assert region.loc[(0.5, 1.0), "ratio"] == math.inf


def test_the_mean_curve_is_mean_and_population_error_at_common_steps():
    a = (np.array([1, 2, 4, 8]), np.array([4.0, 3.0, 2.0, 1.0]))
    b = (np.array([1, 2, 3, 8]), np.array([8.0, 5.0, 9.0, 3.0]))
    c = (np.array([1, 2, 8]), np.array([0.0, 1.0, math.nan]))
    curve = analysis.mean_curve([a, b, c])
    assert curve is not None
    assert curve.steps.tolist() == [1, 2, 8]
    np.testing.assert_allclose(curve.mean, [4.0, 3.0, 2.0])
    expected = [np.std([4, 8, 0]) / 3**0.5, np.std([3, 5, 1]) / 3**0.5, np.std([1, 3]) / 2**0.5]
    np.testing.assert_allclose(curve.error, expected)
    assert analysis.mean_curve([]) is None


def test_thinning_keeps_the_ends_and_spreads_over_decades():
    kept = analysis.thin(np.arange(2000), 40)
    assert kept[0] == 0
    assert kept[-1] == 1999
    assert len(kept) == len(set(kept)) == 40
    assert (kept < 100).sum() > 10
    assert (np.diff(kept) > 0).all()
    assert kept[-1] - kept[-2] > 200
    assert analysis.thin(np.arange(5), 40).tolist() == [0, 1, 2, 3, 4]
    for n in (41, 45, 80, 204):
        recorded = np.unique(np.geomspace(1, 2000, n * 3).astype(int))[:n]
        assert len(set(analysis.thin(recorded, 40))) == 40


def test_runs_trained_otherwise_are_left_out_and_named():
    rows = []
    for width in (2, 4, 8):
        rows += [row("baseline", s, 1.0, width=width, steps=2000, gain="") for s in range(2)]
    rows += [row("baseline", s, 0.1, width=2, steps=100, gain="") for s in range(5)]
    rows += [row("glorot", 0, 1.0, width=2, steps=2000, gain=g) for g in ("", "", "1.0")]
    choice = analysis.trained_alike(frame(*rows))
    assert set(choice.runs["steps"]) == {2000}
    assert choice.runs["gain"].eq("").all()
    assert choice.left_out == ("f1: 5 runs with steps=100", "f1 glorot: 1 runs with gain=1.0")
    assert choice.kept == ("f1: 9 runs with steps=2000", "f1 glorot: 2 runs with no gain")
    assert analysis.trained_alike(choice.runs).left_out == ()


def test_a_gain_that_is_not_set_is_a_variant_like_others():
    """A store gives NaN where no gain was given."""
    rows = [row("glorot", s, 1.0, gain=math.nan) for s in range(3)]
    rows += [row("glorot", s, 2.0, gain=1.0) for s in range(2)]
    choice = analysis.trained_alike(frame(*rows))
    assert choice.runs["gain"].isna().all()
    assert choice.left_out == ("f1 glorot: 2 runs with gain=1.0",)
    rows += [row("glorot", s, 3.0, gain=2.0) for s in range(4)]
    choice = analysis.trained_alike(frame(*rows))
    assert set(choice.runs["gain"]) == {2.0}
    assert choice.left_out == (
        "f1 glorot: 3 runs with no gain",
        "f1 glorot: 2 runs with gain=1.0",
    )


# What distinguishes runs that were trained alike, and what is only recorded of them. Every other
# field of a run, also one that is added, says how it was trained.
COMPARED = {
    *("study", "problem", "G", "width", "depth", "seed", "replicate"),
    *("scheme", "alpha", "beta", "gain", "settings"),
}
RECORDED = {"curve", "checkpoints"}
TRAINED = [name for name in store.FIELDS if name not in COMPARED | RECORDED]
TWO_VALUES = {str: ("", "other"), bool: (True, False)}


def two_runs(field):
    """Runs that are equal but for one field, the first with the lower loss."""
    values = TWO_VALUES.get(store.PYTHON[field], (1, 2))
    return frame(*(row("glorot", 0, 1.0 + i) | {field: v} for i, v in enumerate(values)))


@pytest.mark.parametrize("field", TRAINED)
def test_runs_that_differ_in_how_they_were_trained_are_neither_merged_nor_compared(field):
    runs = two_runs(field)
    assert len(analysis.distinct(runs)) == 2
    assert analysis.pooled_axes(runs, "problem") == [field]
    choice = analysis.trained_alike(runs)
    assert len(choice.runs) == 1
    [left_out] = choice.left_out
    assert field in left_out
    [median] = analysis.medians(choice.runs)["loss"]
    assert median == choice.runs["loss"].item()


@pytest.mark.parametrize("field", sorted(RECORDED))
def test_runs_that_differ_in_what_is_recorded_are_one(field):
    assert len(analysis.distinct(two_runs(field))) == 1


def test_a_short_trial_on_many_architectures_does_not_displace_full_length():
    rows = [row("baseline", 0, 1.0, width=w, steps=10) for w in range(50)]
    rows += [row("baseline", 0, 1.0, steps=2000)]
    choice = analysis.trained_alike(frame(*rows))
    assert set(choice.runs["steps"]) == {2000}
    assert choice.left_out == ("f1: 50 runs with steps=10",)


def test_one_run_beyond_full_length_does_not_displace_the_study():
    rows = [row("baseline", 0, 1.0, width=w, steps=2000) for w in range(5)]
    rows += [row("baseline", 0, 1.0, steps=20_000)]
    assert set(analysis.trained_alike(frame(*rows)).runs["steps"]) == {2000}
    own = frame(*rows).assign(problem="mine:wave")  # whose full length is not known
    assert set(analysis.trained_alike(own).runs["steps"]) == {20_000}


def test_marks_point_where_the_test_points():
    """Nine great gains against eleven tiny losses; for both, mixed outcomes are ties."""
    rows = []
    for width in range(20):
        loss = 1e-3 / (width + 1) if width < 9 else 1.001 + 1e-5 * width
        rows += [
            row("baseline", 0, 1.0, 1.0, width=width),
            row("glorot", 0, loss, 1.0, width=width),
        ]
    for width in range(72):
        loss, l2 = (0.5, 0.5) if width < 30 else (2.0, 2.0) if width < 35 else (0.9, 1.1)
        shape = {"width": width, "problem": "f2"}
        rows += [row("baseline", 0, 1.0, 1.0, **shape), row("glorot", 0, loss, l2, **shape)]
    rates = analysis.win_rates(analysis.representatives(frame(*rows)))
    way = rates.set_index(["problem", "metric"])["direction"]
    assert way["f1", "loss"] == 1  # ranks 12 to 20 against 1 to 11
    assert way["f1", "l2"] == 0
    assert way["f2", "both"] == 1  # 30 won, 5 lost, of 72


def test_missing_columns_are_named():
    with pytest.raises(UserError, match="lack the columns scheme, loss"):
        analysis.finished(frame(row("glorot", 0, 1.0)).drop(columns=["scheme", "loss"]))


def test_an_empty_frame_gives_empty_answers():
    empty = frame(row("glorot", 0, 1.0)).iloc[:0]
    assert analysis.representatives(empty).empty
    assert analysis.win_rates(analysis.representatives(empty)).empty
    assert analysis.favourable_region(empty).empty
    assert analysis.trained_alike(empty).runs.empty
