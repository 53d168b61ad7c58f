"""Evidence about a run: what was asked for and found, attacks that were tried, and the dossier that holds it all."""

from __future__ import annotations

from shoal.evidence._attack import attack
from shoal.evidence._run import Run, read_run, run_of_answer, run_of_protection, run_of_release

__all__ = ["Run", "attack", "read_run", "run_of_answer", "run_of_protection", "run_of_release"]
