"""Keeps moved addresses of the documentation alive: pages, and headings of pages that remain.

`redirects` in conf.py maps an old address to the document that has its text now:

    redirects = {
        "tables": "reference/tables",                        # a page that is gone
        "tables#columns": "reference/tables#columns",        # one of its headings
        "kernels#limits": "kernel-limits",                   # a heading of a page that remains
    }

An old page without a document of its own is written as one that forwards; a page that still exists
forwards only those headings that left it. A target that is no document, or an old heading that a
page still has, is a warning.
"""

import json
from collections.abc import Iterator

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.osutil import relative_uri

_LOGGER = logging.getLogger(__name__)

# The part after # never reaches a server, so only the browser can tell where it should lead.
_SCRIPT = """\
(function () {{
  var moved = {moved};
  function follow() {{
    var target = moved[decodeURIComponent(location.hash.slice(1))] || moved[""];
    if (target) location.replace(target);
  }}
  addEventListener("hashchange", follow);
  follow();
}})();"""

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>This page has moved</title>
<link rel="canonical" href="{target}">
<noscript><meta http-equiv="refresh" content="0; url={target}"></noscript>
<script>{script}</script>
</head>
<body><p>This page has moved <a href="{target}">here</a>.</p></body>
</html>
"""


def _moved_from(app: Sphinx, page: str) -> dict[str, str]:
    """Where the headings of an old page are now, relative to it; "" stands for the page itself."""
    source = app.builder.get_target_uri(page)
    moved = {}
    for old, new in app.config.redirects.items():
        old_page, _, old_heading = old.partition("#")
        if old_page == page:
            document, _, heading = new.partition("#")
            target = relative_uri(source, app.builder.get_target_uri(document))
            moved[old_heading] = f"{target}#{heading}" if heading else target
    return moved


def _script(moved: dict[str, str]) -> str:
    return _SCRIPT.format(moved=json.dumps(moved))


def _headings(app: Sphinx, document: str) -> set[str]:
    headings = set()
    for section in app.env.get_doctree(document).findall(nodes.section):
        headings.update(section["ids"])
        if "slug" in section:  # what MyST links to
            headings.add(section["slug"])
    return headings


def _check(app: Sphinx, env) -> None:
    for old, new in app.config.redirects.items():
        old_page, _, old_heading = old.partition("#")
        document, _, heading = new.partition("#")
        if document not in env.found_docs:
            _LOGGER.warning("redirects: %r leads to %r, which is no document", old, document)
        elif heading and heading not in _headings(app, document):
            _LOGGER.warning("redirects: %r leads to %r, which is no heading", old, new)
        if old_page not in env.found_docs:
            continue
        if not old_heading or old_heading in _headings(app, old_page):
            _LOGGER.warning("redirects: %r has moved to %r, but is still there", old, new)


def _add_script(app: Sphinx, page: str, template: str, context: dict, doctree) -> None:
    moved = _moved_from(app, page)
    if moved and page in app.env.found_docs:
        app.add_js_file(None, body=_script(moved))


def _write_pages(app: Sphinx, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    for page in _gone_pages(app):
        moved = _moved_from(app, page)
        text = _PAGE.format(target=moved[""], script=_script(moved))
        path = app.outdir / app.builder.get_target_uri(page)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _gone_pages(app: Sphinx) -> Iterator[str]:
    for old in app.config.redirects:
        if "#" not in old and old not in app.env.found_docs:
            yield old


def setup(app: Sphinx) -> dict:
    app.add_config_value("redirects", {}, "html", (dict,))
    app.connect("env-check-consistency", _check)
    app.connect("html-page-context", _add_script)
    app.connect("build-finished", _write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
