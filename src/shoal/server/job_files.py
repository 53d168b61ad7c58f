"""The files in a job's folder, each read and written as one typed record: any worker and the job's process read them."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from shoal.server.models import ColumnLook, MapFacts, ResultFacts
from shoal.server.refusals import UnknownError
from shoal.typing import Json

GONE = "There is no such job; it may have been forgotten."
State = Literal["new", "looking", "ready", "running", "done", "refused", "failed"]


class JobFile(BaseModel):
    """A record that lies in a job's folder under a name of its own."""

    model_config = ConfigDict(ser_json_inf_nan="constants")
    FILE: ClassVar[str]

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The record; a sentence where the job is gone."""
        try:
            return cls.model_validate_json((folder / cls.FILE).read_bytes())
        except FileNotFoundError:
            raise UnknownError(GONE) from None

    @classmethod
    def find(cls, folder: Path) -> Self | None:
        """The record, or None where it was not written yet."""
        return cls.read(folder) if (folder / cls.FILE).exists() else None

    def write(self, folder: Path) -> None:
        """Put the record there, whole or not at all."""
        draft = folder / f"{self.FILE}.{secrets.token_hex(4)}"
        draft.write_text(self.model_dump_json(), encoding="utf-8")
        draft.replace(folder / self.FILE)


class JobState(JobFile):
    """What a job is and how far it is; `since` is of a clock that nobody sets."""

    FILE = "job.json"
    account: str = ""
    state: State = "new"
    error: str = ""
    at: float = 0.0
    since: float | None = None
    work: Literal["", "run", "compare", "release"] = ""
    ending: str = Field(default="", description="Of the uploaded file's name.")
    dataset: str = Field(default="", description="That a whole table is bought of.")
    pid: int | None = Field(default=None, description="Of the server that makes that table.")
    entry: str | None = Field(default=None, description="Of the ledger, once that table is bought.")

    def changed(self, folder: Path, **facts: object) -> None:
        """Write it with other facts, checked."""
        self.model_validate({**self.model_dump(), **facts}).write(folder)


class JobProcess(JobFile):
    """The process that is at work in the folder."""

    FILE = "process.json"
    pid: int


class TableLook(JobFile):
    """What was found in an uploaded table."""

    FILE = "look.json"
    columns: list[ColumnLook]
    rows: int
    notes: list[str]
    missing: int
    codebook: bool


class ColumnWish(BaseModel):
    """What to take a column for, where that is not what was found."""

    model_config = ConfigDict(extra="forbid")
    role: str | None = Field(default=None, max_length=40)
    kind: str | None = Field(default=None, max_length=40)
    bounds: tuple[float, float] | None = None

    @property
    def said(self) -> Json:
        """What is wished, by the names that a schema's columns know."""
        return self.model_dump(exclude_none=True)


class WantedRun(JobFile):
    """What a run or a comparison shall do."""

    FILE = "wanted.json"
    columns: dict[str, ColumnWish] = Field(default_factory=dict)
    request: Json = Field(default_factory=dict, description="As `ProtectionRequest.to_dict` writes it.")
    escape: bool = False
    dataset: str = Field(default="", description="That the table is also answered as.")


class RunResult(ResultFacts, JobFile):
    """What came of a run."""

    FILE = "result.json"
    escaped: bool


class ConfirmedWords(JobFile):
    """The words that were typed for what cannot be undone, and whether the data set's total was ended."""

    FILE = "given.json"
    red: str = ""
    dataset: str = ""
    ended: bool = False


class RiskMap(MapFacts, JobFile):
    """A comparison of methods."""

    FILE = "map.json"


def change(folder: Path, **facts: object) -> None:
    """Say something new about a job."""
    JobState.read(folder).changed(folder, **facts)
