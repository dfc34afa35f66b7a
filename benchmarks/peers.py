"""Milliseconds per training step and peak memory, Kandle beside other libraries.

python benchmarks/peers.py [--peers [jaxkan,pykan]] [--cases functions-small] [--memory]
"""

import argparse
import json
import sys
from collections.abc import Sequence

import speed
from speed import _arithmetic, _text

from kandle._errors import UserError, must, unknown


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Time Adam steps and evaluations of Kandle and, with --peers, of other "
        "libraries, in turns on the same data. With --json standard output is a list of {case, "
        "peer, kandle_ms, peer_ms, ratio, share, kernels} and everything else goes to standard "
        "error; share and kernels are parts of the machine's rate of fused multiply-adds.",
    )
    parser.add_argument(
        "--peers",
        nargs="?",
        const="jaxkan,pykan",
        type=_names,
        default=(),
        metavar="NAMES",
        help="time these too, with commas between: jaxkan, pykan (both by default), "
        "efficient-kan, fast-kan, mlp-jax, mlp-torch",
    )
    parser.add_argument(
        "--peer-path",
        action="append",
        default=[],
        metavar="NAME=DIR",
        help="time efficient-kan or fast-kan too, from a checkout in DIR; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    parser.add_argument(
        "--cases",
        type=_names,
        metavar="NAMES",
        help="only these, with commas between: functions-small, functions-small-batch16, "
        "functions-large, functions-large-dense, pde-small, pde-small-batch16, pde-large, "
        "tabular, tabular-minibatch, images, wide, wide-fused, predict-one-row, "
        "predict-100k-rows, growth",
    )
    parser.add_argument(
        "--rounds",
        type=_rounds,
        default=7,
        metavar="N",
        help="turns each library has; the median counts (default: 7)",
    )
    parser.add_argument(
        "--memory", action="store_true", help="also weigh a training, against jaxKAN with --peers"
    )
    return parser


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _paths(entries: list[str]) -> dict[str, str]:
    paths = {}
    for entry in entries:
        name, separator, folder = entry.partition("=")
        if not separator or not folder:
            raise must("--peer-path", "of the form NAME=DIR", entry)
        paths[name] = folder
    return paths


def _rounds(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1. Got {text!r} instead.")
    return int(text)


def main(argv: Sequence[str] | None = None) -> int:
    parser = options()
    arguments = parser.parse_args(argv)
    try:
        run(arguments)
    except UserError as error:
        parser.exit(2, f"{parser.prog}: error: {error}\n")
    return 0


def run(arguments: argparse.Namespace) -> None:
    cases, grows = speed.chosen(arguments.cases)
    for name in arguments.peers:
        if name not in speed.PEERS:
            raise unknown("peer", name, speed.PEERS)
    paths = _paths(arguments.peer_path)
    names = tuple(dict.fromkeys((*arguments.peers, *paths)))
    peers, notes = speed.find(names, paths)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)

    def tell(line: str = "") -> None:
        print(line, file=sys.stderr if arguments.json else sys.stdout, flush=True)

    rows = []
    if cases:
        rate = _arithmetic.rate()
        for line in _text.machine(rate):
            tell(line)
        for row in speed.measure(cases, peers, arguments.rounds, rate):
            rows.append(row)
            tell(_text.row(row))
    if grows:
        tell()
        for grown in speed.growth(peers, arguments.rounds):
            tell(_text.growth(grown))
    if arguments.memory:
        tell()
        for line in _text.memory(speed.memory("jaxkan" in peers)):
            tell(line)
    if arguments.json:
        print(json.dumps([row.to_dict() for row in rows], indent=1))


if __name__ == "__main__":
    sys.exit(main())
