"""Runs one session per step in a child of its own and kills it there with SIGKILL. Not a test itself."""

from __future__ import annotations

import os
import signal
import sys

import polars as pl

from shoal.dp.answering.answer import Answer
from shoal.dp.ledger.ledger import Ledger
from shoal.dp.session import Session
from shoal.schema import Column, Schema

SQL = "SELECT COUNT(*) FROM t WHERE age >= 40"


def run(where: str, secret: str, step: str, occurrence: int) -> Answer:
    seen = 0

    def hook(reached: str) -> None:
        nonlocal seen
        seen += reached == step
        if reached == step and seen == occurrence:
            os.kill(os.getpid(), signal.SIGKILL)

    schema = Schema({"age": Column("age", bounds=(0, 110))}, id=f"{step}-{occurrence}")
    frame = pl.DataFrame({"age": [20, 50, 70]})
    return Session(
        frame,
        schema,
        "dp",
        1.0,
        ledger=Ledger(where, secret=secret, _hook=hook),
        data_version="1",
        _hook=hook,
    ).ask(SQL, 0.25)


if __name__ == "__main__":
    Ledger(sys.argv[1], secret=sys.argv[2]).ready()  # the secret's mark is there before anything is killed
    for name in sys.argv[3:]:
        step, _, occurrence = name.partition(":")
        child = os.fork()
        if child == 0:
            run(sys.argv[1], sys.argv[2], step, int(occurrence))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(name, -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status), flush=True)
