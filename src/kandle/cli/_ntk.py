"""`kandle ntk`: the tangent kernel of a saved model, in figures, a drawing and words."""

import argparse
from pathlib import Path


def add(subparsers) -> None:
    parser = subparsers.add_parser(
        "ntk",
        help="the tangent kernel's spectrum of a saved model",
        description="Take the spectrum of a saved model's tangent kernel on a problem's training "
        "points (of a PDE: of its residual and of its conditions), draw it, and say what it means: "
        "which modes learn and which will not.",
    )
    parser.add_argument("model", metavar="MODEL", help="a model saved as .safetensors")
    parser.add_argument(
        "--problem",
        metavar="P",
        required=True,
        help="f1, I.6.2, burgers, ..., or your own as module:object",
    )
    parser.add_argument(
        "--steps", metavar="N", type=int, help="the training to speak of (default: the problem's)"
    )
    parser.add_argument("--out", metavar="FILE", help="draw it to a .png, .pdf or .svg file")
    parser.add_argument("--json", action="store_true", help="print all numbers as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from kandle import ntk, problems
    from kandle._compat import enable_x64
    from kandle._errors import UserError
    from kandle.cli._models import load_any

    if arguments.out is not None:
        from kandle.report import figures

        figures.check_format(arguments.out)
    problem = problems.get(arguments.problem)
    steps = problem.default_steps if arguments.steps is None else arguments.steps
    model, _ = load_any(arguments.model)
    with enable_x64(True):  # the model may be in double precision
        found = ntk.spectra(problem, model)
    if not found:
        raise UserError(f"{arguments.model} has weights or a kernel that are not finite.")
    # One rate for all blocks: the largest eigenvalue of the whole is at most the sum of theirs.
    largest = sum(spectrum.eigenvalues[0] for spectrum in found.values())
    readings = {b: ntk.reading(spectrum, steps, largest=largest) for b, spectrum in found.items()}
    if arguments.out is not None:
        _draw(found, f"{Path(arguments.model).name} on {problem.name}", arguments.out)
    if arguments.json:
        _print_json(problem.name, steps, found, readings)
        return 0
    for i, (block, spectrum) in enumerate(found.items()):
        if i:
            print()
        _print(block, spectrum, readings[block])
    if problem.kind == "pde":
        print(
            "\nA saved model has no attention weights: they are 1 here. Each block is read by "
            "itself, at a\nrate that both allow; that one moves the other is left out."
        )
    if arguments.out is not None:
        print(f"\n{arguments.out}")
    return 0


_TITLES = {"ntk": "Outputs", "pde": "PDE residual", "bc": "Conditions"}


def _print_json(problem: str, steps: int, found: dict, readings: dict) -> None:
    import dataclasses
    import json
    import math

    def plain(spectrum) -> dict:
        fields = dataclasses.asdict(spectrum)
        # JSON has no infinity.
        infinite = not math.isfinite(spectrum.condition)
        return fields | ({"condition": None} if infinite else {})

    blocks = {b: {**plain(s), "reading": readings[b]} for b, s in found.items()}
    print(json.dumps({"problem": problem, "steps": steps, "blocks": blocks}, indent=2))


def _print(block: str, spectrum, reading: str) -> None:
    import textwrap

    n = len(spectrum.eigenvalues)
    largest, smallest = spectrum.eigenvalues[0], spectrum.eigenvalues[-1]
    raw = f"{'at least ' if spectrum.floored else ''}{spectrum.condition:.3g}"
    capped = "" if spectrum.condition == spectrum.condition_capped else "  (capped: 1e+09)"
    print(f"{_TITLES[block]}, {n} points")
    print(f"  eigenvalues     {largest:.3g} ... {smallest:.3g}")
    print(f"  condition       {raw}{capped}")
    print(f"  effective rank  {spectrum.effective_rank:.3g}")
    print(f"  entropy         {spectrum.entropy:.3g} nats of {_entropy_of(n):.3g}")
    print(f"  trace           {spectrum.trace:.3g}")
    print()
    for line in _plot(spectrum.eigenvalues):
        print(f"  {line}")
    print()
    print(textwrap.fill(reading, 88, initial_indent="  ", subsequent_indent="  "))


def _entropy_of(n: int) -> float:
    import math

    return math.log(n)


def _plot(values, width: int = 56, height: int = 10) -> list[str]:
    """Eigenvalue over index, both logarithmic, in characters."""
    import numpy as np

    logs = np.log10(np.maximum(values, 1e-300))
    n = len(logs)
    top, bottom = float(logs[0]), float(max(logs[-1], logs[0] - 20))
    span = max(top - bottom, 1e-9)
    columns = np.rint(np.geomspace(1, n, width)).astype(int) - 1
    rows = np.clip(np.rint((top - logs[columns]) / span * (height - 1)), 0, height - 1)
    lines = []
    for row in range(height):
        label = f"{10 ** (top - span * row / (height - 1)):8.1e}"
        cells = "".join("•" if r == row else " " for r in rows)
        lines.append(f"{label} │{cells}".rstrip())
    lines.append(" " * 8 + " └" + "─" * width)
    lines.append(" " * 10 + "1" + f"{n}".rjust(width - 1))
    return lines


def _draw(found: dict, title: str, out: str) -> None:
    import numpy as np

    from kandle.report import figures
    from kandle.report.figures._spectra import SpectrumPanel, draw_panel
    from kandle.report.figures._style import decades, new_figure, style

    with style():
        figure = new_figure(2.2, 2.9 * len(found))
        for ax, (block, spectrum) in zip(
            figure.subplots(1, len(found), squeeze=False)[0], found.items(), strict=True
        ):
            ax.set_xscale("log")
            ax.set_yscale("log")
            decades(ax.yaxis, 7)
            draw_panel(ax, SpectrumPanel("", ((0, np.asarray(spectrum.eigenvalues)),), "ok"))
            ax.grid(True, which="major")
            ax.set_xlabel("Index")
            ax.set_title(
                f"{_TITLES[block]}: condition {spectrum.condition:.2g}, "
                f"effective rank {spectrum.effective_rank:.3g}"
            )
        figure.axes[0].set_ylabel("Eigenvalue")
        figure.suptitle(title, fontsize=7.5)
    figures.save(figure, out)
