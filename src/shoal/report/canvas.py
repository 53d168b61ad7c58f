"""One canvas for all pictures: matplotlib's axes in, a small SVG out that takes its colours from the page.

Pictures are drawn in marker colours which become CSS variables, so that one file serves light, dark and
paper. Texts stay texts: they are small, can be searched, and are read aloud.
"""

from __future__ import annotations

import io
import re
import threading
import unicodedata
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

# Marker colours, each standing for a variable of the page's style.
INK, MUTED, RULE, CARD, BEFORE, AFTER = "#010101", "#010102", "#010103", "#010104", "#010105", "#010106"
SERIES = ("#010111", "#010112", "#010113", "#010114", "#010115", "#010116")
_VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    RULE: "--rule",
    CARD: "--card",
    BEFORE: "--before",
    AFTER: "--after",
} | {colour: f"--series-{position}" for position, colour in enumerate(SERIES, 1)}

POINTS = 72  # matplotlib's units to the inch, so that sizes below read as pixels
TEXT = 11

_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.size": TEXT,
    "text.color": INK,
    "text.parse_math": False,
    "axes.facecolor": "none",
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.unicode_minus": True,
    "axes.formatter.use_mathtext": False,
    "axes.axisbelow": True,
    "figure.facecolor": "none",
    "grid.color": RULE,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "xtick.minor.size": 2,
    "ytick.minor.size": 0,
    "legend.frameon": False,
    "legend.fontsize": TEXT,
}
# matplotlib keeps its settings in one place for the whole process: pictures take turns.
_TURN = threading.RLock()
_FONT = re.compile(r"font-family:[^;]*;?\s*|font:[^;]*?(?=[\d.]+px)")
_LONG_NUMBER = re.compile(r"(\d+\.\d{2})\d+")


@contextmanager
def drawing() -> Iterator[None]:
    """Draw with the settings of this file, whatever the process has set; they are put back afterwards."""
    with _TURN, mpl.rc_context(), warnings.catch_warnings():
        # Letters that the measuring font lacks are drawn by the reader's own fonts.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        yield


def canvas(width: float, height: float, left: float, bottom: float, right: float = 8, top: float = 8) -> Axes:
    """Give axes on a picture of this many pixels, with margins in pixels."""
    figure = Figure(figsize=(width / POINTS, height / POINTS), dpi=POINTS)
    return figure.add_axes(
        (left / width, bottom / height, (width - left - right) / width, (height - bottom - top) / height)
    )


def to_svg(axes: Axes, label: str, tips: Mapping[str, str] | None = None) -> Markup:
    """Write the picture as SVG for a page.

    Parameters
    ----------
    axes : Axes
        From `canvas`, drawn on within `drawing`.
    label : str
        What the picture shows, for those who hear it.
    tips : mapping of str to str, optional
        Words shown over the parts that were drawn with this `gid`.
    """
    out = io.BytesIO()
    picture = axes.get_figure(root=True)
    assert picture is not None
    # Names inside the SVG must differ between the pictures of one page, and be the same in every run.
    mpl.rcParams["svg.hashsalt"] = label
    FigureCanvasSVG(picture).print_svg(out, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    root = ElementTree.fromstring(out.getvalue())  # noqa: S314 - written by ourselves a line above
    for unit in ("width", "height", "version"):
        root.attrib.pop(unit, None)
    _tidy(root, tips or {})
    root.attrib |= {
        # All pictures of a page grow alike, so that their texts have one size.
        "style": f"max-width: {1.25 * POINTS * picture.get_figwidth():.0f}px",
        "role": "img",
        "aria-label": clean(label, 2000),
        "stroke-linejoin": "round",
        "stroke-linecap": "butt",
    }
    # The text comes from a serialiser that escapes what was data.
    return Markup(ElementTree.tostring(root, encoding="unicode"))  # noqa: S704


def _tidy(element: ElementTree.Element, tips: Mapping[str, str]) -> None:
    """Strip what a page does not need, and put variables in the place of marker colours."""
    element.tag = element.tag.rpartition("}")[2]
    attributes = {name.rpartition("}")[2]: value for name, value in element.attrib.items()}
    element.attrib.clear()
    name = attributes.get("id", "")
    if element.tag == "g":
        attributes.pop("id", None)
    if attributes.get("transform", "").startswith("rotate(-0 "):
        del attributes["transform"]
    for key in ("d", "x", "y", "transform"):
        if key in attributes:
            attributes[key] = _LONG_NUMBER.sub(r"\1", " ".join(attributes[key].split()))
    if "style" in attributes:
        attributes["style"] = _style(attributes["style"])
    element.attrib.update(attributes)
    if element.tag != "text":
        element.text = None
    element.tail = None
    for child in list(element):
        kind = child.tag.rpartition("}")[2]
        if kind == "metadata" or (kind == "defs" and len(child) and child[0].tag.endswith("style")):
            element.remove(child)
        else:
            _tidy(child, tips)
    if name in tips:
        title = ElementTree.Element("title")
        title.text = clean(tips[name], 400)
        element.insert(0, title)


def _style(style: str) -> str:
    for colour, variable in _VARIABLES.items():
        style = style.replace(colour, f"var({variable})")
    return _FONT.sub("", style).strip().removesuffix(";")


def clean(text: Any, length: int = 24) -> str:
    """A value as words for a picture: on one line, without control characters, its middle left out if long.

    Examples
    --------
    >>> from shoal.report.canvas import clean
    >>> clean("occupation number 17", 12)
    'occupa…er 17'
    """
    words = str(text)
    if len(words) > length:
        tail = (length - 1) // 2
        words = words[: length - 1 - tail] + "…" + words[-tail:]
    return "".join(
        " " if letter.isspace() else "\N{REPLACEMENT CHARACTER}" if _is_control(letter) else letter
        for letter in words
    )


def _is_control(letter: str) -> bool:
    return unicodedata.category(letter) in ("Cc", "Cs", "Cf", "Co", "Cn")


def short(value: float) -> str:
    """A number for an axis: 1.5k, 20M, -3, 0.25."""
    size = abs(value)
    for unit, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if unit <= size < 1e15:
            return f"{value / unit:.3g}{letter}".replace("-", "−")
    return f"{value:.3g}".replace("-", "−")


def grid(axes: Axes, ticks: Sequence[float] | None = None) -> None:
    """Light horizontal lines, and no line at the left."""
    axes.grid(visible=True, axis="y")
    axes.spines["left"].set_visible(False)
    if ticks is not None:
        axes.set_yticks(ticks)
