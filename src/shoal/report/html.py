"""Pages: facts and pictures in, one HTML file out that needs no network and no script."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from shoal import __version__
from shoal.io import check_page, write_text
from shoal.report import figures
from shoal.report.build import ReportFacts, gather
from shoal.report.columns import ColumnComparison
from shoal.report.sentences import ProtectionLike


@dataclass(frozen=True)
class Section:
    """A part of a page: its heading, a first sentence, and what follows.

    Plain texts are escaped; `Markup` (from `table`, `figure` or `shoal.report.figures`) is taken as it is.
    """

    title: str
    body: str | Markup
    lead: str = ""


def page(title: str, sections: Iterable[Section], *, mark: str = "", subtitle: str = "") -> str:
    """A whole page in the look of the reports.

    Parameters
    ----------
    title : str
    sections : iterable of Section
    mark : str, optional
        A word about who may see it, beside the title.
    subtitle : str, optional

    Examples
    --------
    >>> from shoal.report import Section, page, table
    >>> text = page("Methods", [Section("Figures", table(["method", "loss"], [["mdav <1>", 5.69]]))])
    >>> "mdav &lt;1&gt;" in text
    True
    """
    return (
        _environment()
        .get_template("sections.html.j2")
        .render(title=title, sections=list(sections), mark=mark, subtitle=subtitle, version=__version__)
    )


def table(
    header: Sequence[str], rows: Iterable[Sequence[Any]], *, caption: str = "", marked: Iterable[int] = ()
) -> Markup:
    """A table for a page: texts escaped, numbers to the right.

    Parameters
    ----------
    header : sequence of str
    rows : iterable of sequences
        Numbers, texts or Markup; the first cell heads its row.
    caption : str, optional
    marked : iterable of int, optional
        Positions of rows to set off.
    """
    listed = [list(row) for row in rows]
    numeric = {
        column
        for column in range(1, len(header))
        if any(row[column] != "" for row in listed) and all(_is_figure(row[column]) for row in listed)
    }
    # The template escapes every cell that is not Markup.
    return Markup(  # noqa: S704
        _environment()
        .get_template("table.html.j2")
        .render(header=header, rows=listed, caption=caption, marked=set(marked), numeric=numeric)
    )


def tiles(facts: Iterable[tuple[str, str]]) -> Markup:
    """A row of large figures, each with its name below."""
    each = Markup("<div><dt>{}</dt><dd>{}</dd></div>")
    return Markup('<dl class="tiles">{}</dl>').format(
        Markup("").join(each.format(name, value) for name, value in facts)
    )


def side_by_side(pictures: Iterable[Markup]) -> Markup:
    """Pictures beside each other where there is room, else one below the other."""
    return Markup('<div class="pair">{}</div>').format(Markup("").join(pictures))


def _is_figure(cell: Any) -> bool:
    """Whether a cell holds a number, or a text that shows one, or nothing."""
    if isinstance(cell, str):
        return re.fullmatch(r"[-−]?[\d.,]*( ?%)?", cell) is not None
    return isinstance(cell, (int, float)) and not isinstance(cell, bool)


def figure(picture: Markup, caption: str = "", *, wide: bool = False) -> Markup:
    """A picture with its caption; a wide one scrolls sideways on a small screen."""
    words = Markup("<figcaption>{}</figcaption>").format(caption) if caption else ""
    kind = "figure wide" if wide else "figure"
    # What scrolls must be reachable by keyboard.
    box = Markup('<div class="picture"{}>').format(Markup(' tabindex="0"') if wide else "")
    return Markup('<figure class="{}">{}{}</div>{}</figure>').format(kind, box, picture, words)


def render_report(facts: ReportFacts) -> str:
    """The report as HTML text."""
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            facts=facts,
            sizes_picture=figures.group_sizes(facts.sizes, facts.k),
            comparisons=[(each, *_picture(each)) for each in facts.comparisons],
            indicators=_indicators(facts),
        )
    )


def write_report(protection: ProtectionLike, path: str | Path, *, public: bool = False) -> None:
    """Write the report of a protection as one HTML file.

    Parameters
    ----------
    protection : Protection
    path : str or Path
    public : bool, default False
        Leave out everything computed from the original: risk and loss figures, pictures of the original,
        notes of the run. The other report is for the custodian only.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import polars as pl, shoal
    >>> frame = pl.DataFrame({"age": [20, 21, 22, 60, 61, 62]})
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "report.html"
    >>> shoal.protect(frame, k=3, method="mdav").report(path, public=True)
    >>> "custodian only" in path.read_text().lower()
    False
    """
    check_page(path)  # before the work
    write_text(render_report(gather(protection, public=public)), path)


def _indicators(facts: ReportFacts) -> Markup | None:
    if facts.fitness is None:
        return None
    from shoal.report.indicators import indicators_body

    return indicators_body(facts.fitness)


def _picture(column: ColumnComparison) -> tuple[Markup, bool]:
    """The picture of a column, and whether its axis is compressed."""
    if column.levels:
        return figures.compare_levels(column.name, column.levels, column.before, column.after), False
    return figures.compare_numbers(column.name, column.before, column.after, dates=column.kind == "date")


@functools.cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("shoal.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
