"""`kandle export`: write a saved network as C, ONNX or Python."""

import argparse


def add(subparsers) -> None:
    parser = subparsers.add_parser(
        "export",
        help="write a saved network as C, ONNX or Python",
        description="Write a network, with the scaling of its columns if it was fitted to a table, "
        "as FILE.c (C99 without dependencies: kandle_predict(x, y)), FILE.onnx, or FILE.py (Python "
        "with NumPy alone: predict(x)). A classifier's outputs are scores; the largest one is the "
        "predicted class.",
    )
    parser.add_argument("model", metavar="MODEL", help="a model saved as .safetensors")
    parser.add_argument("--out", required=True, metavar="FILE", help="a .c, .onnx or .py file")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from kandle.cli._files import check_writable
    from kandle.cli._models import load_any

    out = check_writable(arguments.out, (".c", ".onnx", ".py"))
    from kandle.export import export, portable

    model, fitted = load_any(arguments.model)
    options = {}
    if fitted is not None:
        options["input_names"] = fitted.inputs.columns
        options["input_offset"], options["input_scale"] = fitted.inputs.offset, fitted.inputs.scale
        if fitted.target is None:
            options["classes"] = fitted.classes
        else:
            options["output_names"] = fitted.target.columns
            options["output_offset"] = fitted.target.offset
            options["output_scale"] = fitted.target.scale
    export(portable(model, **options), out)
    print(f"wrote {out}")
    return 0
