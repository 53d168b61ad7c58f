"""The analyst's pages: choose a data set, put a question together or write it, look at answers and take them along."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData

from shoal.dp.answering.answer import Answer
from shoal.dp.past import Past
from shoal.dp.workload import WorkloadAnswer, statements
from shoal.errors import ParameterError, QueryError, ShoalError
from shoal.schema import Schema
from shoal.server import api, builder, charts, exports, pictures, shown, workloads
from shoal.server.accuracy import Forecast
from shoal.server.builder import Choice
from shoal.server.pages import render
from shoal.server.refusals import UnknownError, sentence_of
from shoal.server.words import words_of
from shoal.typing import Json

HISTORY = 30
USUAL = {"epsilon": "0.1", "rho": "0.001"}
"""What stands in the form before anything was typed."""
_ENTRY = re.compile("[0-9a-f]{16}")
_ENDINGS = {
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "ipynb": "application/x-ipynb+json",
}


@dataclass(frozen=True)
class AskForm:
    """What stands in the forms of the page."""

    sql: str = ""
    amount: str = ""
    error: str = ""
    mode: str = ""
    choice: Choice = field(default_factory=Choice)
    built: bool = False


def choose(request: Request) -> Response:
    """The data sets to ask; straight on where there is one."""
    service, who = api.service_of(request), request.state.visitor.name
    names = service.open_to(who)
    if len(names) == 1:
        return RedirectResponse(f"/ask/{quote(names[0], safe='')}", 303)
    found = [(service.public(name), pictures.gauge(service.budget(name, who))) for name in names]
    return render(request, "choose.html.j2", datasets=found)


def ask_page(request: Request, dataset: str, again: str = "", find: str = "", before: str = "") -> Response:
    """The page to ask from; with a past question in it where one is named."""
    typed = AskForm()
    if again:
        past = api.service_of(request).held(dataset, request.state.visitor.name, again)
        typed = AskForm(
            workloads.as_typed(past.query),
            f"{past.asked.value:g}" if past.asked else "",
            mode=past.mode or "",
        )
    return _ask_page(request, dataset, typed, find=find, before=before)


async def ask(request: Request, dataset: str) -> Response:
    """Ask from the page, or only see the price; a refusal comes back on the same page."""
    form = await request.form(max_files=0, max_fields=500)
    typed, answer, joint, error, status = _typed(form), None, None, "", 200
    told: Forecast | workloads.JointForecast | None = None
    wants_price = form.get("do") == "price"
    try:
        service = api.service_of(request)
        service.session(dataset)
        if typed.built:
            typed = replace(typed, sql=typed.choice.sql(_schema(request, dataset)))
        word, who = service.currency(dataset).word, request.state.visitor.name
        several = statements(typed.sql)
        if len(several) > 1 and not typed.built:
            wanted = _workload(several, typed, word)
            if wants_price:
                told = await run_in_threadpool(workloads.forecast_of, service, dataset, wanted, who)
            else:
                joint = await run_in_threadpool(workloads.answer_of, service, dataset, wanted, who)
        elif wants_price:
            question = _question(typed, word)
            told = await run_in_threadpool(api.forecast_of, service, dataset, question, who)
        else:
            answer = await run_in_threadpool(api.answered, request, dataset, _question(typed, word))
    except UnknownError:
        raise
    except ShoalError as problem:
        error, status = sentence_of(problem), problem.status
    if wants_price and "application/json" in request.headers.get("accept", ""):
        facts = {"sql": typed.sql, "error": error} | ({} if told is None else told.to_dict())
        return JSONResponse(facts)
    return await run_in_threadpool(
        _ask_page, request, dataset, typed, answer, error, status, told, joint=joint
    )


def words(request: Request, dataset: str) -> Response:
    """What can be completed, and what each column is: public facts."""
    schema = _schema(request, dataset)
    columns = [
        {"name": each.name, "kind": each.kind, "levels": [str(level) for level in each.levels or ()]}
        for each in schema.columns.values()
    ]
    linked = api.service_of(request).datasets[dataset].tables or {}
    found = words_of(schema, {name: each.schema for name, each in linked.items()})
    return JSONResponse({"words": [asdict(each) for each in found], "columns": columns})


def answer(request: Request, dataset: str, name: str) -> Response:
    """One past answer as a page, or past answers as a file: `all.json`, `3f1a09c2d4e5b687.csv`."""
    stem, _, ending = name.rpartition(".")
    service, who = api.service_of(request), request.state.visitor.name
    if not ending and not stem:
        raise UnknownError("There is no such file.")
    if _ENTRY.fullmatch(name):
        past = service.held(dataset, who, name)
        bought = shown.BoughtElsewhere.of(past.query, past.entry)
        if bought is not None:
            return RedirectResponse(f"/ask/{quote(dataset, safe='')}/{bought.page}", 303)
        return _answer_page(request, dataset, past)
    if stem == "all" and ending in ("csv", "json"):
        chosen = service.past(dataset, who, 1000)
        text = (
            exports.long_csv(chosen, service.currency(dataset).word)
            if ending == "csv"
            else json.dumps([exports.facts_of(each) for each in chosen], indent=1)
        )
        return _file(text, "answers", ending)
    if ending not in _ENDINGS or not _ENTRY.fullmatch(stem):
        raise UnknownError("There is no such file.")
    past = service.held(dataset, who, stem)
    if past.answer is None and (past.workload is None or ending == "ipynb"):
        raise UnknownError("This answer cannot be made again from the ledger; asking again is free.")
    return _file(_as(past, request, dataset, ending), f"answer-{stem}", ending)


async def call(request: Request, dataset: str, name: str) -> Response:
    """Give an answer a name; an empty one takes it away."""
    form = await request.form(max_files=0, max_fields=5)
    who = request.state.visitor.name
    past = await run_in_threadpool(api.service_of(request).held, dataset, who, name)
    await run_in_threadpool(
        request.app.state.names.call, who, dataset, past.entry, str(form.get("called", ""))
    )
    return RedirectResponse(f"/ask/{quote(dataset, safe='')}/answers/{past.entry}", 303)


def _as(past: Past, request: Request, dataset: str, ending: str) -> str:
    if ending == "json":
        return json.dumps(exports.facts_of(past), indent=1)
    if ending == "csv":
        return exports.csv_of(past)
    return exports.notebook_of(past, _site(request), dataset, past.mode)


def _file(text: str, stem: str, ending: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{stem}.{ending}"'}
    return Response(text, media_type=_ENDINGS[ending], headers=headers)


def _answer_page(request: Request, dataset: str, past: Past) -> Response:
    names = request.app.state.names.of(request.state.visitor.name, dataset)
    return render(
        request, "answer.html.j2", dataset=dataset, past=past, called=names.get(past.entry, ""),
        parts=_parts(past.answer), answer=past.answer, table=_table(past.answer), joint=past.workload,
        together=[] if past.workload is None else shown.together(past.workload), **_taken(request, dataset, past),
    )  # fmt: skip


def _ask_page(
    request: Request,
    dataset: str,
    typed: AskForm,
    given: shown.Given | None = None,
    error: str = "",
    status: int = 200,
    told: Forecast | workloads.JointForecast | None = None,
    find: str = "",
    before: str = "",
    joint: WorkloadAnswer | None = None,
) -> Response:
    service, who = api.service_of(request), request.state.visitor.name
    facts, schema = service.public(dataset), _schema(request, dataset)
    names = request.app.state.names.of(who, dataset)
    try:
        budget = service.budget(dataset, who)
        history = service.past(dataset, who, HISTORY + 1, text=find[:200], before=before or None)
    except ShoalError as problem:
        if problem.status < 500:
            raise
        budget, history, error = None, [], error or sentence_of(problem)
    entry = getattr(given, "entry", None)
    past = next((each for each in history if entry and each.entry == entry), None)
    if past is not None and isinstance(given, Answer):
        past = replace(past, answer=given)
    return render(
        request, "ask.html.j2", code=status, facts=facts, typed=typed, answer=given, parts=_parts(given),
        table=_table(given), error=error, told=told, budget=budget, gauge=pictures.gauge(budget) if budget else "",
        history=history[:HISTORY], bought=shown.BoughtElsewhere.of, older=history[HISTORY - 1].entry if len(history) > HISTORY else "",
        find=find, names=names, past=past, called=names.get(entry or "", ""), slot=service.config.slot_seconds,
        figures=builder.FIGURES, operators=builder.OPERATORS, numbers=builder.numbers(schema),
        groups=builder.grouped(schema), lines=_lines(typed.choice), dataset=dataset,
        usual=USUAL[facts["counted_in"]], joint=joint, together=[] if joint is None else shown.together(joint),
        **(_taken(request, dataset, past) if past else {}),
    )  # fmt: skip


def _lines(choice: Choice) -> list[builder.ConditionLine]:
    return [*choice.conditions, *[builder.ConditionLine()] * builder.CONDITIONS][: builder.CONDITIONS]


def _parts(given: shown.Given | None) -> list[tuple[str, list[shown.ShownFigure], Any]]:
    return (
        []
        if given is None
        else [(name, each, charts.bars(name, each)) for name, each in shown.by_name(given)]
    )


def _table(given: shown.Given | None) -> shown.ShownTable | None:
    return None if given is None else shown.table_of(given)


def _taken(request: Request, dataset: str, past: Past) -> Json:
    """The same question in other words, and how to quote its answer."""
    if past.answer is None:
        return {}
    return {
        "python": exports.python_of(past, _site(request), dataset, past.mode),
        "citation": exports.citation(past, dataset),
    }


def _site(request: Request) -> str:
    return f"{request.url.scheme}://{request.headers.get('host', request.url.netloc)}"


def _schema(request: Request, dataset: str) -> Schema:
    service = api.service_of(request)
    service.session(dataset)
    return service.datasets[dataset].schema


def _typed(form: FormData) -> AskForm:
    fields = [(name, str(value)) for name, value in form.multi_items()]
    named = dict(fields)
    texts = {name: named.get(name, "") for name in ("sql", "error", "mode")}
    return AskForm(
        **texts,
        amount=named.get("rho") or named.get("epsilon", ""),
        choice=Choice.of_form(fields),
        built="figure" in named,
    )


def _question(typed: AskForm, word: str) -> api.Question:
    if len(typed.sql) > api.LONGEST:
        raise QueryError(f"A query must be a text of at most {api.LONGEST} characters.")
    wanted = {"error": typed.error} if typed.error.strip() else {word: typed.amount}
    amounts = {name: _amount(name, text) for name, text in wanted.items()}
    try:
        return api.Question(sql=typed.sql, mode=typed.mode or None, **amounts)
    except ValidationError as error:
        first = error.errors()[0]
        where = str(first["loc"][0]) if first["loc"] else word
        raise ParameterError(f"{where!r} is not as expected: {first['msg']}.") from None


def _workload(several: list[str], typed: AskForm, word: str) -> workloads.Workload:
    if typed.error.strip():
        raise ParameterError(f"Questions asked together take a {word} for all: leave the wanted error empty.")
    amount = _amount(word, typed.amount)
    try:
        return workloads.Workload(queries=several, mode=typed.mode or None, **{word: amount})
    except ValidationError as error:
        raise ParameterError(f"The questions are not as expected: {error.errors()[0]['msg']}.") from None


def _amount(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ParameterError(f"{name!r} must be a number. Got {text[:40]!r}.") from None
