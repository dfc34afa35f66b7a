"""How the documentation is built: `make docs`."""

import os
import re
import sys
from pathlib import Path

import kandle

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "Kandle"
author = "The Kandle developers"
copyright = author
version = release = kandle.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "commands",
    "mathml",
    "redirects",
]
exclude_patterns = ["_build", "**/.ipynb_checkpoints"]
myst_enable_extensions = ["deflist", "dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 3
html_math_renderer = "mathml"

# Notebooks are executed, each in a folder of its own, when they or the build folder are new. An
# error ends the build.
nb_execution_mode = "cache"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 240
nb_merge_streams = True
# The notebooks call the program of this environment, whose output fits the page.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
os.environ["COLUMNS"] = "100"
os.environ["NO_COLOR"] = "1"

# Old addresses of pages and headings, and where their text is now.
redirects = {
    "tables": "reference/tables",
    "tables#what-a-fit-does": "reference/tables#what-a-fit-does",
    "tables#how-good-it-is-and-where-it-is-not": "benchmarks#tables-of-data",
    "tables#columns": "reference/tables#columns",
    "tables#settings-for-a-table": "reference/tables#settings-for-a-table",
    "which-initialization#optimizers": "which-initialization-tables#optimizers",
    "which-initialization#bases": "which-initialization-tables#bases",
    "which-initialization#without-a-residual-function": (
        "which-initialization-tables#without-a-residual-function"
    ),
    "which-initialization#how-it-was-measured": "which-initialization-tables#how-it-was-measured",
}

copybutton_prompt_text = r">>> |\$ "
copybutton_prompt_is_regexp = True

# `widths` belongs to the networks of JAX and of PyTorch; a field of that name links to neither.
suppress_warnings = ["ref.python"]

html_theme = "furo"
html_title = "Kandle"
html_static_path = ["_static"]
html_css_files = ["kandle.css"]

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
