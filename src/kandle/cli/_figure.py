"""`kandle figure`: a figure of the study from a store."""

import argparse
from pathlib import Path


def add(subparsers) -> None:
    parser = subparsers.add_parser(
        "figure",
        help="draw a figure of the study",
        description="Draw a figure made from the runs of a store: fig1-fig4, figC1, figC2, "
        "figD1-figD7, figE1, figE2, figN1-figN8, or 'heatmap' for any problem and grid size "
        "(all that the store holds, if no problem is given).",
    )
    parser.add_argument("name", metavar="NAME", help="fig1 ... figN8, or heatmap")
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
    heatmap = parser.add_argument_group("heatmap")
    heatmap.add_argument("--problem", metavar="P")
    heatmap.add_argument("--grid", metavar="G", type=int)
    heatmap.add_argument("--study", help="the study to take it from (default: the widest search)")
    heatmap.add_argument("--metric", choices=("loss", "l2"), default="loss")
    heatmap.add_argument(
        "--own-scale", action="store_true", help="give each panel its own colour scale"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from kandle._errors import UserError
    from kandle.report import figures

    name, out = arguments.name, Path(arguments.out)
    if name == "heatmap":
        if arguments.store is None:
            raise UserError("A heatmap is made from runs: give it a store with --store.")
        return _heatmaps(arguments, out)
    if arguments.problem or arguments.grid or arguments.own_scale:
        raise UserError("'--problem', '--grid', '--own-scale' belong to 'kandle figure heatmap'.")
    figures.check_format(out)
    known = name if name in figures.FIGURES else f"fig{name}"
    figure = figures.build(
        known if known in figures.FIGURES else name, arguments.store, where=arguments.where
    )
    print(figures.save(figure, out))
    return 0


def _heatmaps(arguments: argparse.Namespace, out: Path) -> int:
    from kandle._errors import UserError
    from kandle.report import figures
    from kandle.report._names import file_name

    options = {"metric": arguments.metric, "own_scale": arguments.own_scale}
    options |= {"where": arguments.where}
    if arguments.problem is not None and arguments.grid is not None:
        figures.check_format(out)
        figure = figures.heatmap(
            arguments.store, arguments.problem, arguments.grid, study=arguments.study, **options
        )
        print(figures.save(figure, out))
        return 0
    if out.suffix.lower() in figures.FORMATS:
        raise UserError("One heatmap takes '--problem' and '--grid'; several take a folder.")
    wanted = [
        (study, problem, grid)
        for study, problem, grid in figures.searched(arguments.store, arguments.study)
        if (arguments.problem is None or problem == arguments.problem)
        and (arguments.grid is None or grid == arguments.grid)
    ]
    if not wanted:
        raise UserError(
            "The store holds no search over exponents of that problem, grid size and study."
        )
    for study, problem, grid in wanted:
        figure = figures.heatmap(arguments.store, problem, grid, study=study, **options)
        print(figures.save(figure, out / f"heatmap-{file_name(problem)}-G{grid}.png"))
    return 0
