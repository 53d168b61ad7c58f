"""The publish page's promises: the shown command and Python repeat the file, and the map shows what there is to choose."""

from __future__ import annotations

import shlex
import sys
import tomllib

import polars as pl
import pytest

from shoal import protect
from shoal.cli import main
from shoal.schema import Schema
from surveys import schema, survey

from .test_publish import TABLE, owner, upload, wait  # noqa: F401 - a fixture among them

ROLES = {"role-0": "quasi", "role-1": "quasi", "role-2": "quasi", "role-3": "leave"}


@pytest.mark.parametrize("method", ["mdav", "anneal"])
def test_the_shown_command_and_python_repeat_the_file(owner, tmp_path, monkeypatch, method):  # noqa: F811
    path = upload(owner, "t.csv", TABLE.encode()).url.path
    searched = {"time_limit": "0.5"} if method == "anneal" else {}
    owner.post(f"{path}/run", data={**ROLES, "k": "4", "method": method, "integers": "round", **searched})
    page = wait(owner, path)
    command, python = (
        _unescape(each.split("</pre>")[0]) for each in page.split('<pre tabindex="0" class="copied">')[1:]
    )
    owner.post(f"{path}/confirm", data={"red": "red"})
    made = owner.get(f"{path}/files/protected.csv").content
    (tmp_path / "table.csv").write_text(TABLE)
    (tmp_path / "schema.toml").write_bytes(owner.get(f"{path}/files/schema.toml").content)
    words = shlex.split(command)
    assert ("--max-proposals" in words) is bool(searched)  # repeated by its work, not by the clock
    assert words[:2] == ["shoal", "protect"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code
    assert (tmp_path / "protected.csv").read_bytes() == made
    names: dict = {}
    exec(python, names)
    assert pl.read_csv(names["protection"].frame.write_csv().encode()).equals(pl.read_csv(made))


def test_the_bundled_survey_comes_with_its_codebook_and_the_map_shows_the_choice(owner):  # noqa: F811
    page = owner.post("/publish", data={"example": "survey"})
    path = page.url.path
    assert "Kinds come from the codebook" in page.text
    assert owner.get(f"{path}/files/map.html").status_code == 404
    owner.post(f"{path}/compare", data={"k": "5", "on_missing": "impute"})
    with owner.stream("GET", f"{path}/events") as events:
        told = "".join(events.iter_text())
    assert "drawing the map" in told
    page = wait(owner, path)
    assert "Risk and utility" in page
    assert "Result</h2>" not in page  # nothing was protected yet
    drawn = owner.get(f"{path}/files/map.html")
    assert drawn.status_code == 200
    assert "mdav" in drawn.text
    assert "script" not in drawn.headers["content-security-policy"]
    assert owner.get(f"{path}/files/protected.csv").status_code == 404
    owner.post(f"{path}/run", data={"k": "5", "method": "mdav", "on_missing": "impute"})
    page = wait(owner, path)
    assert "Before and after" in page
    assert "Risk and utility" in page
    kept = tomllib.loads(owner.get(f"{path}/files/schema.toml").text)["columns"]
    assert kept["age"]["bounds"] == [0, 110]  # from the codebook, not from the table
    owner.post(f"{path}/forget")


def test_a_comparison_can_be_cancelled_and_leaves_the_result_alone(owner):  # noqa: F811
    path = upload(owner, "t.csv", TABLE.encode()).url.path
    owner.post(f"{path}/run", data={**ROLES, "k": "4", "method": "mdav"})
    wait(owner, path)
    owner.post(f"{path}/compare", data={**ROLES, "k": "4"})
    page = owner.post(f"{path}/cancel").text
    assert "Before and after" in page
    assert "Type red to take" in page
    owner.post(f"{path}/confirm", data={"red": "red"})
    assert owner.get(f"{path}/files/protected.csv").status_code == 200


def _unescape(text: str) -> str:
    import html

    return html.unescape(text)


def test_steps_households_weights_and_rules_of_a_schema_are_done_as_in_python(owner):  # noqa: F811
    frame = survey(homes=60)
    facts = Schema.from_dict(schema())
    files = {
        "table": ("t.csv", frame.write_csv().encode(), "text/csv"),
        "codebook": ("c.toml", facts.to_toml().encode(), "text/plain"),
    }
    path = owner.post("/publish", data={"csrf": owner.headers["x-csrf-token"]}, files=files).url.path
    owner.post(f"{path}/run", data={"k": "3", "method": "", "order": "shuffle"})
    page = wait(owner, path)
    assert "--order shuffle" in page
    owner.post(f"{path}/confirm", data={"red": "red"})
    made = pl.read_csv(owner.get(f"{path}/files/protected.csv").content)
    here = protect(
        pl.read_csv(frame.write_csv().encode()), k=3, schema=facts, order="shuffle", accept_risk=True
    )
    assert made.sort(made.columns).equals(pl.read_csv(here.frame.write_csv().encode()).sort(made.columns))
    assert made["income"].to_numpy() == pytest.approx((made["wage"] + made["pension"]).to_numpy())
    assert made["w"].sum() == pytest.approx(frame["w"].sum())
    assert "home" not in made.columns
