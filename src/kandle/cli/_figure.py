"""`kandle figure`: a figure of the study from a store."""

import argparse
from pathlib import Path
from typing import Any


def add(subparsers) -> None:
    parser = subparsers.add_parser(
        "figure",
        help="draw a figure of the study",
        description="Draw a figure made from the runs of a store: fig1-fig4, figC1, figC2, "
        "figD1-figD7, figE1, figE2, figN1-figN8; 'heatmap' for any problem and grid size (all in "
        "the store, if no problem is given); 'curves', 'spectra' or 'compare' for any study, "
        "grouped by any column with --by.",
    )
    parser.add_argument(
        "name", metavar="NAME", help="fig1 ... figN8, heatmap, curves, spectra, compare"
    )
    parser.add_argument("--store", metavar="DIR", help="the store of runs (not for figC1, figC2)")
    parser.add_argument(
        "--out",
        metavar="FILE",
        required=True,
        help="where to write it: .png, .pdf or .svg (a folder for all heatmaps)",
    )
    parser.add_argument(
        "--where",
        metavar="COLUMN=VALUE",
        action="append",
        default=[],
        help="keep only the runs with this value in an exported column; may be repeated",
    )
    parser.add_argument(
        "--shared-scale",
        action="store_true",
        help="give the panels of kernel spectra (fig3, fig4, figN1-figN6) one scale per row, those "
        "of loss curves (fig1, fig2, figE1, figE2) one per problem",
    )
    parser.add_argument("--study", help="the study to show (heatmap: default the widest search)")
    parser.add_argument("--metric", choices=("loss", "l2"), default="loss")
    parser.add_argument(
        "--by",
        metavar="COLUMN",
        default="scheme",
        help="curves, spectra, compare: the exported column to group runs by (default: scheme)",
    )
    heatmap = parser.add_argument_group("heatmap")
    heatmap.add_argument("--problem", metavar="P")
    heatmap.add_argument("--grid", metavar="G", type=int)
    heatmap.add_argument(
        "--own-scale", action="store_true", help="give each panel its own colour scale"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from kandle import paper
    from kandle._errors import UserError
    from kandle.report import figures

    name, out = arguments.name, Path(arguments.out)
    if name == "heatmap":
        if arguments.store is None:
            raise UserError("A heatmap is made from runs: give it a store with --store.")
        return _heatmaps(arguments, out)
    if name in ("compare", "curves", "spectra"):
        return _own(arguments, out)
    if arguments.problem or arguments.grid or arguments.own_scale:
        raise UserError("'--problem', '--grid', '--own-scale' belong to 'kandle figure heatmap'.")
    figures.check_format(out)
    full = name if name in paper.FIGURES else f"fig{name}"
    known = full if full in paper.FIGURES else name
    options = {"where": arguments.where, "shared_scale": arguments.shared_scale}
    print(figures.save(paper.figure(known, arguments.store, **options), out))
    return 0


def _own(arguments: argparse.Namespace, out: Path) -> int:
    from kandle._errors import UserError
    from kandle.report import figures
    from kandle.report._load import load

    if arguments.store is None or arguments.study is None:
        raise UserError(f"'kandle figure {arguments.name}' needs '--store' and '--study'.")
    figures.check_format(out)
    curves, spectra = (arguments.name == kind for kind in ("curves", "spectra"))
    wanted = {"curves": curves, "spectra": spectra, "where": arguments.where}
    data = load(arguments.store, arguments.study, **wanted)
    if spectra:
        grid = figures.group_spectra(data, arguments.by)
        drawn = figures.draw_spectra(grid, shared_scale=arguments.shared_scale)
        print(figures.save(drawn, out))
        return 0
    groups = figures.group_by(data, arguments.by, metric=arguments.metric, curves=curves)
    drawn = (
        figures.draw_group_curves(groups)
        if curves
        else figures.draw_groups(groups, metric=arguments.metric)
    )
    print(figures.save(drawn, out))
    return 0


def _heatmaps(arguments: argparse.Namespace, out: Path) -> int:
    from kandle._errors import UserError
    from kandle.paper._figures import SEARCHES
    from kandle.report import figures
    from kandle.report._names import file_name

    options: dict[str, Any] = {"metric": arguments.metric, "own_scale": arguments.own_scale}
    options |= {"where": arguments.where}
    one = arguments.problem is not None and arguments.grid is not None
    if one:
        figures.check_format(out)
    elif out.suffix.lower() in figures.FORMATS:
        raise UserError("One heatmap takes '--problem' and '--grid'; several take a folder.")
    wanted = [
        (study, problem, grid)
        for study, problem, grid in figures.searched(arguments.store, arguments.study)
        if (arguments.problem is None or problem == arguments.problem)
        and (arguments.grid is None or grid == arguments.grid)
    ]
    if arguments.problem is not None and arguments.grid is not None and not wanted:
        # Raises an error that lists what is available.
        figures.heatmap(arguments.store, arguments.problem, arguments.grid)
    if not wanted:
        raise UserError(
            "The store has no search over exponents of that problem, grid size and study."
        )
    for study, problem, grid in wanted:
        whole: dict[str, Any] = dict(SEARCHES.get(study, {}))
        figure = figures.heatmap(arguments.store, problem, grid, study=study, **options, **whole)
        path = out if one else out / f"heatmap-{file_name(problem)}-G{grid}.png"
        print(figures.save(figure, path))
    return 0
