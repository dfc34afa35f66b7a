"""The directive `kandle-commands`: the help of every command, from the program's own parser."""

import argparse

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from kandle.cli._main import build_parser


class Commands(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        return [_section(name, parser) for name, parser in _parsers(build_parser())]


def _parsers(
    parser: argparse.ArgumentParser, name: str = "kandle"
) -> list[tuple[str, argparse.ArgumentParser]]:
    """Every command that does something, those of subcommands after their parent."""
    found = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, child in action.choices.items():
                found += [(f"{name} {word}", child), *_parsers(child, f"{name} {word}")]
    return found


def _section(name: str, parser: argparse.ArgumentParser) -> nodes.section:
    section = nodes.section(ids=[nodes.make_id(name)], names=[name])
    section += nodes.title(text=name)
    section += nodes.literal_block(parser.format_help(), parser.format_help(), language="text")
    return section


def setup(app: Sphinx) -> dict:
    app.add_directive("kandle-commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
