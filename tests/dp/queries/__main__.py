"""Print how many queries of the collection are accepted."""

from __future__ import annotations

from collections import Counter

from tests.dp.queries import CLAIMS, MEMBERS, PUMS, REGIONS, clinic, collection, pums

from shoal.dp import Session
from shoal.errors import ShoalError


def sessions() -> dict[str, Session]:
    """A session per data set."""
    tables = clinic()
    linked = {"claims": (tables["claims"], CLAIMS), "regions": (tables["regions"], REGIONS)}
    return {
        "pums": Session(pums(), PUMS, budget=1000.0),
        "clinic": Session(tables["members"], MEMBERS, budget=1000.0, tables=linked),
    }


def main() -> None:
    """Ask every query at epsilon 1."""
    given, accepted, asked = sessions(), Counter[str](), Counter[str]()
    for each in collection():
        asked[each.source] += 1
        try:
            given[each.data].ask(each.sql, 1.0)
        except ShoalError as error:
            print(f"refused: {each.sql}\n    {error}")
        else:
            accepted[each.source] += 1
    for source, number in asked.items():
        print(f"{accepted[source]:3} of {number:3}  {source}")
    share = 100 * accepted.total() / asked.total()
    print(f"{accepted.total()} of {asked.total()} accepted ({share:.1f} %)")


if __name__ == "__main__":
    main()
