"""`kandle bench`: milliseconds a training step, Kandle beside other libraries."""

import argparse
import json
import sys


def add(subparsers) -> None:
    parser = subparsers.add_parser(
        "bench",
        help="time training, beside other KAN libraries",
        description="Time full-batch Adam steps of Kandle and, with --peers, of jaxKAN and pykan, "
        "in turns on the same data. With --json standard output is a list of {case, peer, "
        "kandle_ms, peer_ms, ratio} and everything else goes to standard error.",
    )
    parser.add_argument(
        "--peers",
        nargs="?",
        const="jaxkan,pykan",
        type=_names,
        default=(),
        metavar="NAMES",
        help="time these too: jaxkan, pykan or both (the default of this option)",
    )
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    parser.add_argument(
        "--cases",
        type=_names,
        metavar="NAMES",
        help="only these, with commas between: functions-small, functions-small-batch16, "
        "functions-large, functions-large-dense, pde-small, pde-small-batch16, pde-large, growth",
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
    parser.set_defaults(run=run)


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _rounds(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1. Got {text!r} instead.")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    from kandle import bench
    from kandle._errors import unknown
    from kandle.bench import _arithmetic, _text

    cases, grows = bench.chosen(arguments.cases)
    for name in arguments.peers:
        if name not in bench.PEERS:
            raise unknown("peer", name, bench.PEERS)
    peers, notes = bench.find(arguments.peers)
    for note in notes:
        print(f"kandle: note: {note}", file=sys.stderr)

    def tell(line: str = "") -> None:
        print(line, file=sys.stderr if arguments.json else sys.stdout, flush=True)

    rows = []
    if cases:
        rate = _arithmetic.rate()
        for line in _text.machine(rate):
            tell(line)
        for row in bench.measure(cases, peers, arguments.rounds):
            rows.append(row)
            tell(_text.row(row, rate))
    if grows:
        tell()
        for grown in bench.growth(peers, arguments.rounds):
            tell(_text.growth(grown))
    if arguments.memory:
        tell()
        tell(_text.memory(bench.memory("jaxkan" in peers)))
    if arguments.json:
        print(json.dumps([row.to_dict() for row in rows], indent=1))
    return 0
