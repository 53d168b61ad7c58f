"""The dossier of a run: what goes to the officer, what may be published, the codebook, the registry."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from shoal import __version__, io
from shoal.errors import InputError
from shoal.evidence._attack import attack
from shoal.evidence._codebook import variables_of
from shoal.evidence._methods import methods_of
from shoal.evidence._pages import Evidence, internal_page, public_page
from shoal.evidence._registry import registry_tiers
from shoal.evidence._run import Run, read_run
from shoal.evidence._saved import SavedProtection, mismatches
from shoal.report import page, write_report
from shoal.report.attacks import attack_sections
from shoal.scenarios import release_type
from shoal.typing import Json
from shoal.utility import general

ALLOWED = ("attacks", "indicators", "loss")
Tell = Callable[[str, float, float], None]


@dataclass(frozen=True)
class Dossier:
    """What was written.

    Attributes
    ----------
    folder : Path
    files : tuple of str
        Names in the folder.
    status : str
        The worse of the run's and the attacks'.
    reasons : tuple of str

    Examples
    --------
    >>> from pathlib import Path
    >>> from shoal.evidence import Dossier
    >>> done = Dossier(Path("dossier"), ("index.html", "public/codebook.xml"), "green", ())
    >>> done.status, [name for name in done.files if name.startswith("public/")]
    ('green', ['public/codebook.xml'])
    """

    folder: Path
    files: tuple[str, ...]
    status: str
    reasons: tuple[str, ...]

    def to_dict(self) -> Json:
        """As plain values."""
        return {
            "folder": str(self.folder), "files": list(self.files), "status": self.status, "reasons": list(self.reasons),
        }  # fmt: skip


def dossier(
    run: Run | str | Path,
    folder: str | Path,
    *,
    original: str | Path | None = None,
    protected: str | Path | None = None,
    control: str | Path | None = None,
    allow: Sequence[str] = (),
    targets: int = 2_000,
    progress: Tell | None = None,
) -> Dossier:
    """Write the dossier of a saved run to a folder.

    `index.html` and `internal/` are for the custodian and the officer; `public/` holds nothing that was computed from
    the original, unless `allow` names it.

    Parameters
    ----------
    run : Run or path
        As `--save-run` writes it.
    folder : str or Path
    original, protected : path, optional
        The tables; where the run says they are if left open.
    control : path, optional
        People who are not in the published table; held out from the original if left open.
    allow : sequence of {"attacks", "indicators", "loss"}
        What of the original may be told in the public part; of private answers and releases nothing may.
    targets : int, default 2000
        People that the attacks look for.
    progress : callable, optional

    Returns
    -------
    Dossier

    References
    ----------
    .. [1] ISO/IEC 27559:2022. Privacy enhancing data de-identification framework.
    .. [2] 45 CFR 164.514(b)(1): expert determination.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import polars as pl, shoal
    >>> from shoal.evidence import dossier, run_of_protection
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> frame = pl.DataFrame({"age": list(range(20, 50)), "town": list("ABC") * 10})
    >>> frame.write_csv(folder / "in.csv")
    >>> done = shoal.protect(frame, k=3, method="mdav")
    >>> done.frame.write_csv(folder / "out.csv")
    >>> run = run_of_protection(done.placed(str(folder / "in.csv"), str(folder / "out.csv")))
    >>> "public/codebook.xml" in dossier(run, folder / "dossier", targets=20).files
    True
    """
    tell = progress or (lambda _stage, _done, _of: None)
    unknown = [name for name in allow if name not in ALLOWED]
    if unknown:
        raise InputError(f"What may be allowed in public is {', '.join(ALLOWED)}. Got {unknown[0]!r}.")
    kept = read_run(run)
    if allow and kept.job != "protect":
        raise InputError(
            "Nothing else of the table may be published beside a private release or answer, because it would lose its guarantee. "
            f"Got {allow[0]!r} to allow."
        )
    found = _gather(kept, original, protected, control, targets, tell)
    target = io.make_folder(folder)
    tell("writing", 0, 0)
    files = _write(found, target, tuple(allow))
    return Dossier(target, tuple(files), found.status, found.reasons)


def _gather(
    run: Run,
    original: str | Path | None,
    protected: str | Path | None,
    control: str | Path | None,
    targets: int,
    tell: Tell,
) -> Evidence:
    limits = release_type(run.request.get("release_type"), run.k)
    if run.job == "ask":
        return Evidence(run, limits)
    marks = run.schema.file
    after = io.read_table(run.path("output", protected), marks, published=True)
    before = io.read_table(run.path("source", original), marks)
    others = None if control is None else io.read_table(control, marks)
    same = run.job == "protect" and before.height == after.height and run.request.get("order") != "shuffle"
    tried = attack(
        after,
        before,
        control=others,
        run=run,
        rows="same" if same else "unrelated",
        targets=targets,
        progress=tell,
    )
    tell("measuring what is kept", 0, 0)
    saved = SavedProtection(run, before, after) if run.job == "protect" else None
    kept = None if saved is None else saved.fitness
    other = () if saved is None else mismatches(run, after)
    return Evidence(run, limits, after, saved, tried, kept, general(before, after, schema=run.schema), other)


def _write(found: Evidence, folder: Path, allow: tuple[str, ...]) -> list[str]:
    """All files, or none."""
    texts = {"internal/run.json": _json(found.run.to_dict()), "public/index.html": public_page(found, allow)}
    if found.attacks is not None:
        texts["internal/attacks.html"] = page(
            "Attacks on the published table", attack_sections(found.attacks), mark="Custodian only"
        )
        texts["internal/attacks.json"] = _json(found.attacks.to_dict())
    if found.fitness is not None or found.general is not None:
        texts["internal/fitness.json"] = _json(
            {
                "indicators": None if found.fitness is None else found.fitness.to_dict(),
                "general": None if found.general is None else found.general.to_dict(),
            }
        )
    if found.published is not None:
        variables = variables_of(found.published, found.run.schema, done=found.treatments)
        texts["public/codebook.xml"] = io.ddi_codebook(
            found.run.schema.id, variables, n_records=found.published.height,
            file=Path(found.run.output or "").name, abstract=_abstract(found), producer=f"shoal {__version__}",
        )  # fmt: skip
    if found.run.job == "protect":
        texts["public/methods.json"] = _json(methods_of(found.run, found.limits))
    else:
        texts["public/registry.json"] = _json(registry_tiers(found.run))
    reports = {"internal/report.html": "", "public/report.html": ""} if found.saved is not None else {}
    texts["index.html"] = internal_page(found, [*texts, *reports])
    for name in ("internal", "public"):
        io.make_folder(folder / name)
    with io.together():
        for name, text in texts.items():
            io.write_text(text, folder / name)
        if found.saved is not None:
            write_report(found.saved, folder / "internal" / "report.html")
            write_report(found.saved, folder / "public" / "report.html", public=True)
    return sorted(texts | reports)


def _abstract(found: Evidence) -> str:
    run = found.run
    if run.job == "protect":
        return f"Protected by {run.facts.get('method')} with k = {run.k}. Status {run.facts['status']}."
    return str(run.facts.get("stamp", ""))


def _json(told: Json) -> str:
    return json.dumps(told, indent=2, default=str, allow_nan=False) + "\n"
