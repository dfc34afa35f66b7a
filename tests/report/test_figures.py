"""The figures: their data against frames, and every one of them drawn from a small store."""

import itertools

import numpy as np
import pandas as pd
import pytest
import synthetic
from matplotlib.image import imread

from kandle import UserError, analysis
from kandle.paper import FIGURES
from kandle.paper._design import CURVE_SCHEMES, LARGE, POWER_LAW, SMALL
from kandle.paper._figures import SEARCHES, figure
from kandle.paper._references import function_surfaces, pde_solutions
from kandle.problems import FUNCTIONS, PDES
from kandle.report import _names, figures
from kandle.report._load import Data
from kandle.report.figures._heatmap import _scale

WHOLE = {"schemes": CURVE_SCHEMES, "pair": POWER_LAW}

NAMES = [
    *(f"fig{i}" for i in range(1, 5)),
    *("figC1", "figC2", "figE1", "figE2"),
    *(f"figD{i}" for i in range(1, 8)),
    *(f"figN{i}" for i in range(1, 9)),
]


def curves(data, problems, scheduled):
    sizes = {"small": SMALL, "large": LARGE}
    options = {"sizes": sizes, "scheduled": scheduled, "steps": 2000, "seeds": 5}
    return figures.curve_grid(data, problems, **options, **WHOLE)


def test_the_list_is_the_papers():
    assert sorted(FIGURES) == sorted(NAMES)
    assert len(NAMES) == 23


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_is_drawn_from_a_partial_store(command, store, tmp_path, name):
    out = tmp_path / "figures" / f"{name}.png"
    code, output, errors = command("figure", name, "--store", store, "--out", out)
    assert code == 0, errors
    assert output.strip() == str(out)
    picture = imread(out)
    height, width = picture.shape[:2]
    assert 900 <= width <= 2100
    assert 400 <= height <= 3000
    # Not an empty sheet: some ink, and most of it paper or colour.
    assert np.mean(picture[..., :3].min(axis=-1) < 0.95) > 0.01


@pytest.mark.parametrize("suffix", ["svg", "pdf"])
def test_vector_formats_and_the_same_bytes_twice(command, store, tmp_path, suffix):
    outs = [tmp_path / f"{i}.{suffix}" for i in range(2)]
    for out in outs:
        assert command("figure", "fig3", "--store", store, "--out", out)[0] == 0
    first, second = (out.read_bytes() for out in outs)
    assert first == second
    assert first.startswith(b"%PDF" if suffix == "pdf" else b"<?xml")


def test_curve_data_is_mean_and_error_of_the_finished_runs(parts):
    data = parts[3]
    runs = data.runs.copy()
    runs.loc[runs.index[0], "status"] = "diverged"
    data = Data(runs, data.curves)
    grid = curves(data, ("f1", "f2"), False)
    assert [panel.size for (panel, _) in grid.rows] == ["small", "large"]
    assert grid.rows[0][1].curves == {}
    own = analysis.finished(runs)
    own = own[own["problem"].eq("f1") & own["G"].eq(5) & own["schedule"].eq("constant")]
    own = own[own["scheme"].eq("baseline")]
    assert len(own) == 2
    losses = np.stack([data.curves[i].loss for i in own["identity"]])
    curve = grid.rows[0][0].curves["baseline"]
    np.testing.assert_allclose(curve.mean, losses.mean(axis=0))
    np.testing.assert_allclose(curve.error, losses.std(axis=0) / np.sqrt(2))
    assert "1 of 48 runs did not finish" in grid.remark
    assert "3 seeds (paper: 5)" in grid.remark


def test_scheduled_curves_are_those_with_a_schedule(parts):
    data = parts[3]
    constant = curves(data, ("f1",), False)
    scheduled = curves(data, ("f1",), True)
    pick = lambda grid: grid.rows[1][0].curves["glorot"].mean  # noqa: E731
    assert not np.allclose(pick(constant), pick(scheduled))


def test_spectra_stand_in_order_with_the_block_asked_for(parts):
    data = parts[6]
    grid = figures.spectrum_grid(data, "burgers", shape=LARGE, pde=True, **WHOLE)
    assert [label for label, _ in grid.rows] == ["PDE residual", "Conditions"]
    residual, conditions = (panels[3].spectra for _, panels in grid.rows)
    assert [step for step, _ in residual] == sorted(step for step, _ in residual)
    own = data.runs[data.runs["problem"].eq("burgers") & data.runs["scheme"].eq("power-law")]
    stored = {(s.block, s.step): s.eigenvalues for s in data.spectra[own["identity"].item()]}
    for step, values in residual:
        np.testing.assert_array_equal(values, stored["pde", step])
    assert len(conditions[0][1]) == 96


def test_exponent_panels_show_start_middle_and_end(parts):
    grid = figures.exponent_grid(parts[7], "burgers", "pde", shape=LARGE, pairs=81)
    assert grid.alphas == (0.25, 1.0)
    assert grid.betas == (1.0, 1.75)
    assert [step for step, _ in grid.panels[0.25, 1.75].spectra] == [0, 3000, 5000]
    assert grid.remark.startswith("4 of 81 exponent pairs")


def test_heatmap_cells_are_the_representatives():
    shapes = list(itertools.product((5,), (8, 64), (2, 4)))
    runs = synthetic.grid_study(problems=("f3",), shapes=shapes)
    grid = figures.heatmap_grid(runs, "f3", 5)
    assert (grid.widths, grid.depths) == ((8, 64), (2, 4))
    cells = analysis.representatives(runs[runs["scheme"].eq("power-law")])
    for row in cells.itertuples():
        panel = grid.panels[row.width, row.depth]
        at = grid.betas.index(row.beta), grid.alphas.index(row.alpha)
        assert panel.values[at] == row.loss
    lost = {k: int((p.tried & np.isnan(p.values)).sum()) for k, p in grid.panels.items()}
    assert sum(lost.values()) == 4 * 81 - len(cells)
    assert lost[64, 4] > 0
    assert all(p.tried.all() for p in grid.panels.values())


def test_cells_never_run_are_told_from_those_that_diverged():
    runs = synthetic.grid_study(problems=("f3",), shapes=[(5, 8, 2)], schemes=("power-law",))
    gone = runs["alpha"].eq(0.5) & runs["beta"].eq(1.0)
    lost = runs["alpha"].eq(0.25) & runs["beta"].eq(1.0)
    runs.loc[lost, ["status", "loss"]] = ["diverged", np.nan]
    grid = figures.heatmap_grid(runs[~gone], "f3", 5)
    panel, beta = grid.panels[8, 2], grid.betas.index(1.0)
    assert panel.tried[beta].tolist() == [a != 0.5 for a in grid.alphas]
    assert np.isnan(panel.values[beta]).tolist() == [a in (0.25, 0.5) for a in grid.alphas]
    legend = figures.draw_heatmaps(grid).legends[0]
    assert [t.get_text() for t in legend.get_texts()] == ["lowest", "diverged", "not run"]


def test_heatmaps_share_a_scale_unless_each_has_its_own():
    runs = synthetic.grid_study(problems=("f3",), shapes=[(5, 2, 1), (5, 64, 3)])
    grid = figures.heatmap_grid(runs, "f3", 5)
    limits = {}
    for own in (False, True):
        figure = figures.draw_heatmaps(grid, own_scale=own)
        meshes = [
            ax.collections[0] for ax in figure.axes if ax.collections and ax.get_xticks().size
        ]
        limits[own] = {m.get_clim() for m in meshes[:4] if m.get_array().count()}
    assert len(limits[False]) == 1
    assert len(limits[True]) == 2


def test_all_heatmaps_of_a_store(command, store, tmp_path):
    code, output, _ = command(
        "figure", "heatmap", "--store", store, "--problem", "f3", "--out", tmp_path / "all"
    )
    assert code == 0
    assert [line.rsplit("/", 1)[1] for line in output.split()] == [
        f"heatmap-f3-G{g}.png" for g in (5, 10, 20, 40)
    ]
    out = tmp_path / "one.svg"
    options = ("--problem", "burgers", "--grid", "5", "--own-scale", "--metric", "l2")
    assert command("figure", "heatmap", "--store", store, *options, "--out", out)[0] == 0
    assert out.stat().st_size > 10_000


def test_heatmaps_of_the_paper_are_the_supplements_29(tmp_path):
    """Studies with one exponent pair searched nothing, and one architecture is not a search."""
    shapes = [*itertools.product((5, 10, 20, 40), (2, 32), (1, 3))]
    few = {"exponents": (0.25, 1.0), "power_seeds": 1, "schemes": ("power-law",)}
    exponents = [(a, b) for a in (0.25, 0.5, 1.0) for b in (0.25, 1.0)]
    synthetic.write_store(
        tmp_path / "store",
        synthetic.grid_study(shapes=shapes, **few),
        synthetic.pdes(shapes=shapes[:12], **few),
        synthetic.feynman(problems=("I.6.2", "I.12.11"), seeds=1, power_seeds=1),
        synthetic.ntk_study("ntk-exponents", ("f3", "burgers"), exponents, ("power-law",)),
    )
    found = figures.searched(tmp_path / "store")
    assert found == [
        *(("functions", p, G) for p in FUNCTIONS for G in (5, 10, 20, 40)),
        *(("pdes", p, G) for p in PDES for G in (5, 10, 20)),
    ]
    assert len(found) == 29
    own = figures.searched(tmp_path / "store", "ntk-exponents")
    assert own == [("ntk-exponents", "f3", 20), ("ntk-exponents", "burgers", 20)]


def test_figures_say_how_much_of_the_paper_they_show(parts):
    grid = figures.heatmap_grid(parts[0], "f3", 5, **SEARCHES["functions"])
    assert grid.remark.startswith("16 of 81 exponent pairs; 4 of 24 architectures; 2 seeds")
    own = figures.heatmap_grid(parts[0], "f3", 5)
    assert "of 81" not in own.remark


def test_the_full_length_training_is_drawn(parts):
    """A store that also holds runs cut short, with the lower seeds and on more architectures."""
    data = parts[7]
    short = data.runs.assign(steps=5, seed=data.runs["seed"] - 1)
    short["identity"] = "short-" + short["identity"]
    spectra = {**data.spectra, **{i: [] for i in short["identity"]}}
    mixed = Data(pd.concat([short, data.runs], ignore_index=True), {}, spectra)
    grid = figures.exponent_grid(mixed, "burgers", "pde", shape=LARGE)
    assert [step for step, _ in grid.panels[0.25, 1.75].spectra] == [0, 3000, 5000]
    assert "Excluded (different training settings): burgers: 4 runs with steps=5" in grid.remark

    data = parts[6]
    short = data.runs.assign(steps=5)
    short["identity"] = "short-" + short["identity"]
    mixed = Data(pd.concat([short, data.runs], ignore_index=True), {}, data.spectra)
    grid = figures.spectrum_grid(mixed, "burgers", shape=LARGE, pde=True, **WHOLE)
    assert all(panel.spectra for _, panels in grid.rows for panel in panels)
    assert "steps=5" in grid.remark

    data = parts[3]
    runs = data.runs.assign(steps=data.runs["steps"].mask(data.runs["problem"].eq("f1"), 5))
    grid = curves(Data(runs, data.curves), ("f1", "f3"), False)
    assert [bool(panel.curves) for panel in grid.rows[0]] == [False, True]
    assert "excluded (different training settings): f1: 24 runs with steps=5" in grid.remark

    runs = parts[0]
    short = runs[runs["G"].eq(5)].assign(steps=10)
    grid = figures.heatmap_grid(pd.concat([short, runs], ignore_index=True), "f3", 5, steps=2000)
    assert "trained for" not in grid.remark
    assert "steps=10" in grid.remark


def test_references_are_the_problems_own():
    surfaces = function_surfaces(points=9)
    assert len(surfaces) == len(FUNCTIONS) == 5
    x, y = surfaces[0].x[2], surfaces[0].y[7]
    assert surfaces[0].z[2, 7] == pytest.approx(x * y)
    solutions = pde_solutions()
    assert len(solutions) == len(PDES)
    helmholtz = solutions[-1]
    i, j = 40, 11
    exact = np.sin(np.pi * helmholtz.x[i]) * np.sin(4 * np.pi * helmholtz.y[j])
    assert helmholtz.z[i, j] == pytest.approx(exact)
    assert solutions[0].labels == ("t", "x")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("fig9", "--out", "x.png"), "Unknown figure 'fig9'"),
        (("fig1", "--out", "x.gif"), "must end in .png, .pdf, .svg. Got 'x.gif'"),
        (("fig1", "--out", "x"), "must end in .png"),
        (("fig1", "--out", "x.png", "--problem", "f1"), "belong to 'kandle figure heatmap'"),
        (("heatmap", "--out", "x.png"), "One heatmap takes '--problem' and '--grid'"),
        (
            ("heatmap", "--problem", "f9", "--grid", "5", "--out", "x.png"),
            "Unknown problem with a search over exponents 'f9'",
        ),
        (
            ("heatmap", "--problem", "f3", "--grid", "7", "--out", "x.png"),
            "no search over exponents with G = 7. Available: G 5, 10, 20, 40",
        ),
    ],
)
def test_mistakes_are_explained_in_a_line(command, store, arguments, words):
    code, out, errors = command("figure", *arguments, "--store", store)
    assert (code, out) == (2, "")
    assert words in errors
    assert errors.count("\n") == 1


def test_figures_without_a_store(command, tmp_path):
    assert command("figure", "figC1", "--out", tmp_path / "c1.png")[0] == 0
    assert "--store" in command("figure", "fig1", "--out", tmp_path / "1.png")[2]
    assert "--store" in command("figure", "heatmap", "--out", tmp_path / "1.png")[2]


def test_any_study_is_compared_by_any_axis(command, tmp_path, parts):
    runs = parts[0][parts[0]["scheme"].ne("power-law")]
    curves = parts[3].runs.assign(
        study="mine", optimizer=np.where(parts[3].runs.index % 2, "adam", "sgd")
    )
    synthetic.write_store(tmp_path / "store", runs, Data(curves, parts[3].curves))
    options = ("--store", tmp_path / "store", "--study", "mine", "--by", "optimizer")
    for name in ("compare", "curves"):
        out = tmp_path / f"{name}.svg"
        code, _, errors = command("figure", name, *options, "--out", out)
        assert code == 0, errors
        assert out.stat().st_size > 5000
    groups = figures.group_by(Data(runs, {}), "scheme")
    found = groups.results["f1"]["Glorot"]
    own = analysis.finished(runs)
    own = own[own["scheme"].eq("glorot") & own["problem"].eq("f1")]
    np.testing.assert_array_equal(np.sort(found), np.sort(own["loss"]))
    wrong = command(
        "figure", "compare", *options[:4], "--by", "colour", "--out", tmp_path / "x.png"
    )
    assert "'--by' takes a column. Got 'colour'" in wrong[2]


def test_every_line_of_the_most_that_a_figure_shows_is_told_apart(parts):
    runs = parts[3].runs.iloc[:12].assign(optimizer=[f"optimizer {i}" for i in range(12)])
    groups = figures.group_by(Data(runs, parts[3].curves), "optimizer", curves=True)
    figure = figures.draw_group_curves(groups)
    handles = figure.legends[0].legend_handles
    assert len(handles) == 12
    assert len({(h.get_color(), str(h.get_linestyle())) for h in handles}) == 12


def test_a_figure_without_data_is_an_error_and_not_an_empty_picture(command, tmp_path, parts):
    runs = parts[3].runs.assign(width=3)
    synthetic.write_store(tmp_path / "store", Data(runs, parts[3].curves))
    out = tmp_path / "fig1.png"
    code, _, errors = command("figure", "fig1", "--store", tmp_path / "store", "--out", out)
    assert (code, out.exists()) == (2, False)
    assert "nothing to draw" in errors
    # Spectra of another function only: four panels that say "no runs" would be an empty picture.
    synthetic.write_store(tmp_path / "spectra", synthetic.ntk_study(problems=("f3",)))
    code, _, errors = command("figure", "figN1", "--store", tmp_path / "spectra", "--out", out)
    assert (code, out.exists()) == (2, False)
    assert "nothing to draw" in errors


def test_a_heatmap_of_one_cell_is_not_drawn_and_a_row_is():
    runs = synthetic.grid_study(problems=("f3",), shapes=[(5, 8, 2)], exponents=[(0.25, 1.0)])
    with pytest.raises(UserError, match="at least two exponent pairs"):
        figures.heatmap_grid(runs, "f3", 5)
    pairs = [(0.0, b) for b in synthetic.EXPONENTS]
    runs = synthetic.grid_study(problems=("f3",), shapes=[(5, 8, 2)], exponents=pairs)
    grid = figures.heatmap_grid(runs, "f3", 5, **SEARCHES["functions"])
    assert grid.panels[8, 2].values.shape == (9, 1)
    assert grid.remark.startswith("9 of 81 exponent pairs")


def test_a_zero_eigenvalue_does_not_use_up_the_scale(parts):
    data = parts[5]
    first = data.runs.loc[data.runs["problem"].eq("f3"), "identity"].iloc[0]
    spectra = dict(data.spectra)
    zero = [s._replace(eigenvalues=np.append(s.eigenvalues[:-1], 1e-60)) for s in spectra[first]]
    spectra[first] = zero
    grid = figures.spectrum_grid(
        Data(data.runs, {}, spectra), "f3", shape=LARGE, pde=False, **WHOLE
    )
    drawn = figures.draw_spectra(grid)
    low, high = drawn.axes[0].get_ylim()
    values = zero[-1].eigenvalues
    assert 1e-60 < values[-2] / 4 < low < values[-2] < values[0] < high
    assert drawn.axes[1].get_ylim()[0] < grid.rows[0][1][1].spectra[-1][1][-1]


def test_spectra_of_any_study_by_any_column(command, store, tmp_path, parts):
    grid = figures.group_spectra(parts[6], "scheme")
    assert [label for label, _ in grid.rows][:2] == [
        "Allen–Cahn PDE residual",
        "Allen–Cahn Conditions",
    ]
    titles = [panel.title for panel in grid.rows[0][1]]
    assert titles == ["Baseline", "LeCun–numerical", "Glorot", "Power law"]
    own = parts[6].runs
    own = own[own["problem"].eq("burgers") & own["scheme"].eq("glorot")]["identity"].iloc[0]
    wanted = [s.eigenvalues for s in parts[6].spectra[own] if s.block == "pde"]
    shown = [values for _, values in grid.rows[2][1][2].spectra]
    np.testing.assert_array_equal(shown, wanted)
    out = tmp_path / "spectra.svg"
    options = ["--store", store, "--study", "ntk-functions", "--where", "problem=f3", "--out", out]
    code, _, errors = command("figure", "spectra", *options)
    assert code == 0, errors
    assert out.stat().st_size > 5000
    options[3] = "feynman"
    code, _, errors = command("figure", "spectra", *options[:4], "--out", out)
    assert code == 2
    assert "no kernel spectra" in errors
    options[3] = "ntk-exponents"
    code, _, errors = command("figure", "spectra", *options[:4], "--by", "identity", "--out", out)
    assert code == 2
    assert "this figure shows at most 6" in errors


def test_outliers_are_clipped_and_marked():
    runs = synthetic.grid_study(problems=("f3",), shapes=[(5, 8, 2)], schemes=("power-law",))
    runs.loc[runs["alpha"].eq(2.0) & runs["beta"].eq(2.0), "loss"] = 1e30
    grid = figures.heatmap_grid(runs, "f3", 5)
    figure = figures.draw_heatmaps(grid)
    mesh = figure.axes[0].collections[0]
    assert mesh.get_clim()[1] < 1e6
    values = np.concatenate([p.values.ravel() for p in grid.panels.values()])
    assert _scale(values)[1] == "both"


def test_panels_of_curves_have_their_own_scale_unless_it_is_shared(parts):
    """A large network that diverges by decades must not flatten the curves of the small one."""
    runs = parts[3].runs
    factor = dict(zip(runs["identity"], np.where(runs["width"].eq(32), 1e12, 1.0), strict=True))
    raised = {i: (c.steps, c.loss * factor[i]) for i, c in parts[3].curves.items()}
    grid = FIGURES["fig1"].data(Data(runs, raised))
    small, _, large, *_ = figures.draw_curves(grid).axes
    assert small.get_ylim()[1] < 100 < large.get_ylim()[1]
    small, _, large, *_ = figures.draw_curves(grid, shared_scale=True).axes
    assert small.get_ylim() == large.get_ylim()


def test_spectra_over_the_exponents_have_a_logarithmic_scale_per_row(store):
    drawn = figure("figN7", store)
    rows = {}
    for ax in drawn.axes:
        assert ax.get_yscale() == ax.get_xscale() == "log"
        rows.setdefault(ax.get_subplotspec().rowspan.start, set()).add(ax.get_ylim())
    assert len(rows) > 1
    assert all(len(limits) == 1 for limits in rows.values())


def test_values_with_settings_are_called_by_what_tells_them_apart(parts):
    runs = (
        parts[0]
        .iloc[:4]
        .assign(
            basis=[
                "",
                '{"centers":8,"domain":[-1.0,1.0],"name":"rbf","width":0.20203}',
                '{"degree":4,"domain":[-1.0,1.0],"name":"chebyshev"}',
                '{"degree":8,"domain":[-1.0,1.0],"name":"chebyshev"}',
            ],
            optimizer_arguments=["", "", '{"b1":0.5}', '{"b1":0.5}'],
        )
    )
    names = ["bspline", "rbf", "chebyshev (degree 4)", "chebyshev (degree 8)"]
    assert _names.labels(runs, "basis").tolist() == names
    assert set(_names.ordered_labels(runs, "basis")) == set(names)
    assert _names.labels(runs, "optimizer_arguments").tolist() == ["–", "–", *["(b1 0.5)"] * 2]


def test_a_legend_is_not_wider_than_its_figure(parts):
    data = parts[3]
    runs = data.runs[data.runs["problem"].eq("f1")]
    groups = figures.group_by(Data(runs, data.curves), "scheme", curves=True)
    figure = figures.draw_group_curves(groups)
    figure.draw_without_rendering()
    box = figure.legends[0].get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.x1


def test_a_comparison_names_what_it_pools(parts):
    """A mean over 81 exponent pairs and all widths is not that of a scheme."""
    runs = parts[0]
    assert "pooled over alpha, beta, " in figures.group_by(Data(runs, {}), "scheme").remark
    one = runs[runs["scheme"].ne("power-law")]
    one = one[one[["G", "width", "depth"]].eq(one[["G", "width", "depth"]].iloc[0]).all(axis=1)]
    assert "pooled" not in figures.group_by(Data(one, {}), "scheme").remark
