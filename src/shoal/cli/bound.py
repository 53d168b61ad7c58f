"""`shoal bound`: how far from optimal a partition can be, proven."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli._console import names, print_json, progress
from shoal.cli._options import AsJson
from shoal.typing import Json

if TYPE_CHECKING:
    from shoal.bounds import Bound


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(bound)


def bound(
    file: Annotated[str, typer.Argument(help="The table of individuals.")],
    k: Annotated[int, typer.Option("-k", "--k", help="Smallest group.")] = 5,
    labels: Annotated[
        str | None, typer.Option(help="File with the group of each record: the partition to judge.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="Columns to use, separated by commas; otherwise all numeric ones.")
    ] = None,
    effort: Annotated[
        str,
        typer.Option(help="cheap, default (about what is printed first), optimal (ten minutes), or seconds."),
    ] = "default",
    json: AsJson = False,
) -> None:
    """Prove a lower bound on the information loss, and show how close a partition is to it.

    Example: shoal bound census.csv -k 3 --labels groups.csv
    """
    from shoal.bounds import forecast, information_loss_bound, partition_loss
    from shoal.engine.frame import Frame
    from shoal.io import read_table

    table = read_table(file)
    chosen = names(columns)
    if chosen is not None:
        Frame(table).require(chosen)
        table = table.select(chosen)
    given = None if labels is None else _read_labels(labels)
    loss = None if given is None else partition_loss(table, given, k)
    used = Frame(table).numeric_columns()
    plan = forecast(len(table), len(used), k, _as_effort(effort))
    if used and len(table) >= k:
        typer.echo(plan, err=True)
    with progress() as tell:
        tell("nearest neighbours")
        found = information_loss_bound(
            table,
            k,
            _as_effort(effort),
            labels=given,
            progress=lambda stage, value: tell(f"{stage}: at least {value:.4f} %"),
        )
    facts = {**_facts(found, loss, k, len(table)), "columns": list(used)}
    if json:
        print_json(facts)
    else:
        typer.echo(_words(facts, given_partition=given is not None))


def _facts(found: Bound, loss: float | None, k: int, n_records: int) -> Json:
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


def _words(facts: Json, *, given_partition: bool) -> str:
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
    lines.append(
        f"Columns: {', '.join(facts['columns'])}; a loss that was measured on others is no match for this bound."
    )
    lines.append(f"Method: {facts['method']}, {facts['seconds']:.1f} s.")
    if facts["note"]:
        lines.append(facts["note"])
    return "\n".join(lines)


def _read_labels(path: str) -> Any:
    """The column called label or group, or the only one."""
    from shoal.errors import InputError
    from shoal.io import read_table

    table = read_table(path)
    called = [name for name in table.columns if name in ("label", "labels", "group")]
    if len(called) != 1 and len(table.columns) != 1:
        raise InputError(
            f"The labels file must have one column, or one called 'label'. It has: {', '.join(table.columns)}."
        )
    return table[(called or table.columns)[0]].to_numpy()


def _as_effort(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text
