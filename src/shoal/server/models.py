"""What the API answers with, as its description tells it; further facts may join, and none is renamed."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from shoal.typing import Json

Colour = Literal["green", "amber", "red"]


class Facts(BaseModel):
    """Facts of an answer."""

    model_config = ConfigDict(extra="allow")


class Health(Facts):
    """That the server runs."""

    status: Literal["ok"]
    version: str | None = None


class Me(Facts):
    """Who a token belongs to; `expires` in seconds since 1970."""

    name: str
    role: str
    expires: float


class ColumnFacts(Facts):
    """The public facts of a column; `sql` is its name as a query writes it."""

    name: str
    sql: str
    kind: str
    bounds: list[Any] | None = None
    levels: list[Any] | None = None
    step: float | None = None


class DatasetFacts(Facts):
    """The public facts of a data set."""

    id: str
    about: str
    modes: list[str]
    model: str | None
    unit: str
    columns: list[ColumnFacts]
    examples: list[Any]


class BudgetFacts(Facts):
    """What an analyst may spend on a data set, has spent, and can still spend."""

    dataset: str
    analyst: str
    cap: float
    spent: float
    remaining: float


class ExpectedError(Facts):
    """Within how much a figure will lie with 95 %; null where public facts do not tell."""

    figure: str
    error: float | None
    by_rows: float | None = Field(
        default=None, description="If 1,000 rows of a group answer; ten times as many, about a tenth."
    )
    square_by_rows: float | None = Field(default=None, description="The same of a deviation's square.")
    in_rows: int | None = Field(
        default=None,
        description="Rows between a quantile and the exact one, beyond a MIN or MAX, or by which a level is more frequent.",
    )
    release: str = ""
    inside: bool = Field(default=False, description="Whether it is only what a figure is computed from.")


class CostFacts(Facts):
    """What an answer would cost, how exact it would be, and about how many such are left."""

    epsilon: float
    rho: float | None
    remaining: float
    parts: list[Json]
    affordable: bool
    expected: list[ExpectedError]
    questions_left: int | None
    sentence: str


class AnswerFacts(Facts):
    """A private answer: a number, one for each name, or a row for each group; `interval` has the same shape."""

    value: Any
    stamp: str = Field(description="The guarantee, word for word.")
    epsilon: float | None
    remaining: float | None
    interval: Any = None
    cut_interval: Any = None
    cautions: list[str] | None = None
    notes: list[str] | None = None
    rho: float | None = None
    delta: float | None = None
    noise_parameter: float | None = Field(None, description="Of mode heuristic, which guarantees nothing.")
    entry: str | None = Field(None, description="Its entry in the ledger.")


class WorkloadFacts(Facts):
    """Questions answered together for one charge, or what that would cost."""

    stamp: str | None = None
    epsilon: float | None = None
    rho: float | None = None
    remaining: float | None = None
    sentence: str | None = None


class StreamFacts(Facts):
    """Running totals over declared periods, paid for once."""

    stamp: str | None = None
    epsilon: float | None = None
    rho: float | None = None
    steps: list[Json] | None = None


class PastAnswer(Facts):
    """A question that you were charged for, and its answer where it can be shown."""

    entry: str
    at: str
    query: str
    epsilon: float | None = None
    rho: float | None = None
    answer: AnswerFacts | WorkloadFacts | None = None
    large: bool | None = None
    mode: str | None = None
    asked: dict[str, float | None] | None = None


class ReleaseFacts(Facts):
    """A whole table that was released."""

    stamp: str
    epsilon: float
    delta: float | None
    remaining: float
    entry: str | None
    notes: list[str]
    csv: str


class ReleaseJobFacts(Facts):
    """How far a job is that buys a whole table: `running`, `done` (then `entry` names the table) or `refused`."""

    job: str
    state: str
    error: str
    entry: str | None
    steps: list[str]


class HeldRelease(Facts):
    """A release that you hold, and what it covers."""

    stamp: str
    epsilon: float
    delta: float | None
    columns: list[str]
    version: str
    entry: str | None
    measured: Any


class SpendingFacts(Facts):
    """For owners: caps, totals, and charges over time."""

    cap: float
    per_analyst: float
    spent: float
    ended: bool
    exhausted: str | None = Field(description="The day on which the cap will be used up, at this pace.")
    charges: list[tuple[str, float]]
    analysts: dict[str, float]


class TeamAccess(Facts):
    """A budget that people share."""

    cap: float
    members: list[str]


class AccessFacts(Facts):
    """Who may ask a data set, up to what."""

    everyone: bool
    people: dict[str, float | None]
    teams: dict[str, TeamAccess]


class Decided(Facts):
    """Who decided a request, and when."""

    by: str
    at: float


class RequestFacts(Facts):
    """A request for more budget, and what became of it."""

    id: str
    dataset: str
    analyst: str
    counted_in: str | None = None
    epsilon: float | None = None
    rho: float | None = None
    reason: str
    at: float
    state: Literal["open", "granted", "refused"]
    granted: float
    note: str
    decided: Decided | None


class EntryFacts(Facts):
    """An entry of the ledger as an auditor sees it."""

    seq: int
    at: str
    kind: str
    dataset: str
    unit: str
    analyst: str
    key: str
    micro: int
    epsilon: float | None = None
    rho: float | None = None
    dataset_total: int
    analyst_total: int
    ended: int
    refers: int
    body: str
    previous: str
    hash: str
    nonce: str
    seal: str


class QuestionFacts(Facts):
    """A question, or a change by an owner, with what became of it."""

    seq: int
    at: str
    state: str
    dataset: str
    analyst: str
    counted_in: str | None = None
    spent: float
    total: float
    unit: str
    text: str
    entry: str
    hash: str


class QuestionPage(Facts):
    """Some rows of the log, newest first; `older` begins the next page."""

    rows: list[QuestionFacts]
    older: int | None


class CheckFacts(Facts):
    """What a replay of the chain found."""

    holds: bool
    entries: int
    head: str
    problem: str


class SignedHeadFacts(Facts):
    """The ledger's head with an Ed25519 signature, and the one line in which it is kept."""

    entries: int
    head: str
    at: str
    signature: str
    public_key: str
    line: str


class UserFacts(Facts):
    """An account; times in seconds since 1970, `revoked` 0 while it is not."""

    name: str
    role: str
    created: float
    expires: float
    revoked: float
    active: bool


class NewToken(UserFacts):
    """An account with its token, which is shown this once and kept by nobody."""

    token: str


class ColumnLook(Facts):
    """For owners: what a column of an uploaded table is taken for, and why."""

    name: str
    role: str
    kind: str
    reason: str
    bounds: list[str] | None
    levels: int
    hierarchy: bool
    samples: list[str]
    distinct: int
    missing: int


class StepFacts(Facts):
    """What a job is at, and the share of it that is done; null where that is not known."""

    stage: str
    share: float | None


class ResultFacts(Facts):
    """What came of a run: the status first, its reasons, and the command that repeats it."""

    status: Colour
    advice: str
    reasons: list[str]
    figures: dict[str, float]
    verdicts: list[str]
    notes: list[str]
    command: str
    python: str


class PlannedColumn(Facts):
    """What a run would take a column for."""

    role: str
    kind: str
    bounds: tuple[float, float] | None = None


class PlanFacts(Facts):
    """What a run would do: each column's role and kind, the settings that differ from the defaults, and the command."""

    columns: dict[str, PlannedColumn]
    request: Json
    command: str


class RecommendedMethod(Facts):
    """The method that a comparison recommends."""

    method: str
    k: int


class ComparedMethod(RecommendedMethod):
    """One method at one k, as the map shows it."""

    information_loss: float
    dld: float
    smallest_group: int
    on_front: bool


class MapFacts(Facts):
    """A comparison of methods, loss against linkage; each search was cut short after `seconds`."""

    reason: str
    best: RecommendedMethod
    notes: list[str]
    ks: list[int]
    seconds: float
    cells: list[ComparedMethod]


class JobFacts(Facts):
    """A job of publishing as it stands."""

    job: str
    state: Literal["new", "looking", "ready", "running", "done", "refused", "failed"]
    error: str
    ends: float = Field(description="When its files are removed, in seconds since 1970.")
    rows: int | None
    notes: list[str]
    columns: list[ColumnLook]
    steps: list[StepFacts]
    result: ResultFacts | None
    confirm: dict[str, str] = Field(description="What must still be typed before the table is given out.")
    files: list[str] = Field(description="What can be downloaded now.")
    map: MapFacts | None = Field(description="The comparison of methods, if one was made.")


class JobGone(Facts):
    """That all files of a job are removed."""

    job: str
    state: Literal["removed"]
