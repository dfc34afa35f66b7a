"""The explorer: its data against frames, and the page in a real browser."""

import base64
import itertools
import json
import math
import re
import sys

import browser
import numpy as np
import pandas as pd
import pytest
import synthetic

from kandle import analysis
from kandle.report import explorer
from kandle.store import Curve

NASTY = "mine:</script><script>alert(1)</script><img src=x onerror=alert(2)> & $x$"


def unpacked(array):
    kinds = {"u1": "<u1", "u2": "<u2", "u4": "<u4", "f8": "<f8"}
    return np.frombuffer(base64.b64decode(array["base64"]), dtype=kinds[array["type"]])


def made(*parts):
    """The payload of frames and data, as a store would give it."""
    datas = [p if hasattr(p, "runs") else synthetic.Data(p) for p in parts]
    runs = pd.concat([d.runs for d in datas], ignore_index=True)
    curves, spectra = {}, {}
    for d in datas:
        curves.update({i: d.curves[i] for i in d.curves})
        spectra.update(d.spectra)
    pick = lambda found: lambda ids: {i: found[i] for i in ids if i in found}  # noqa: E731
    return explorer.payload(runs, pick(curves), pick(spectra))


def cells_of(study):
    """The payload's cells as a frame again."""
    columns = {name: unpacked(array) for name, array in study["cells"].items()}
    for name in ("G", "width", "depth", "alpha", "beta", "scheme"):
        known = study["schemes"] if name == "scheme" else study[name]
        columns[name] = [known[i] if i < len(known) else math.nan for i in columns[name]]
    problems = [p["name"] for p in study["problems"]]
    columns["problem"] = [problems[i] for i in columns["problem"]]
    return pd.DataFrame(columns)


def test_the_cells_are_the_representatives_to_the_last_bit(parts):
    study = made(parts[0])["studies"][0]
    cells = cells_of(study)
    expected = analysis.representatives(parts[0])
    found = cells[cells["runs"] > 0].merge(
        expected, on=list(analysis.CELL), suffixes=("", "_expected"), how="outer"
    )
    assert len(found) == len(expected)
    for column in ("loss", "l2", "runs", "attempted"):
        assert (found[column] == found[f"{column}_expected"]).all()
    tried = parts[0].drop_duplicates(list(analysis.CELL))
    assert len(cells) == len(tried)
    lost = cells[cells["runs"] == 0]
    assert len(lost) == len(tried) - len(expected) > 0
    assert lost["loss"].isna().all()


def test_curves_are_the_median_runs_at_forty_points(parts):
    data = parts[3]
    study = next(s for s in made(data)["studies"] if s["name"] == "curves-functions")
    cells, curves = cells_of(study), study["curves"]
    runs = data.runs[data.runs["schedule"].eq("constant")]
    kept = analysis.representatives(runs).set_index(list(analysis.CELL))["identity"]
    kept = {tuple(map(str, key)): identity for key, identity in kept.items()}
    loss, at = curves["loss"], 0
    levels = unpacked(loss["levels"])
    for owner, grid in zip(unpacked(curves["cell"]), unpacked(curves["grid"]), strict=True):
        steps = curves["steps"][grid]
        assert len(steps) == 40
        mine = levels[at : at + len(steps)]
        at += len(steps)
        drawn = 10 ** (loss["low"] + (loss["high"] - loss["low"]) * mine / 65534)
        true = data.curves[kept[tuple(map(str, cells.loc[owner, list(analysis.CELL)]))]]
        where = np.searchsorted(true.steps, steps)
        assert true.steps[where].tolist() == steps
        np.testing.assert_allclose(drawn, true.loss[where], rtol=1e-3)
    assert at == len(levels)


def test_constant_and_scheduled_runs_are_shown_apart(parts):
    names = [s["name"] for s in made(parts[3])["studies"]]
    assert names == ["curves-functions", "curves-functions, scheduled rate"]


def test_each_basis_of_a_study_is_shown_with_its_label(parts):
    rows = parts[0][parts[0]["scheme"].eq("baseline")].assign(study="mine", basis="")
    others = [
        rows.assign(basis=json.dumps({"name": "chebyshev", "degree": degree}), G=degree)
        for degree in (4, 8)
    ]
    for degree, more in zip((4, 8), others, strict=True):
        more["identity"] = f"chebyshev-{degree}-" + more["identity"]
    studies = made(pd.concat([rows, *others], ignore_index=True))["studies"]
    assert [study["name"] for study in studies] == [
        "mine, bspline",
        "mine, chebyshev (degree 4)",
        "mine, chebyshev (degree 8)",
    ]
    assert [study["left_out"] for study in studies] == [[], [], []]


def test_win_rates_are_the_tables(parts):
    study = made(parts[0])["studies"][0]
    expected = analysis.win_rates(analysis.representatives(parts[0]))
    keys = ["scheme", "metric", "problem"]
    both = pd.DataFrame(study["wins"]).merge(expected, on=keys, suffixes=("", "_expected"))
    assert len(both) == len(expected) == len(study["wins"])
    assert (both["wins"] == both["wins_expected"]).all()
    assert (both["percent"] == both["percent_expected"]).all()


def test_the_variants_of_a_users_scheme_are_shown_as_schemes(parts):
    rows = parts[0][parts[0]["scheme"].isin(["baseline", "glorot"])].assign(study="gains")
    more = rows[rows["scheme"].eq("glorot")].assign(gain=2.0)
    more["identity"] = "more-" + more["identity"]
    data = made(pd.concat([rows, more], ignore_index=True))
    (study,) = data["studies"]
    assert study["schemes"] == ["baseline", "glorot", "glorot(gain=2)"]
    assert data["schemes"]["glorot(gain=2)"] == "Glorot (gain=2)"
    assert study["left_out"] == []
    assert {w["scheme"] for w in study["wins"]} == {"glorot", "glorot(gain=2)"}
    # In a study of the paper a scheme is one thing.
    runs = pd.concat([rows, more], ignore_index=True).assign(study="functions")
    found = explorer.payload(runs, lambda ids: {}, lambda ids: {}, plain_studies=("functions",))
    (study,) = found["studies"]
    assert study["schemes"] == ["baseline", "glorot"]
    assert len(study["left_out"]) == 2


def test_the_region_says_how_sure_it_is(parts):
    shown = made(parts[0])["studies"][0]["regions"]["power-law"]
    assert re.search(r"α = 0\.25: β = .* \(14 settings; \d+ of its \d+ pairs? certain\)", shown)


def test_names_cannot_leave_their_place(parts):
    own = parts[0][parts[0]["problem"].eq("f1")].assign(problem=NASTY)
    text = explorer.page(made(own))
    assert "</script><script>alert" not in text
    assert "<img src=x" not in text
    inside = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert json.loads(inside[1])["studies"][0]["problems"][0]["name"] == NASTY
    assert not re.search(r'(src|href)="(?!data:|#)', text.split("<script>")[0])


@pytest.fixture(scope="module")
def full_page(tmp_path_factory):
    """A page of a store with every run of the paper."""
    shapes = {"functions": (5, 10, 20, 40), "pdes": (5, 10, 20)}
    grids = {
        study: list(itertools.product(G, (2, 4, 8, 16, 32, 64), (1, 2, 3, 4)))
        for study, G in shapes.items()
    }
    frames = [
        synthetic.grid_study(shapes=grids["functions"]),
        synthetic.pdes(shapes=grids["pdes"]),
        synthetic.feynman(),
    ]
    exponents = list(itertools.product(synthetic.EXPONENTS, repeat=2))
    kernels = [
        synthetic.ntk_study(),
        synthetic.ntk_study("ntk-pdes", synthetic.PDES),
        synthetic.ntk_study("ntk-exponents", ("f3", "burgers"), exponents, ("power-law",)),
    ]
    runs = pd.concat([*frames, *(k.runs for k in kernels)], ignore_index=True)
    spectra = {i: s for k in kernels for i, s in k.spectra.items()}
    ends = dict(zip(runs["identity"], runs["loss"], strict=True))
    steps = np.unique(np.geomspace(1, 2000, 200).astype(int))
    noise = np.random.default_rng(0).normal(0, 0.1, len(steps))

    def curves(wanted):
        return {i: Curve(steps, ends[i] * np.exp(noise) * 2000 / steps) for i in wanted}

    data = explorer.payload(runs, curves, lambda w: {i: spectra[i] for i in w if i in spectra})
    path = tmp_path_factory.mktemp("page") / "full.html"
    path.write_text(explorer.page(data), encoding="utf-8")
    return path, runs


def test_a_full_page_is_under_25_megabytes(full_page):
    assert full_page[0].stat().st_size < 25e6


# in the browser --------------------------------------------------------------------------------

needs_browser = pytest.mark.skipif(
    browser.executable() is None, reason=f"none of {', '.join(browser.NAMES)} is installed"
)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    opened = browser.Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def path(parts, tmp_path_factory):
    nasty = parts[0][parts[0]["problem"].eq("f1")].assign(study=NASTY, problem=NASTY)
    out = tmp_path_factory.mktemp("small") / "page.html"
    out.write_text(explorer.page(made(*parts, nasty)), encoding="utf-8")
    return out


@pytest.fixture
def page(chromium, path):
    opened = chromium.open(path)
    yield opened
    assert opened.complaints() == []
    opened.close()


CELLS = "document.getElementById('heatmap').data[0]"


def spot(page, plot, x, y):
    """Where on the screen a plot has the place (x, y) of its axes; it is scrolled into view."""
    # The choices stick to the top of the window; a click is aimed at what was last painted.
    return page.run(f"""(async () => {{
        const plot = document.getElementById("{plot}");
        plot.scrollIntoView({{block: "end"}});
        for (let i = 0; i < 2; i++) await new Promise((done) => requestAnimationFrame(done));
        const {{xaxis, yaxis}} = plot._fullLayout, at = plot.getBoundingClientRect();
        return [at.x + xaxis._offset + xaxis.d2p({x}), at.y + yaxis._offset + yaxis.d2p({y})];
    }})()""")


@needs_browser
def test_it_loads_without_complaint_or_request_and_shows_something(page):
    assert page.run("document.querySelectorAll('.js-plotly-plot').length") == 4
    assert "functions" in page.run("document.getElementById('summary').textContent")
    assert page.run("document.querySelectorAll('#wins tbody tr').length") == 24


@needs_browser
def test_the_heatmap_shows_the_frames_numbers(page, parts):
    runs = parts[0]
    for problem, metric, column in (
        ("f₁", "Final loss", "loss"),
        ("f₃", "Relative L² error", "l2"),
    ):
        page.choose("problem", problem)
        page.choose("metric", metric)
        drawn = [z for row in page.run(f"{CELLS}.z") for z in row if z is not None]
        own = runs[runs["problem"].eq({"f₁": "f1", "f₃": "f3"}[problem]) & runs["G"].eq(5)]
        cells = analysis.representatives(own[own["scheme"].eq("power-law")])
        np.testing.assert_allclose(sorted(drawn), sorted(np.log10(cells[column])), rtol=1e-12)


@needs_browser
def test_the_ratio_to_the_baseline_is_drawn(page, parts):
    page.choose("metric", "Loss relative to the baseline")
    drawn = [z for row in page.run(f"{CELLS}.z") for z in row if z is not None]
    cells = analysis.representatives(parts[0][parts[0]["problem"].eq("f1") & parts[0]["G"].eq(5)])
    base = cells[cells["scheme"].eq("baseline")].set_index(["width", "depth"])["loss"]
    power = cells[cells["scheme"].eq("power-law")]
    against = base.loc[list(zip(power["width"], power["depth"], strict=True))].to_numpy()
    np.testing.assert_allclose(sorted(drawn), sorted(np.log10(power["loss"] / against)))


@needs_browser
def test_choices_change_what_is_drawn(page):
    seen = set()
    for element, text in (
        ("study", "functions"),
        ("problem", "f₃"),
        ("grid", "10"),
        ("metric", "Relative L² error"),
        ("study", "pdes"),
        ("study", "feynman"),
        ("study", "ntk-exponents"),
    ):
        page.choose(element, text)
        seen.add(json.dumps(page.run(f"{CELLS}.z")))
    assert len(seen) == 7
    page.choose("study", "functions")
    page.choose("architecture", "width 8, depth 2")
    rows = page.run(f"{CELLS}.z")
    assert (len(rows), len(rows[0])) == (4, 4)


@needs_browser
def test_a_click_on_a_cell_shows_its_curves_and_spectra(page, parts):
    page.choose("study", "ntk-exponents")
    page.choose("problem", "Burgers")
    page.click(*spot(page, "heatmap", 0, 1))
    page.wait("document.getElementById('cell').textContent.includes('α = 0.25, β = 1.75')")
    shown = page.run("document.getElementById('cell').textContent")
    data = parts[7]
    own = data.runs[data.runs["problem"].eq("burgers") & data.runs["alpha"].eq(0.25)]
    own = own[own["beta"].eq(1.75)]
    mantissa, exponent = f"{own['loss'].item():.2e}".split("e")
    assert f"loss {mantissa}e{int(exponent):+d}" in shown
    curve = page.run("document.getElementById('curves').data.at(-1).y")
    assert curve[-1] == pytest.approx(data.curves[own["identity"].item()].loss[-1], rel=1e-3)
    names = page.run("document.getElementById('spectra').data.map((t) => t.name)")
    assert len(names) == 12
    first = page.run("document.getElementById('spectra').data[0].y")
    stored = data.spectra[own["identity"].item()][0].eigenvalues
    assert first[0] == pytest.approx(stored[0], rel=1e-3)
    assert first[-1] == pytest.approx(stored[-1], rel=1e-3)


@needs_browser
def test_spectra_of_another_study_are_found_for_the_same_cell(page):
    page.choose("problem", "f₃")
    page.choose("grid", "20")
    page.run("document.getElementById('heatmap').focus()")
    page.wait("document.activeElement.id === 'heatmap'")
    for key in ("ArrowLeft",) * 4 + ("ArrowDown",) * 4 + ("ArrowRight", *("ArrowUp",) * 3):
        page.press(key)
    shown = page.run("document.getElementById('cell').textContent")
    assert "α = 0.25, β = 1.75" in shown
    assert "width 32, depth 3" in shown
    assert page.run("document.getElementById('spectra').data.length") == 5


@needs_browser
def test_plots_that_get_data_get_room_and_schemes_stay_chosen(page):
    tall = "document.getElementById('spectra')._fullLayout.height"
    assert page.run(tall) < 120
    page.choose("study", "ntk-exponents")
    assert page.run(tall) > 300
    page.choose("study", "functions")
    assert page.run(tall) < 120
    chosen = "['first', 'second'].map((id) => document.getElementById(id).value)"
    assert page.run(chosen) == ["power-law", "baseline"]


@needs_browser
def test_it_is_used_by_keyboard_alone(page):
    page.run("document.getElementById('heatmap').focus()")
    shown = set()
    for key in ("ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown"):
        page.press(key)
        shown.add(page.run("document.getElementById('cell').textContent"))
    assert len(shown) >= 3
    assert page.run("document.getElementById('heatmap').layout.shapes.length") == 2
    reachable = page.run(
        "[...document.querySelectorAll('select, button, [tabindex]')]"
        ".every((e) => e.tabIndex >= 0 && (e.labels?.length || e.textContent || e.ariaLabel"
        " || e.getAttribute('aria-labelledby')))"
    )
    assert reachable


@needs_browser
def test_the_table_sorts(page):
    rows = "[...document.querySelectorAll('#wins tbody tr')]"
    read = f"{rows}.map((row) => Number(row.cells[3].textContent))"
    press = "document.querySelector('[data-column=percent]').click()"
    page.run(press)
    down = page.run(read)
    assert down == sorted(down, reverse=True)
    page.run(press)
    up = page.run(read)
    assert up == sorted(up)
    assert up != down
    sort = "document.querySelector('[data-column=percent]').parentElement.ariaSort"
    assert page.run(sort) == "ascending"


@needs_browser
def test_two_schemes_are_compared_as_the_frames_compare(page, parts):
    page.choose("problem", "f₃")
    page.choose("first", "Glorot")
    page.choose("second", "LeCun–numerical")
    cells = analysis.best_exponents(analysis.representatives(parts[0]))
    pairs = analysis.paired(cells, "glorot", "lecun-numerical")
    pairs = pairs[pairs["problem"].eq("f3")]
    wins, of = int((pairs["loss"] < pairs["loss_rival"]).sum()), len(pairs)
    verdict = page.run("document.getElementById('verdict').textContent")
    assert f"on {wins} of {of} architectures" in verdict
    assert f"({analysis.percentage(wins, of):.2f} %)" in verdict
    drawn = page.run("document.getElementById('compare').data[1].y")
    assert sorted(drawn) == sorted(pairs["loss"])
    page.choose("first", "Power law, best exponents")
    best = analysis.paired(cells, "power-law", "lecun-numerical")
    best = best[best["problem"].eq("f3")]
    assert sorted(page.run("document.getElementById('compare').data[1].y")) == sorted(best["loss"])


@needs_browser
def test_a_point_of_the_comparison_leads_to_its_cell(page, parts):
    """Also where it is of another grid size than the heatmaps show, or of no exponents at all."""
    cells = analysis.best_exponents(analysis.representatives(parts[0]))
    for scheme, chosen, marks in (
        ("power-law", "Power law, best exponents", 2),
        ("glorot", "Glorot", 0),
    ):
        page.choose("grid", "5")
        page.choose("first", chosen)
        pairs = analysis.paired(cells, scheme)
        pair = pairs[pairs["problem"].eq("f1") & pairs["G"].eq(40)].iloc[0]
        page.click(*spot(page, "compare", pair["loss_rival"], pair["loss"]))
        page.wait("document.getElementById('grid').selectedOptions[0].textContent === '40'")
        shown = page.run("document.getElementById('cell').textContent")
        assert f"{chosen.split(',')[0]}" in shown
        assert "G = 40, width 8, depth 2" in shown
        assert "G = 40" in page.run("document.getElementById('heatmap-help').textContent")
        assert page.run("document.getElementById('heatmap').layout.shapes.length") == marks


@needs_browser
def test_the_only_power_law_is_among_the_curves_of_every_cell(page):
    page.choose("study", "curves-functions")
    page.click(*spot(page, "heatmap", 0, 0))
    page.wait("document.getElementById('cell').textContent.includes('Baseline')")
    names = page.run("document.getElementById('curves').data.map((t) => t.name)")
    assert sorted(names) == ["Baseline", "Glorot", "LeCun–numerical", "Power law (0.25, 1.75)"]


@needs_browser
def test_variants_of_the_power_law_have_heatmaps_of_their_own(chromium, parts, tmp_path):
    rows = parts[0][parts[0]["G"].eq(5)].assign(study="mine")
    more = rows[rows["scheme"].eq("power-law")].assign(gain=2.0, loss=rows["loss"] * 10)
    more["identity"] = "more-" + more["identity"]
    out = tmp_path / "page.html"
    out.write_text(explorer.page(made(pd.concat([rows, more], ignore_index=True))), "utf-8")
    page = chromium.open(out)
    before = page.run(f"{CELLS}.z.flat()")
    page.choose("searched", "Power law (gain=2)")
    after = page.run(f"{CELLS}.z.flat()")
    drawn = [(a, b) for a, b in zip(before, after, strict=True) if a is not None]
    assert all(b == pytest.approx(a + 1) for a, b in drawn)
    assert page.complaints() == []
    page.close()


@needs_browser
def test_without_a_power_law_no_scheme_stands_against_itself(chromium, parts, tmp_path):
    rows = parts[0][parts[0]["scheme"].isin(["baseline", "glorot"])]
    out = tmp_path / "page.html"
    out.write_text(explorer.page(made(rows)), "utf-8")
    page = chromium.open(out)
    chosen = page.run("['first', 'second'].map((id) => document.getElementById(id).value)")
    assert chosen == ["glorot", "baseline"]
    page.close()


@needs_browser
def test_names_from_users_are_shown_and_not_run(page):
    page.choose("study", NASTY)
    assert page.run("document.getElementById('problem').selectedOptions[0].textContent") == NASTY
    assert NASTY in page.run("document.getElementById('cell').textContent")
    assert page.run("document.querySelectorAll('img').length") == 0
    assert page.run("document.querySelectorAll('#wins tbody td')[0].textContent") == NASTY
    assert "&lt;img" in page.run(f"{CELLS}.text.flat().find((t) => t.length > 20)")


@needs_browser
@pytest.mark.parametrize(("width", "dark"), [(360, False), (360, True), (1280, True)])
def test_phones_and_dark_mode(chromium, path, width, dark):
    page = chromium.open(path, width=width, height=740, dark=dark)
    assert page.run("document.documentElement.scrollWidth") <= width
    ground = page.run("getComputedStyle(document.body).backgroundColor")
    paper = page.run("document.getElementById('heatmap').layout.paper_bgcolor")
    assert (ground == "rgb(20, 24, 31)") == dark
    assert (paper == "#14181f") == dark
    assert page.complaints() == []
    page.close()


@needs_browser
def test_a_click_on_a_full_page_draws_each_plot_once_and_decodes_nothing(chromium, full_page):
    page = chromium.open(full_page[0])
    page.run("""(() => {
        window.drawn = {};
        window.decoded = 0;
        for (const way of ["react", "newPlot"]) {
            const draw = Plotly[way];
            Plotly[way] = (plot, ...rest) => {
                const name = plot.id || plot;
                drawn[name] = (drawn[name] || 0) + 1;
                return draw(plot, ...rest);
            };
        }
        const decode = window.atob;
        window.atob = (text) => { decoded += 1; return decode(text); };
        window.answers = 0;
        new MutationObserver(() => requestAnimationFrame(() => setTimeout(() => { answers += 1; })))
            .observe(document.getElementById("cell"), {childList: true});
    })()""")

    def clicked(x, y):
        page.run("window.drawn = {}; window.decoded = 0; window.answers = 0")
        page.click(*spot(page, "heatmap", x, y))
        page.wait("answers > 0")

    clicked(0, 60)  # the first click may also decode the studies that have spectra
    for x in (1, 7, 22):
        clicked(x, 57)
        drawn = page.run("drawn")
        assert drawn
        assert set(drawn.values()) == {1}
        assert page.run("decoded") == 0
    assert page.complaints() == []
    page.close()


def test_the_command_writes_a_page_from_a_store(command, store, tmp_path):
    out = tmp_path / "deep" / "page.html"
    code, shown, errors = command("explore", "--store", store, "--out", out)
    assert code == 0, errors
    assert shown.strip() == str(out)
    assert out.stat().st_size > 1e6
    assert "must end in .html" in command("explore", "--store", store, "--out", "page.txt")[2]
    assert command("explore", "--store", tmp_path / "no", "--out", out)[0] == 2


def test_without_plotly_it_says_what_to_install(command, store, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    code, _, errors = command("explore", "--store", store, "--out", tmp_path / "page.html")
    assert code == 2
    assert "pip install 'kandle[explore]'" in errors
