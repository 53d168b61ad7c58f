"""Evidence about a run: what was asked for and found, attacks that were tried, and the dossier that holds it all."""

from __future__ import annotations

from shoal.evidence._attack import attack
from shoal.evidence._codebook import variables_of
from shoal.evidence._dossier import Dossier, dossier
from shoal.evidence._pack import Score, check_pack, score_pack, write_pack
from shoal.evidence._registry import registry_tiers
from shoal.evidence._run import Run, read_run, run_of_answer, run_of_protection, run_of_release

__all__ = [
    "Dossier",
    "Run",
    "Score",
    "attack",
    "check_pack",
    "dossier",
    "read_run",
    "registry_tiers",
    "run_of_answer",
    "run_of_protection",
    "run_of_release",
    "score_pack",
    "variables_of",
    "write_pack",
]
