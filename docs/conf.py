"""Configuration of the site: Markdown pages and an API reference from docstrings. `make docs` builds it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.domains.python import PyObject
from sphinx.util.inspect import stringify_signature

from fwshapley import __version__

project = "fwshapley"
author = "The fwshapley developers"
copyright = author  # noqa: A001 - the name that Sphinx expects
version = release = __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
smartquotes_action = "D"  # dashes only: quoted words are mostly arguments such as "logit"

# A link to a file of the repository, such as ../src/fwshapley/players.py, becomes a download link; a broken one is a
# warning.
myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 3

# MathJax as one file of the site, so that formulas appear without a network.
MATHJAX = find_spec("sphinx-mathjax-offline")
if MATHJAX is None or MATHJAX.origin is None:
    raise ImportError("the site needs sphinx-mathjax-offline for formulas: pip install '.[docs]'")
mathjax_path = "tex-svg.js"
mathjax3_config = {"svg": {"scale": 0.9}}  # the size of the surrounding text
html_static_path = ["static", str(Path(MATHJAX.origin).parent / "static" / "mathjax" / mathjax_path)]

html_theme = "furo"
html_title = f"fwshapley {version}"
html_css_files = ["site.css"]
html_copy_source = False
copybutton_exclude = ".linenos, .gp, .go"  # prompts and output

# The API reference.
autodoc_default_options = {
    "members": True,
    "exclude-members": "set_fit_request",  # made by scikit-learn
}
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
default_role = "py:obj"  # `grid` in a docstring is a link to grid
napoleon_attr_annotations = False  # they are in the signature of a dataclass
napoleon_use_ivar = True
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"


def shorten_signature(
    _app: Sphinx,
    what: str,
    _name: str,
    member: Callable[..., object],
    _options: object,
    signature: str | None,
    returns: str | None,
) -> tuple[str, str | None] | None:
    """Show types as written in the code, such as `Float[Tensor, "batch players"]`, instead of expanded aliases."""
    if signature is None or what not in {"class", "function", "method"}:
        return None
    source = inspect.signature(getattr(member, "__func__", member))
    parameters = [parameter for parameter in source.parameters.values() if parameter.name not in {"self", "cls"}]
    arguments = stringify_signature(source.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    annotation = None if what == "class" or returns is None else str(source.return_annotation)
    # Linters need a space before a single axis, as in Float[Tensor, " players"]; readers do not.
    return arguments.replace('" ', '"'), annotation and annotation.replace('" ', '"')


def adapt_docstring(_app: Sphinx, what: str, _name: str, member: object, _options: object, lines: list[str]) -> None:
    """Turn "docs/math.md" into a link, escape |S|, and drop the docstrings that constants inherit from str or tuple."""
    if what == "data" and "\n".join(lines).strip() == inspect.getdoc(type(member)):
        lines.clear()
    linked = [line.replace("docs/math.md", ":doc:`docs/math.md </math>`") for line in lines]
    lines[:] = [re.sub(r"\|(\w+)\|", r"\|\1\|", line) for line in linked]
    if what in {"attribute", "data", "property"}:
        lines[:0] = ["..", ""]  # otherwise napoleon reads the text before a colon as a type


def setup(app: Sphinx) -> None:
    """Connect the functions above to autodoc, and name attributes as in the docstrings."""
    for field in PyObject.doc_field_types:
        if field.name == "variable":
            field.label = "Attributes"
    app.connect("autodoc-process-signature", shorten_signature)
    app.connect("autodoc-process-docstring", adapt_docstring, priority=400)  # before napoleon
