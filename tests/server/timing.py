"""The timing attack on a real server: is one person in the table? Told from how long answers take, on people held out.

Each person has two data sets on one server, one with and one without that person's row. The questions select that row
alone and ask for ten quantiles of it at the least epsilon, which is where the time of an earlier sampler told most.
A threshold on the time is learnt from half of the people and held against the other half.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

from .conftest import LiveServer

FIGURES = ", ".join(f"QUANTILE(income, 0.{i}5)" for i in range(10))
SCHEMA = """[table]
id = "{name}"
budget = 1000
version = "1"
[columns.age]
bounds = [0, 110]
step = 1
[columns.income]
bounds = [0, 100000]
"""


def timing_attack(
    folder: Path, slot: float | None, people: int = 10, questions: int = 30, together: int = 10
) -> dict[str, Any]:
    """Accuracy of who guesses presence from times; half is guessing.

    Parameters
    ----------
    folder : Path
    slot : float or None
        `slot_seconds` of the server; its default where None.
    people, questions : int
        Held-out people are half of them; so many questions about each, with and without the row.
    together : int
        Times of so many questions are taken together for one guess.
    """
    live = LiveServer(folder)
    rng = random.Random(7)
    rows = [(rng.randrange(18, 90), rng.randrange(1000, 99_000)) for _ in range(1000)]
    lines = ["[server]", 'ledger = "ledger.db"', 'accounts = "accounts.db"', "requests_per_minute = 60000"]
    lines += [] if slot is None else [f"slot_seconds = {slot}"]
    for person in range(people):
        for present in (0, 1):
            name = f"p{person}-{present}"
            table = [*rows, (100 + person % 10, 50_000 + person)] if present else rows
            text = "age,income\n" + "".join(f"{age},{income}\n" for age, income in table)
            (folder / f"{name}.csv").write_text(text)
            (folder / f"{name}.toml").write_text(SCHEMA.format(name=name))
            lines += [f'[datasets."{name}"]', f'file = "{name}.csv"', f'schema = "{name}.toml"']
    live.path.write_text("\n".join(lines) + "\n")
    token = live.book.add("mallory", "analyst")
    live.start()
    try:
        times = _times(live, token, people, questions, rng)
    finally:
        live.kill()
    return _judge(times, people, together) | {"slot_seconds": "default" if slot is None else slot}


def _times(
    live: LiveServer, token: str, people: int, questions: int, rng: random.Random
) -> dict[tuple[int, int], list[float]]:
    times: dict[tuple[int, int], list[float]] = {}
    order = [(person, present) for person in range(people) for present in (0, 1)]
    with live.http(token) as client:
        for turn in range(questions + 2):
            rng.shuffle(order)
            for person, present in order:
                where = f"age = {100 + person % 10} AND income = {50_000 + person} AND age > -{turn + 1}"
                body = {"sql": f"SELECT {FIGURES} FROM t WHERE {where}", "epsilon": 0.01}
                path, data = f"/api/v1/datasets/p{person}-{present}/ask", json.dumps(body)
                start = time.perf_counter()
                got = client.post(path, content=data, headers={"content-type": "application/json"})
                took = time.perf_counter() - start
                assert got.status_code == 200, got.text
                if turn >= 2:  # the first questions find nothing warmed up
                    times.setdefault((person, present), []).append(took)
    return times


def _judge(times: dict[tuple[int, int], list[float]], people: int, together: int) -> dict[str, Any]:
    def marks(person: int, present: int) -> list[float]:
        found = times[person, present]
        return [statistics.median(found[i : i + together]) for i in range(0, len(found), together)]

    taught, asked = range(people // 2), range(people // 2, people)
    known = [(mark, present) for person in taught for present in (0, 1) for mark in marks(person, present)]
    limits = sorted(mark for mark, _ in known)
    _, limit, slower = max(
        (
            sum(
                (mark > limit) == bool(present) if slower else (mark <= limit) == bool(present)
                for mark, present in known
            ),
            limit,
            slower,
        )
        for limit in limits
        for slower in (False, True)
    )
    guesses = [
        ((mark > limit) == slower) == bool(present)
        for person in asked
        for present in (0, 1)
        for mark in marks(person, present)
    ]
    accuracy = sum(guesses) / len(guesses)
    sides = [np.array([t for who in asked for t in times[who, side]]) for side in (0, 1)]
    rank = float((sides[1][:, None] > sides[0]).mean() + (sides[1][:, None] == sides[0]).mean() / 2)
    spread = 2 * (0.25 / len(guesses)) ** 0.5
    present, absent = (
        statistics.median(t for (_, p), each in times.items() if p == side for t in each) for side in (1, 0)
    )
    return {
        "accuracy on people held out": round(accuracy, 3),
        "guessing": f"0.5 +- {spread:.2f}",
        "guesses": len(guesses),
        "answer present slower than absent, single answers": f"{rank:.3f} (0.5 +- {2 * (len(sides[0]) * 6) ** -0.5:.3f})",
        "median ms, present and absent": [round(1000 * present, 2), round(1000 * absent, 2)],
    }
