"""Which targets there are, and which runs each is made of."""

import functools

import pytest

from kandle import UserError, paper, study

SMALL, LARGE = (5, 8, 2), (20, 32, 3)


@functools.cache
def specs(name):
    return study.plan(study.get(name)).specs


def runs(name):
    target = paper.TARGETS[name]
    return [spec for spec in specs(target.study) if target.needs(spec)]


def shape(spec):
    return spec.G, spec.width, spec.depth


def test_every_table_and_figure_is_a_target_once():
    names = list(paper.TARGETS)
    expected = {f"table{name}" for name in paper.TABLES if name != "region"} | set(paper.FIGURES)
    assert len(names) == len(set(names)) == 5 + 23
    assert set(names) == expected


def test_a_target_reads_the_study_that_its_renderer_reads():
    for name, target in paper.TARGETS.items():
        if target.is_table:
            assert target.study == paper.TABLES[name.removeprefix("table")]
        else:
            assert target.study == paper.FIGURES[name].study


@pytest.mark.parametrize("given", [[], ["all"], ["fig3", "all"]])
def test_all_is_the_default(given):
    assert paper.chosen(given) == list(paper.TARGETS.values())


def test_targets_by_name_come_once_in_the_paper_s_order():
    found = paper.chosen(["figd1", "Table1", "figD1", "tablec1"])
    assert [target.name for target in found] == ["table1", "tableC1", "figD1"]


def test_an_unknown_target_lists_the_known():
    with pytest.raises(UserError, match=r"'tabel1'. Did you mean 'table1'\? Known: table1, .*all"):
        paper.chosen(["tabel1"])


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("table1", 126_240),
        ("table2", 56_808),
        ("table3", 300),
        ("table4", 300),
        ("fig1", 200),
        ("fig2", 120),
        ("fig3", 4),
        ("figD4", 24 * 243),
        ("figD7", 24 * 243),
        ("figE1", 200),
        ("figN7", 81),
    ],
)
def test_runs_of_a_target_at_the_paper_s_scale(name, count):
    assert len(runs(name)) == count


def test_runs_of_a_target_are_those_it_shows():
    assert {spec.problem for spec in runs("figD2")} == {"f3"}
    assert {spec.G for spec in runs("figD2")} == {10}
    assert {spec.scheme for spec in runs("figD2")} == {"power-law"}
    assert {shape(spec) for spec in runs("table4")} == {LARGE}
    assert {spec.schedule for spec in runs("fig2")} == {"constant"}
    assert "constant" not in {spec.schedule for spec in runs("figE2")}
    assert {spec.problem for spec in runs("figN8")} == {"burgers"}


def test_no_run_is_planned_twice():
    planned = paper.work(paper.chosen(["table1", "figD1", "figD2"]), "smoke")
    (plan,) = planned.plans
    assert plan.specs == study.plan(study.get("functions"), "smoke").specs


@pytest.mark.parametrize("scale", ["smoke", "overnight", "paper"])
def test_these_scales_cover_everything(scale):
    work = paper.work(paper.chosen([]), scale)
    assert work.left == ()
    assert len(work.covered) == 28
    assert bool(work.shortened) == (scale == "smoke")


def test_quick_trains_at_full_length_and_names_what_it_leaves_out():
    work = paper.work(paper.chosen([]), "quick")
    covered = {target.name for target, _ in work.covered}
    assert {"table1", "table3", "fig1", "figD1", "tableC1", "figC1"} <= covered
    assert {target.name for target in work.left} == set(paper.TARGETS) - covered
    assert work.shortened == ()
    for plan in work.plans:
        full = {
            fields["problem"]: fields["steps"] for fields in study.get(plan.study.name).trainings()
        }
        assert all(spec.steps == full[spec.problem] for spec in plan.specs)
