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

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc", "formulas"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "generated/published-*.md", "generated/references-*.md"]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist", "attrs_block"]
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
html_math_renderer = "mathml"  # the pages work without network and script
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0a6480", "color-brand-content": "#0a6480"},
    "dark_css_variables": {"color-brand-primary": "#6cc9e6", "color-brand-content": "#6cc9e6"},
}

write_pages(Path(__file__).parent)
