"""`kandle plot`: draw a saved network with the functions on its edges."""

import argparse


def add(subparsers) -> None:
    parser = subparsers.add_parser(
        "plot",
        help="draw a saved network with its edge functions",
        description="Draw a network: units, edges and the function on each edge. An edge is as "
        "opaque as its output varies over the data, relative to the strongest edge of its layer.",
    )
    parser.add_argument("model", metavar="MODEL", help="a model saved as .safetensors")
    parser.add_argument("--out", required=True, metavar="FILE", help="a .png, .pdf or .svg file")
    parser.add_argument(
        "--data",
        metavar="DATA",
        help="a CSV or Parquet file over which the edges are measured (default: the whole domain)",
    )
    parser.add_argument(
        "--edges",
        metavar="N",
        type=int,
        default=64,
        help="edges drawn per layer, the strongest ones (default: 64)",
    )
    parser.add_argument("--title", default="", help="a line above the picture")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from kandle.cli._files import check_writable
    from kandle.cli._models import load_any, table_inputs

    out = check_writable(arguments.out, (".png", ".pdf", ".svg"))
    from kandle.drawing import plot

    model, fitted = load_any(arguments.model)
    x = None
    if arguments.data is not None:
        x = table_inputs(arguments.data, fitted, model.widths[0])
    names = {}
    if fitted is not None:
        names["input_names"] = fitted.inputs.columns
        outputs = fitted.classes if fitted.target is None else fitted.target.columns
        names["output_names"] = [str(name) for name in outputs]
    plot(model, out, x, edges_per_layer=arguments.edges, title=arguments.title, **names)
    print(f"wrote {out}")
    return 0
