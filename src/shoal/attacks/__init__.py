"""Attacks on a published table: what an intruder would find, beside a naive guess and people who are not in it.

`shoal.attack` reads the tables and runs them; a page of the documentation explains each with a picture.
"""

from __future__ import annotations

from shoal.attacks._membership import allowed
from shoal.attacks._rates import Rate
from shoal.attacks._result import Attack, Attacks
from shoal.attacks._run import run_attacks
from shoal.attacks._tables import Tables, read_tables

__all__ = ["Attack", "Attacks", "Rate", "Tables", "allowed", "read_tables", "run_attacks"]
