"""Formulas as MathML, which browsers set by themselves: no script, no network, no fonts to load."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

# What the writers of formulas use and docutils does not know: sizes of brackets, which MathML finds itself, and dots.
_OTHERWISE = {r"\bigl": "", r"\bigr": "", r"\Bigl": "", r"\Bigr": "", r"\dots": r"\ldots"}


def _mathml(text: str, *, block: bool) -> str:
    for ours, theirs in _OTHERWISE.items():
        text = re.sub(re.escape(ours) + r"(?![a-zA-Z])", lambda _, to=theirs: to, text)
    return latex2mathml.tex2mathml(text, as_block=block)


def inline(translator: HTML5Translator, node: nodes.math) -> None:
    """A formula within a line."""
    translator.body.append(f'<span class="math">{_mathml(node.astext(), block=False)}</span>')
    raise nodes.SkipNode


def display(translator: HTML5Translator, node: nodes.math_block) -> None:
    """A formula on its own line."""
    translator.body.append(f'<div class="math">{_mathml(node.astext(), block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
