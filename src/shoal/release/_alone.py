"""Pictures that stand by themselves: the report's drawings take their colours from a page, a file has none."""

from __future__ import annotations

from markupsafe import Markup

COLOURS = (
    "--ink: #15202b; --muted: #52606d; --rule: #dde3e9; --card: #ffffff; --before: #b4bfca; --after: #0b7a9b; "
    "--series-1: #0b7a9b; --series-2: #b3541e; --series-3: #5b4bb5;"
)
_STYLE = f"<style>svg {{ {COLOURS} background: #ffffff; font-family: system-ui, sans-serif }}</style>"


def alone(picture: Markup) -> str:
    """An SVG file of its own from a picture made for a page.

    Examples
    --------
    >>> from markupsafe import Markup
    >>> from shoal.release._alone import alone
    >>> alone(Markup('<svg viewBox="0 0 1 1"></svg>'))[:38]
    '<svg xmlns="http://www.w3.org/2000/svg'
    """
    head, _, rest = str(picture).partition(">")
    named = head if "xmlns=" in head else head.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    return f"{named}>{_STYLE}{rest}"
