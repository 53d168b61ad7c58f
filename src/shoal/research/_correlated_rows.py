"""The figures of the correlated experiments, their table and their pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.research._pictures import build_seconds
from shoal.research._rows import CLAIM_HEADER, ReproducedTable, cell_text
from shoal.typing import Json

# Ends of the names of methods over another preprocessing than min-max.
SUFFIXES = (" (z)", " (raw)")
# The dissertation's pictures of answers, each of an approach beside the one before it.
ANSWERS = {
    "figure-13": ("baseline", "approach 1"),
    "figure-15": ("approach 1", "approach 2"),
    "figure-18": ("approach 2", "approach 3"),
}


@dataclass(frozen=True)
class Measured:
    """One figure of the correlated experiments.

    Attributes
    ----------
    experiment : {"tables", "error", "dbscan eps", "build", "queries"}
    data, method : str
    figure : str
        COUNT, SUM or AVG, or what was counted or timed.
    x : float or None
        The noise parameter or epsilon, or DBSCAN's eps.
    ours : float
        Mean relative error, or seconds.
    guarantee : str
        "none" for the dissertation's mechanism.
    extra : dict
    published : float or None
        None where the dissertation prints no number: its errors and seconds are pictures.
    """

    experiment: str
    data: str
    method: str
    figure: str
    x: float | None
    ours: float
    guarantee: str = "none"
    extra: Json = field(default_factory=dict)
    published: float | None = None

    @property
    def difference(self) -> float | None:
        """How far ours lies from the printed figure, in per cent of it; None for what was given rather than found."""
        if self.published is None or "given" in self.extra:
            return None
        return 100.0 * (self.ours - self.published) / self.published

    @property
    def cell(self) -> tuple[Any, ...]:
        """What the printed figure belongs to; several readings of it share this."""
        return (self.experiment, self.data, self.figure)

    def to_dict(self) -> Json:
        """The facts as plain values."""
        return {
            "experiment": self.experiment,
            "data": self.data,
            "method": self.method,
            "figure": self.figure,
            "x": self.x,
            "published": self.published,
            "ours": self.ours,
            "difference_percent": self.difference,
            "guarantee": self.guarantee,
        } | self.extra


@dataclass(frozen=True)
class CorrelatedReproduction(ReproducedTable):
    """The dissertation's experiments, run again.

    Attributes
    ----------
    rows : tuple of Measured
    answers : dict
        Per table and method, true and noisy answers of the COUNT queries at parameter 1. Computed from the
        table itself: for its owner.
    """

    rows: tuple[Any, ...]
    answers: dict[str, dict[str, tuple[list[float], list[float]]]] = field(default_factory=dict)

    def to_dict(self) -> Json:
        """The facts as plain values."""
        facts = super().to_dict()
        facts["answers"] = {
            data: {method: {"true": true, "noisy": noisy} for method, (true, noisy) in by.items()}
            for data, by in self.answers.items()
        }
        return facts

    def header(self) -> list[str]:
        """Names of the columns of the table."""
        return ["experiment", "data", "method", "figure", "x", "published", "ours", "guarantee", "notes"]

    def cells(self) -> list[list[str]]:
        """The table as texts."""
        return [
            [
                row.experiment,
                row.data,
                row.method,
                row.figure,
                cell_text(row.x),
                cell_text(row.published),
                cell_text(row.ours),
                row.guarantee,
                ", ".join(f"{name} {cell_text(value)}" for name, value in row.extra.items()),
            ]
            for row in self.rows
        ]

    def pictures(self) -> Json:
        """The pictures as SVG, by name: error against epsilon and eps, true against noisy, seconds."""
        from shoal.report.figures import lines

        made = {}
        for data in dict.fromkeys(row.data for row in self.rows):
            for figure, which in (
                ("COUNT", ""),
                ("SUM", ""),
                ("AVG", ""),
                ("COUNT", " (z)"),
                ("COUNT", " (raw)"),
            ):
                found = _series(self.rows, "error", data, figure, which)
                if found:
                    made[f"{data}-error-{figure.lower()}{'-' + which.strip(' ()') if which else ''}"] = lines(
                        found,
                        x_label="epsilon (noise parameter where nothing is guaranteed)",
                        y_label="mean relative error",
                        log_x=True,
                        log_y=True,
                        label=f"{data}, {figure}{which}: mean relative error against epsilon.",
                    )
            made[f"{data}-dbscan"] = lines(
                _series(self.rows, "dbscan eps", data, "COUNT"),
                x_label="eps of DBSCAN",
                y_label="mean relative error",
                log_y=True,
                label=f"{data}: mean relative error of COUNT against DBSCAN's eps.",
            )
            made |= self._answers(data)
            if any((row.experiment, row.data) == ("build", data) for row in self.rows):
                made[f"{data}-figure-19"] = build_seconds(self.rows, data)
        return made

    def _answers(self, data: str) -> Json:
        """Figures 13, 15 and 18: answers plus absolute noise against true answers, two methods at a time; the sound modes apart."""
        from shoal.report.figures import Series, lines

        made, by = {}, self.answers.get(data, {})
        guaranteed = tuple(dict.fromkeys(row.method for row in self.rows if row.guarantee != "none"))
        for name, wanted in (*ANSWERS.items(), ("answers-guaranteed", guaranteed)):
            dots = [
                Series(method, by[method][0], _away(*by[method]), joined=False)
                for method in wanted
                if method in by
            ]
            if dots:
                ends = [min(min(each.x) for each in dots), max(max(each.x) for each in dots)]
                made[f"{data}-{name}"] = lines(
                    [*dots, Series("true answer", ends, ends)],
                    x_label="true answer",
                    y_label="true answer plus absolute noise",
                    label=f"{data}: COUNT plus the size of its noise against the true answer, epsilon 1.",
                )
        return made

    def to_html(self) -> str:
        """Claims, pictures, table and notes as one HTML page."""
        from markupsafe import Markup

        from shoal.report import Section, figure, page, table

        verdicts = table(CLAIM_HEADER, self.verdicts())
        drawn = Markup("").join(figure(svg, name, wide=True) for name, svg in self.pictures().items())
        sections = [
            Section("What the dissertation claims", verdicts),
            Section("Pictures", drawn, lead="Computed from the tables themselves: for their owner."),
            Section(self.title, table(self.header(), self.cells())),
            *(Section("Note", note) for note in self.notes),
        ]
        return page(
            "Correlated records, run again",
            sections,
            mark="owner only",
            subtitle="shoal reproduce correlated",
        )


def _series(rows: Sequence[Measured], experiment: str, data: str, figure: str, suffix: str = "") -> list[Any]:
    """Points of each method, of those alone whose names end in `suffix`."""
    from shoal.report.figures import Series

    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        ending = next((each for each in SUFFIXES if row.method.endswith(each)), "")
        if (
            ending == suffix
            and (row.experiment, row.data, row.figure) == (experiment, data, figure)
            and row.x is not None
        ):
            found.setdefault(row.method, []).append((row.x, max(row.ours, 1e-9)))
    return [
        Series(method, [x for x, _ in sorted(points)], [y for _, y in sorted(points)])
        for method, points in found.items()
    ]


def _away(true: Sequence[float], noisy: Sequence[float]) -> list[float]:
    """The true answers moved up by the size of their noise."""
    return [f + abs(given - f) for f, given in zip(true, noisy, strict=True)]
