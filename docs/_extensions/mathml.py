"""Formulas as MathML, which browsers render themselves: no script and no network."""

from html import escape

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging

_log = logging.getLogger(__name__)


def _markup(node: nodes.Element, display: str) -> str:
    latex = node.astext()
    try:
        return convert(latex, display=display)
    except Exception as error:  # the converter has a dozen kinds, without a common base
        _log.warning("cannot convert %r: %s", latex, type(error).__name__, location=node)
        return f"<code>{escape(latex)}</code>"


def _inline(translator, node: nodes.math) -> None:
    translator.body.append(_markup(node, "inline"))
    raise nodes.SkipNode


def _display(translator, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{_markup(node, "block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict:
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
