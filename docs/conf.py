"""How the site is built from the pages of this folder, by Sphinx: ``make docs``.

The pages are Markdown that reads well without it, too. What they link to outside this folder and
the site has as a page of its own is turned to that page here.
"""

from __future__ import annotations

import rematsim

project = "rematsim"
author = "the rematsim authors"
copyright = author  # noqa: A001 (Sphinx's name)
release = rematsim.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["traces/**"]
nitpicky = False

# Markdown as GitHub reads it: anchors of headings, definition lists for the glossary.
myst_heading_anchors = 3
myst_enable_extensions = ["deflist", "colon_fence"]

autodoc_typehints = "none"  # numpydoc's sections say it
autodoc_member_order = "bysource"
autodoc_mock_imports = ["torch"]  # capturing is documented, not run
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_param = False
napoleon_use_ivar = True

# Everything is in the site: no fonts, styles or scripts of other hosts.
html_theme = "furo"
html_title = "rematsim"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "monokai"

# Files beside this folder that are pages here.
PAGES = {"../traces/data/README.md": "bundled-traces.md", "../DESIGN.md": "design.md"}


def turn_links(app, docname, source):
    """Turn links to files outside this folder to the pages that include them."""
    for file, page in PAGES.items():
        source[0] = source[0].replace(f"]({file}", f"]({page}")


def setup(app):
    """Connect to the reading of pages."""
    app.connect("source-read", turn_links)
