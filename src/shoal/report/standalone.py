"""Pictures that stand by themselves: the report's drawings take their colours from a page, a file has none."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from markupsafe import Markup


@cache
def colours() -> str:
    """The page's colours on white paper, as declarations of CSS variables.

    Examples
    --------
    >>> from shoal.report.standalone import colours
    >>> "--series-6:" in colours()
    True
    """
    page = (files("shoal.report") / "templates" / "page.html.j2").read_text(encoding="utf-8")
    declared = page.partition(":root {")[2].partition("}")[0]
    return " ".join(re.findall(r"--[\w-]+: #\w+;", declared))


def standalone(picture: Markup) -> str:
    """An SVG file of its own from a picture made for a page.

    Examples
    --------
    >>> from markupsafe import Markup
    >>> from shoal.report.standalone import standalone
    >>> standalone(Markup('<svg viewBox="0 0 1 1"></svg>'))[:38]
    '<svg xmlns="http://www.w3.org/2000/svg'
    """
    head, _, rest = str(picture).partition(">")
    named = head if "xmlns=" in head else head.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    style = f"<style>svg {{ {colours()} background: #ffffff; font-family: system-ui, sans-serif }}</style>"
    return f"{named}>{style}{rest}"
