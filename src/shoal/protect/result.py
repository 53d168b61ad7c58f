"""What comes out: the protected table and everything there is to say about it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from shoal import privacy
from shoal.engine.roles import Prepared
from shoal.microaggregation import Microaggregator
from shoal.schema import Schema


@dataclass(frozen=True, repr=False)
class Protection:
    """A protected table and everything there is to say about it.

    Attributes
    ----------
    frame : the same kind of table as came in
        What may be published.
    labels : array of int64
        The group of each row of `frame`.
    verdicts : tuple of Verdict
        The models checked on `frame`, all of them holding.
    figures : dict
        Loss and risk. Computed from the original: for the custodian only.
    settings : dict
        Method, parameters and roles: what is needed to repeat the run.
    schema : Schema
        The facts the run went by, guessed ones included.
    notes : tuple of str
        What was guessed, merged, dropped or left alone, one sentence each.
    original : polars.DataFrame
        The rows as they came, for the custodian's report.
    """

    frame: Any
    labels: np.ndarray
    verdicts: tuple[privacy.Verdict, ...]
    figures: dict[str, Any]
    settings: dict[str, Any]
    schema: Schema
    notes: tuple[str, ...]
    original: pl.DataFrame

    def __repr__(self) -> str:
        figures, settings = self.figures, self.settings
        return (
            f"<Protection: {figures['n_records']:,} records in {figures['n_groups']:,} groups of at least "
            f"{figures['smallest_group']} by {settings['method']}, {figures['information_loss']:.3f} % lost>"
        )

    def report(self, path: str | Path, *, public: bool = False) -> None:
        """Write the report as one HTML file; the public one leaves out what tells about the original."""
        from shoal.report import write_report

        write_report(self, path, public=public)


def settings_of(parts: list[Microaggregator], job: Prepared, choices: dict[str, Any]) -> dict[str, Any]:
    """What is needed to repeat the run."""
    estimator = parts[0]
    params = {
        name: value
        for name, value in estimator.get_params(deep=False).items()
        if name not in ("k", "progress")
    }
    return {
        "method": estimator.name,
        "k": estimator.k,
        "parameters": params,
        "columns": [column.name for column in job.quasi],
        "strata": job.strata,
        "weights": job.weight_name,
        "households": job.household,
        "sensitive": job.sensitive,
        "leave": job.left,
        **choices,
        "identifiers": dict.fromkeys(job.identifiers, choices["identifiers"]),
        # A search cut short by the clock is repeated by the number of proposals it made.
        "max_proposals": getattr(estimator, "n_proposals_", None) if len(parts) == 1 else None,
    }


def notes_of(parts: list[Microaggregator], job: Prepared, identifiers: str) -> list[str]:
    """What to know about the result as a whole: a search cut short, columns that are not protected."""
    notes = []
    if any(getattr(part, "interrupted_", False) for part in parts):
        notes.append("The search was interrupted: this is the best partition it had found.")
    left = [*job.sensitive, *job.left, *(name for name in (job.weight_name, job.household) if name)]
    if left:
        notes.append(f"Not protected, published as they are: {', '.join(left)}.")
    if job.identifiers:
        what = "dropped" if identifiers == "drop" else "replaced by keyed hashes"
        notes.append(f"Identifiers {what}: {', '.join(job.identifiers)}.")
    return notes
