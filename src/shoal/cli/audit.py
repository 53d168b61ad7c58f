"""`shoal audit-mechanism`: try to break our own mechanisms."""

from __future__ import annotations

from typing import Annotated

import typer

from shoal.cli._console import print_json
from shoal.cli._options import AsJson

MODES = (
    "dp",
    "group",
    "correlated",
    "zcdp",
    "heuristic",
    "pufferfish",
    "dependent",
    "streams",
    "keys",
    "outside",
    "http",
    "intervals",
    "workload",
    "release",
    "marginals",
    "graph",
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("audit-mechanism")(audit_mechanism)


def audit_mechanism(
    mode: Annotated[
        str,
        typer.Option(help=f"{', '.join(MODES[:-1])} or {MODES[-1]}."),
    ] = "dp",
    runs: Annotated[int, typer.Option(help="Runs of the last stage.")] = 16_000,
    as_json: AsJson = False,
) -> None:
    """Play the distinguishing game against a mode. It can refute a claim, never prove one.

    Example: shoal audit-mechanism --mode heuristic
    """
    from shoal.audit import audit
    from shoal.errors import ParameterError

    if mode not in MODES:
        raise ParameterError(f"'mode' must be one of {', '.join(MODES)}. Got {mode!r}.")
    if runs < 100:
        raise ParameterError(f"'runs' must be an int of at least 100. Got {runs}.")
    stages = [stage for stage in (1_000, 4_000, 16_000, 64_000) if stage < runs] + [runs]
    if mode in ("release", "marginals", "graph"):
        from shoal.release import audit_releases

        report = audit_releases(mode, stages=stages)
    elif mode == "http":
        from shoal.server.audit import audit_http

        report = audit_http()
    else:
        report = audit(mode, stages=stages)
    if as_json:
        print_json(report.to_dict())
    elif report.witness is not None and report.mode == "intervals":
        seen = report.witness
        typer.echo(f"{report.mode}: refuted. An interval of 95 % may miss in 5 % of answers.")
        typer.echo(f"witness: {seen.name}: missed in {seen.hits} of {seen.of} (p = {seen.p_value:.2g})")
    elif report.mode == "intervals":
        typer.echo(f"intervals: not refuted in {len(report.verdicts)} cases. This proves nothing.")
    elif report.witness is not None:
        seen = report.witness
        word = "rho" if report.mode == "zcdp" else "epsilon"
        typer.echo(
            f"{report.mode}: refuted. It claims {word} {report.epsilon}; it is at least "
            f"{report.epsilon_lower_bound:.3f}."
        )
        typer.echo(
            f"witness: {seen.name}: if {seen.event}, guess table {seen.guess}: right in {seen.hits} "
            f"of {seen.of} cases ({seen.runs} fresh runs, p = {seen.p_value:.2g})"
        )
    else:
        typer.echo(
            f"{report.mode}: not refuted in {len(report.verdicts)} cases; the largest lower bound is "
            f"{report.epsilon_lower_bound:.3f} for a claim of {report.epsilon}. This proves nothing."
        )
    if report.refuted and mode != "heuristic":
        raise typer.Exit(1)
