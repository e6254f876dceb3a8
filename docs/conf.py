"""The site: pages in Markdown, and an API reference from the docstrings. `make docs` builds it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.inspect import stringify_signature

from fwshapley import __version__

project = "fwshapley"
author = "The fwshapley developers"
copyright = author  # noqa: A001 - Sphinx's name for it
version = release = __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
smartquotes_action = "D"  # dashes, but straight quotes: a quoted word is mostly an argument, as in "logit"

# Markdown. A link to a file of the repository, such as ../src/fwshapley/exact.py, gives the reader that file; a link
# to one that does not exist is a warning.
myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 3

# MathJax in one file that is part of the site, not fetched from another server: pages are whole without a network.
# Images made by LaTeX, or formulas drawn in advance by node, would ask for those programs.
MATHJAX = find_spec("sphinx-mathjax-offline")
if MATHJAX is None or MATHJAX.origin is None:
    raise ImportError("formulas need the package sphinx-mathjax-offline: pip install '.[docs]'")
mathjax_path = "tex-svg.js"
mathjax3_config = {"svg": {"scale": 0.9}}  # as large as the text around it
html_static_path = ["static", str(Path(MATHJAX.origin).parent / "static" / "mathjax" / mathjax_path)]

html_theme = "furo"
html_title = f"fwshapley {version}"
html_css_files = ["site.css"]
html_copy_source = False
copybutton_exclude = ".linenos, .gp, .go"  # prompts and output

# The reference.
autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
default_role = "py:obj"  # `grid` in a docstring leads to grid
napoleon_attr_annotations = False  # the signature of a dataclass has them
napoleon_use_ivar = True
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"


def write_types_as_in_the_code(
    _app: Sphinx,
    what: str,
    _name: str,
    thing: Callable[..., object],
    _options: object,
    signature: str | None,
    returns: str | None,
) -> tuple[str, str | None] | None:
    """Show `Array` and `Float[Tensor, "batch players"]`, not what they stand for."""
    if signature is None or what not in {"class", "function", "method"}:
        return None
    written = inspect.signature(getattr(thing, "__func__", thing))
    own = [each for each in written.parameters.values() if each.name not in {"self", "cls"}]
    arguments = stringify_signature(written.replace(parameters=own, return_annotation=inspect.Signature.empty))
    returned = None if what == "class" or returns is None else str(written.return_annotation)
    # A space in front of a single axis is for linters: Float[Tensor, " players"].
    return arguments.replace('" ', '"'), returned and returned.replace('" ', '"')


def read_as_on_a_terminal(
    _app: Sphinx, what: str, _name: str, thing: object, _options: object, lines: list[str]
) -> None:
    """Make "docs/math.md, eq. 3" a link to that page, keep |S| a size, and do not explain what a str is."""
    if what == "data" and "\n".join(lines).strip() == inspect.getdoc(type(thing)):
        lines.clear()
    linked = [line.replace("docs/math.md", ":doc:`docs/math.md </math>`") for line in lines]
    lines[:] = [re.sub(r"\|(\w+)\|", r"\|\1\|", line) for line in linked]
    if what in {"attribute", "data", "property"}:
        lines[:0] = ["..", ""]  # or napoleon takes what is before a colon for a type


def setup(app: Sphinx) -> None:
    """Have docstrings read so."""
    app.connect("autodoc-process-signature", write_types_as_in_the_code)
    app.connect("autodoc-process-docstring", read_as_on_a_terminal, priority=400)  # before napoleon
