"""The analyst's pages: choose a data set, ask it, look at answers."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

from fastapi import Request
from fastapi.responses import RedirectResponse, Response
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from shoal.dp.answer import Answer
from shoal.dp.heuristic import Reproduction
from shoal.errors import ParameterError, ShoalError
from shoal.server import api, pictures
from shoal.server.pages import escape_cell, render
from shoal.server.service import UnknownError

_ENTRY = re.compile("[0-9a-f]{16}")


def choose(request: Request) -> Response:
    """The data sets to ask; straight on where there is one."""
    names = api.service_of(request).open_to(request.state.visitor.name)
    if len(names) == 1:
        return RedirectResponse(f"/ask/{names[0]}", 303)
    service, who = api.service_of(request), request.state.visitor.name
    found = [(service.public(name), pictures.gauge(service.budget(name, who))) for name in names]
    return render(request, "choose.html.j2", datasets=found)


def ask_page(request: Request, dataset: str) -> Response:
    """The page to ask from."""
    return _ask_page(request, dataset, {"sql": "", "epsilon": "0.1", "mode": ""})


async def ask(request: Request, dataset: str) -> Response:
    """Ask from the page; a refusal comes back on the same page."""
    form = await request.form()
    typed = {name: str(form.get(name, "")) for name in ("sql", "epsilon", "mode")}
    answer, error, status = None, "", 200
    try:
        answer = await api.answered(request, dataset, _question(typed))
    except UnknownError:
        raise
    except ShoalError as problem:
        error, status = api.sentence_of(problem), problem.status
    return await run_in_threadpool(_ask_page, request, dataset, typed, answer, error, status)


def download(request: Request, dataset: str, name: str) -> Response:
    """Past answers as a file: `all.json`, or one entry such as `3f1a09c2d4e5b687.csv`."""
    stem, _, ending = name.rpartition(".")
    if ending not in ("csv", "json") or not (stem == "all" or _ENTRY.fullmatch(stem)):
        raise UnknownError("There is no such file.")
    service, who = api.service_of(request), request.state.visitor.name
    chosen = service.past(dataset, who, 1000) if stem == "all" else [service.held(dataset, who, stem)]
    if not chosen:
        raise UnknownError("There is no such answer of yours.")
    if ending == "json":
        facts = [
            {"query": each.query, "at": each.at, "answer": each.answer and each.answer.to_dict()}
            for each in chosen
        ]
        text, kind = json.dumps(facts if stem == "all" else facts[0], indent=1), "application/json"
    else:
        text, kind = _csv(chosen), "text/csv; charset=utf-8"
    return Response(
        text,
        media_type=kind,
        headers={"content-disposition": f'attachment; filename="answer-{stem}.{ending}"'},
    )


def _ask_page(
    request: Request,
    dataset: str,
    typed: dict[str, str],
    answer: Answer | Reproduction | None = None,
    error: str = "",
    status: int = 200,
) -> Response:
    service, who = api.service_of(request), request.state.visitor.name
    facts = service.public(dataset)
    try:
        budget, history = service.budget(dataset, who), service.past(dataset, who, 60)
    except ShoalError as problem:
        if problem.status < 500:
            raise
        budget, history, error = None, [], error or api.sentence_of(problem)
    shown = pictures.answer(answer) if answer is not None else None
    return render(
        request, "ask.html.j2", code=status, facts=facts, typed=typed, answer=answer, shown=shown, error=error,
        budget=budget, gauge=pictures.gauge(budget) if budget else "", history=history,
        newest=history[0].entry if history and history[0].answer is not None else None,
        slot=service.config.slot_seconds,
    )  # fmt: skip


def _question(typed: dict[str, str]) -> api.Question:
    try:
        amount = float(typed["epsilon"])
    except ValueError:
        raise ParameterError(f"'epsilon' must be a number. Got {typed['epsilon'][:40]!r}.") from None
    try:
        return api.Question(
            sql=typed["sql"], epsilon=amount, rho=None, error=None, mode=typed["mode"] or None
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise ParameterError(f"{str(first['loc'][0])!r} is not as expected: {first['msg']}.") from None


def _csv(chosen: list[Any]) -> str:
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(
        ["query", "figure", "value", "low", "high", "cut_low", "cut_high", "epsilon", "guarantee"]
    )
    for each in chosen:
        for figure in pictures.flat(each.answer) if each.answer is not None else []:
            ends = (figure.low, figure.high, *(figure.cut or (None, None)))
            words = [each.query, figure.label, figure.value, *ends, each.epsilon]
            writer.writerow([escape_cell(word) for word in (*words, each.answer.guarantee)])
    return file.getvalue()
