"""How the documentation is built: `make docs`."""

import re

import kandle

project = "Kandle"
author = "The Kandle developers"
copyright = author
version = release = kandle.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
]
exclude_patterns = ["_build"]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 3

# `widths` belongs to the networks of JAX and of PyTorch; a field of that name links to neither.
suppress_warnings = ["ref.python"]

html_theme = "furo"
html_title = "Kandle"

autodoc_member_order = "bysource"
autodoc_typehints = "none"
# A private module is where a name is defined, never where it is used from.
add_module_names = False
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True


def _as_restructured_text(app, what, name, obj, options, lines):
    """Docstrings are plain text with `code` and indented equations; make both say so in reST."""
    text, paragraph, literal = [], "", False
    for line in lines:
        indented = line.startswith("    ")
        after_blank = not text or not text[-1].strip()
        if indented and not literal and after_blank and paragraph and paragraph[0] != " ":
            text += ["::", ""]
            literal = True
        elif line.strip() and not indented:
            literal = False
        if line.strip():
            paragraph = line
        if not literal and not line.lstrip().startswith(">>>"):
            line = re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", line).replace("|", r"\|")
        text.append(line)
    lines[:] = text


def setup(app):
    # Before napoleon reads the sections.
    app.connect("autodoc-process-docstring", _as_restructured_text, priority=100)
