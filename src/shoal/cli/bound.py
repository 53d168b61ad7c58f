"""`shoal bound`: how far from optimal a partition can be, proven."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from shoal.bounds import Bound

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("bound")(bound)


def bound(
    file: Annotated[Path, typer.Argument(help="Table of individuals.")],
    k: Annotated[int, typer.Option("-k", help="Smallest group size.")],
    labels: Annotated[
        Path | None, typer.Option(help="CSV file with the group of each record, to be judged.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="Columns, separated by commas; otherwise all numeric.")
    ] = None,
    effort: Annotated[
        str, typer.Option(help="cheap, default (two minutes at most), optimal (ten), or seconds.")
    ] = ("default"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Prove a lower bound on the information loss, and the gap of a partition to it.

    Example: shoal bound census.csv -k 3 --labels groups.csv
    """
    from shoal.bounds import information_loss_bound, partition_loss
    from shoal.engine.frame import Frame
    from shoal.io import read_table

    table = read_table(file)
    if columns is not None:
        names = [name.strip() for name in columns.split(",")]
        Frame(table).require(names)
        table = table.select(names)
    given = None if labels is None else _read_labels(labels)
    loss = None if given is None else partition_loss(table, given, k)
    with _progress(silent=as_json) as progress:
        found = information_loss_bound(table, k, _as_effort(effort), labels=given, progress=progress)
    facts = _facts(found, loss, k, len(table))
    typer.echo(json.dumps(facts) if as_json else _words(facts, given_partition=given is not None))


def _facts(found: Bound, loss: float | None, k: int, n_records: int) -> dict[str, Any]:
    judged = found.information_loss if loss is None else loss
    return {
        "k": k,
        "n_records": n_records,
        "information_loss": judged,
        "bound": found.bound,
        "gap": None if judged is None else found.gap_of(judged),
        "proven": found.proven,
        "optimal": found.optimal
        and judged is not None
        and judged <= (found.information_loss or 0.0) * (1 + 1e-9),
        "best_known": found.information_loss,
        "method": found.method,
        "seconds": round(found.seconds, 3),
        "note": found.note,
    }


def _words(facts: dict[str, Any], *, given_partition: bool) -> str:
    lines = [
        f"No partition into groups of at least {facts['k']} loses less than {facts['bound']:.6g} % (proven)."
    ]
    if facts["information_loss"] is not None:
        whose = "The given partition" if given_partition else "The best partition met"
        lines.append(f"{whose} loses {facts['information_loss']:.6g} %.")
        if facts["optimal"]:
            lines.append("It is proven optimal.")
        else:
            lines.append(f"At most {facts['gap']:.3g} % of that could be saved by any other.")
    lines.append(f"Method: {facts['method']}, {facts['seconds']:.1f} s.")
    if facts["note"]:
        lines.append(facts["note"])
    return "\n".join(lines)


def _read_labels(path: Path) -> Any:
    """The column called label or group, or the only one."""
    from shoal.errors import InputError
    from shoal.io import read_table

    table = read_table(path)
    names = [name for name in ("label", "labels", "group") if name in table.columns] or list(table.columns)
    if len(names) > 1 and names == list(table.columns):
        raise InputError(
            f"The labels file must have one column, or one called 'label'. It has: {', '.join(names)}."
        )
    return table[names[0]].to_numpy()


def _as_effort(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


class _progress:  # noqa: N801  (used as a function, like contextlib's own)
    """A line on the terminal that tells the stage and the bound; nothing in a pipe."""

    def __init__(self, *, silent: bool) -> None:
        self._status: Any = None
        if not silent and sys.stderr.isatty():
            from rich.console import Console

            self._status = Console(stderr=True).status("Nearest neighbours")

    def __enter__(self) -> Callable[[str, float], None] | None:
        if self._status is None:
            return None
        self._status.start()
        return lambda stage, value: self._status.update(f"{stage}: at least {value:.4f} %")

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()
