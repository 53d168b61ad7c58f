"""The auditor: plays the distinguishing game against our own mechanisms.

It can only refute: a mechanism that it does not refute is not thereby proved. The proofs are in docs/theory.
"""

from __future__ import annotations

from shoal.audit._cases import CASES, MODES
from shoal.audit._game import ALPHA, STAGES, GameVerdict, Mechanism, play
from shoal.audit._intervals import INTERVALS, audit_intervals
from shoal.audit._outside import FILES, OUTSIDE, FilePair, as_number
from shoal.audit._run import Report, audit, audit_mechanisms
from shoal.audit._stated import STATED

__all__ = [
    "ALPHA",
    "CASES",
    "FILES",
    "INTERVALS",
    "MODES",
    "OUTSIDE",
    "STAGES",
    "STATED",
    "FilePair",
    "GameVerdict",
    "Mechanism",
    "Report",
    "as_number",
    "audit",
    "audit_intervals",
    "audit_mechanisms",
    "play",
]
