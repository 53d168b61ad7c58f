"""Each attack as a picture: forty people in two columns, published in groups of five."""

from __future__ import annotations

import functools

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from shoal.microaggregation import MDAV
from shoal.report.canvas import AFTER, BEFORE, INK, MUTED, SERIES, canvas, drawing, to_svg

K = 5


@functools.cache
def _tables() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """People, the published rows, and people who are not in the table."""
    rng = np.random.default_rng(4)
    people = rng.normal(size=(40, 2)) @ np.array([[1.0, 0.5], [0.0, 0.8]])
    labels = MDAV(k=K).fit(people).labels_
    rows = np.stack([people[labels == label].mean(axis=0) for label in labels])
    return people, rows, rng.normal(size=(40, 2)) @ np.array([[1.0, 0.5], [0.0, 0.8]])


def _plain(axes: Axes, x: str, y: str) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.margins(0.12)


def _people(axes: Axes) -> None:
    people, rows, _ = _tables()
    axes.plot(*people.T, "o", color=BEFORE, markersize=6, label="people")
    axes.plot(
        *np.unique(rows, axis=0).T, "s", color=AFTER, markersize=8, label=f"published rows, {K} or more each"
    )
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2, labelcolor=INK)


def singling_out() -> str:
    """A condition read off a published row, and who meets it."""
    people, rows, _ = _tables()
    row = rows[rows.sum(axis=1).argmax()]
    inside = (people >= row).all(axis=1)
    with drawing():
        axes = canvas(560, 320, left=40, bottom=36, top=30, right=16)
        _people(axes)
        _plain(axes, "income", "rent")
        high = people.max(axis=0) + 0.4
        axes.add_patch(Rectangle(tuple(row), *(high - row), facecolor=SERIES[1], alpha=0.18, linewidth=0))
        axes.plot(*people[inside].T, "o", color=SERIES[1], markersize=8)
        axes.annotate("income and rent at least those\nof this published row", tuple(row), (-215, 26),
                      textcoords="offset points", color=SERIES[1])  # fmt: skip
        return str(
            to_svg(axes, f"A condition read off a published row, which {int(inside.sum())} people meet.")
        )


def linkability() -> str:
    """A person known by one column to one side and by the other to another: do both lead to one row."""
    people, rows, _ = _tables()
    different = np.unique(rows, axis=0)
    person = people[7]
    first = different[np.abs(different[:, 0] - person[0]).argmin()]
    second = different[np.abs(different[:, 1] - person[1]).argmin()]
    with drawing():
        axes = canvas(560, 320, left=40, bottom=36, top=30, right=16)
        axes.plot(*different.T, "s", color=AFTER, markersize=8, label="published rows")
        axes.axvline(
            person[0],
            color=SERIES[1],
            linewidth=1.6,
            linestyle=(0, (5, 3)),
            label="known to one side: income",
        )
        axes.axhline(
            person[1], color=SERIES[2], linewidth=1.6, linestyle=(0, (1.5, 1.5)), label="to the other: rent"
        )
        for row, colour, size in ((first, SERIES[1], 17), (second, SERIES[2], 23)):
            axes.plot(
                *row,
                "o",
                markersize=size,
                markerfacecolor="none",
                markeredgecolor=colour,
                markeredgewidth=1.6,
            )
        _plain(axes, "income", "rent")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=3, labelcolor=INK)
        met = "one row: linked" if np.array_equal(first, second) else "two rows: not linked"
        return str(to_svg(axes, f"The published rows nearest by either column are {met}."))


def inference() -> str:
    """The sensitive value of the nearest published rows is taken for the person's own."""
    people, rows, _ = _tables()
    different = np.unique(rows, axis=0)
    person = people[11]
    sick = np.arange(different.shape[0]) % 3 == 0
    nearest = different[((different - person) ** 2).sum(axis=1).argmin()]
    with drawing():
        axes = canvas(560, 320, left=40, bottom=36, top=30, right=16)
        axes.plot(*different[~sick].T, "s", color=AFTER, markersize=9, label="published rows, most are well")
        axes.plot(*different[sick].T, "D", color=SERIES[1], markersize=9, label="most are ill")
        axes.plot(*person, "o", color=INK, markersize=8, label="the person")
        axes.annotate(
            "", tuple(nearest), tuple(person), arrowprops={"arrowstyle": "->", "color": INK, "linewidth": 1.4}
        )
        _plain(axes, "income", "rent")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=3, labelcolor=INK)
        return str(to_svg(axes, "A person takes the sensitive value of the nearest published rows."))


def record_linkage() -> str:
    """Each person to the nearest published row: right where it is the own group, and then one in k."""
    people, rows, _ = _tables()
    different, of_row = np.unique(rows, axis=0, return_inverse=True)
    nearest = ((people[:, None, :] - different[None, :, :]) ** 2).sum(axis=2).argmin(axis=1)
    right = nearest == of_row.reshape(-1)
    with drawing():
        axes = canvas(560, 320, left=40, bottom=36, top=30, right=16)
        for person, target, own in zip(people, different[nearest], right, strict=True):
            axes.plot(*np.stack([person, target]).T, color=MUTED if own else SERIES[1], linewidth=1.0)
        _people(axes)
        _plain(axes, "income", "rent")
        words = f"{int(right.sum())} of {people.shape[0]} are led to the group of their own, and one of {K} there is right."
        return str(to_svg(axes, f"Lines from people to the nearest published rows. {words}"))


def membership() -> str:
    """How far people of the table and others are from the nearest published row."""
    people, rows, others = _tables()
    with drawing():
        axes = canvas(560, 240, left=40, bottom=40, top=30, right=16)
        for at, (group, name, colour) in enumerate(
            ((people, "in the table", AFTER), (others, "not in it", SERIES[1]))
        ):
            far = np.sqrt(((group[:, None, :] - rows[None, :, :]) ** 2).sum(axis=2).min(axis=1))
            axes.plot(np.sort(far), np.full(far.size, at) + np.linspace(-0.25, 0.25, far.size), "o", color=colour,
                      markersize=5, label=name)  # fmt: skip
        axes.set_yticks([])
        axes.set_ylim(-0.6, 1.6)
        axes.set_xlabel("distance from the nearest published row")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2, labelcolor=INK)
        return str(
            to_svg(axes, "Distances from the nearest published row of people in the table and of others.")
        )
