"""Sphinx configuration: builds without network, warnings are errors (`make docs`)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from generate import write_pages  # the generated pages' one source

from shoal import __version__

project = "Shoal"
author = "The Shoal maintainers"
project_copyright = "The Shoal maintainers"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "numpydoc"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "generated/*.md"]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
html_theme = "furo"
html_title = "Shoal"
html_static_path = ["_static"]
html_css_files = ["shoal.css"]
suppress_warnings = ["myst.header"]
# The pages work without network: formulas are plain text where no MathJax is at hand.
mathjax_path = "mathjax.js"

write_pages(Path(__file__).parent)
