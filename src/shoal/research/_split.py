"""The split-recombine paper's experiment, run again: losses and ranks at k = 3, and the number of centres."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from shoal.microaggregation import KC, KCKW
from shoal.research._cells import PaperCell, Progress, Resumed, configured, matrix, run_cells
from shoal.research._published import SPLIT_RANKS, SPLIT_SUMS
from shoal.research._rows import PaperClaim, PaperRow, ReproducedTable, ranks
from shoal.typing import Json

SEEDS = 5
# Numbers of centres, as multiples of n / k, at which KC and KCKW are compared.
CENTRES = (0.5, 0.75, 1.0, 1.5, 2.0)
# The multiple whose losses are ranked with the other methods; the paper prints none.
RANKED = 1.0
K = 3


@dataclass(frozen=True)
class SplitReproduction(ReproducedTable):
    """The ranks and the sweep, with the paper's figures 3 to 5 drawn from our losses."""

    def pictures(self) -> Json:
        """Losses of the methods on each table (figures 3 to 5), and of KC and KCKW over the number of centres."""
        from shoal.report.figures import Series, lines
        from shoal.research._pictures import losses_by_method

        made = {}
        for number, data in enumerate(SPLIT_RANKS, start=3):
            ranked = [row for row in self.rows if row.data == data and "rank_ours" in row.extra]
            made[f"split-figure-{number}-{data}"] = losses_by_method(
                [row.method for row in ranked],
                [row.ours for row in ranked],
                f"Information loss of each method on {data}, k = 3 (figure {number})",
            )
            swept = [row for row in self.rows if row.data == data and "centres" in row.extra]
            made[f"split-centres-{data}"] = lines(
                [
                    Series(
                        name,
                        [row.extra["centres"] for row in swept if row.method == name],
                        [row.ours for row in swept if row.method == name],
                    )
                    for name in ("kc", "kckw")
                ],
                x_label="centres to start with, as a multiple of n / k",
                y_label="information loss, %",
                label=f"{data}: losses of KC and KCKW against the number of centres, k = 3.",
            )
        return made


def split(
    *, full: bool = False, progress: Progress | None = None, resume: Path | None = None
) -> SplitReproduction:
    """Losses and ranks of the split-recombine paper at k = 3 (means of 5 runs for the random methods)."""
    start = time.perf_counter()
    known = Resumed(resume)
    seeds = 4 * SEEDS if full else SEEDS
    rows: list[PaperRow] = []
    swept: list[PaperRow] = []
    for data, printed in SPLIT_RANKS.items():
        sweep = run_cells(_sweep(data, seeds), progress, known)
        fixed = [PaperCell(data, configured(name, K)) for name in printed if name not in ("kc", "kckw")]
        found = {row.method: row for row in run_cells(fixed, progress, known)}
        found |= {row.method: _plain(row) for row in sweep if row.extra["centres"] == RANKED}
        order = ranks([found[name].ours for name in printed])
        rows += [
            replace(
                found[name],
                extra={"rank_published": printed[name], "rank_ours": rank} | found[name].extra,
            )
            for name, rank in zip(printed, order, strict=True)
        ]
        swept += sweep
    notes = (
        "The paper gives losses as pictures only, so ranks are compared; methods that it did not run on a table are left out there.",
        "c and the number of rounds of KC and KCKW are not printed: 20 rounds, and the same c for both, swept from n/(2k) to "
        f"2n/k. The ranks are those at c = {RANKED:g} n/k; no single c gives the paper's order on all tables.",
        "Single runs of both vary with the centres drawn (spread), most of all on Tarragona with its outliers. By default "
        "KCKW keeps the best of ten starts from 2n/k centres; that is not the paper's figure and is not ranked here.",
        f"Printed sums of ranks: {_told(SPLIT_SUMS)}. Ours: {_told(_sums(rows))}.",
    )
    claims = (*_claims(swept), *_headline(rows))
    title = "Ranks at k = 3 (split-recombine paper)"
    return SplitReproduction("split", title, (*rows, *swept), notes, time.perf_counter() - start, claims)


def _sweep(data: str, seeds: int) -> list[PaperCell]:
    n = matrix(data).shape[0]
    cells = []
    for factor in CENTRES:
        c = int(factor * n / K)
        for method in (KC(k=K, n_groups=c), KCKW(k=K, n_groups=c, n_init=1)):
            cells.append(PaperCell(data, method, None, {"centres": factor}, seeds=seeds))
    return cells


def _plain(row: PaperRow) -> PaperRow:
    return replace(row, extra={name: value for name, value in row.extra.items() if name != "centres"})


def _sums(rows: list[PaperRow]) -> dict[str, int]:
    """Ranks added over the three tables, for the methods that were run on all."""
    sums = {}
    for name in SPLIT_SUMS:
        sums[name] = sum(row.extra["rank_ours"] for row in rows if row.method == name)
    return sums


def _told(sums: dict[str, int]) -> str:
    return ", ".join(f"{name} {total}" for name, total in sorted(sums.items(), key=lambda pair: pair[1]))


def _claims(swept: list[PaperRow]) -> list[PaperClaim]:
    """KCKW before KC at the same number of centres, for every number."""
    claims = []
    for data in SPLIT_RANKS:
        found = []
        for factor in CENTRES:
            kc, kckw = (
                next(
                    row.ours
                    for row in swept
                    if (row.data, row.method, row.extra["centres"]) == (data, name, factor)
                )
                for name in ("kc", "kckw")
            )
            found.append((factor, kc, kckw))
        told = "; ".join(f"c = {factor:g} n/k: {kckw:.3f} against {kc:.3f}" for factor, kc, kckw in found)
        holds = all(kckw < kc for _, kc, kckw in found)
        claims.append(
            PaperClaim("KCKW loses less than KC at the same c, for every c tried", data, holds, told)
        )
    return claims


def _headline(rows: list[PaperRow]) -> list[PaperClaim]:
    """The paper's headline: KCKW is first on Tarragona and Census, and shares the least sum of ranks."""
    claims = []
    for data in ("tarragona", "census"):
        by = {row.method: row.extra["rank_ours"] for row in rows if row.data == data}
        claims.append(
            PaperClaim(
                "KCKW loses least of all", data, by["kckw"] == 1, f"rank {by['kckw']} of {max(by.values())}"
            )
        )
    sums = _sums(rows)
    least = min(sums.values())
    claims.append(
        PaperClaim(
            "KCKW has the least sum of ranks, with MDAV-MHM", "all", sums["kckw"] == least, _told(sums)
        )
    )
    return claims
