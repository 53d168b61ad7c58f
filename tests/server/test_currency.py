"""Data sets counted in rho (zCDP), from the caps to the pages: no rho is ever called an epsilon."""

from __future__ import annotations

import csv
import io
import re

import pytest

from shoal import Client
from shoal.dp.mechanisms.currency import Currency
from shoal.errors import BudgetError, ParameterError, ShoalError
from shoal.server.budgets import amount_named

from .conftest import LiveServer, no_violations, sign_in, watched

RHO = Currency("zcdp", 1e-6)
CAP, OWN = RHO.millionths(4.0) / 1e6, RHO.millionths(2.0) / 1e6
SQL = "SELECT COUNT(*) FROM t WHERE age > 40"
AT = "/api/v1/datasets/zsurvey"


@pytest.fixture(scope="module")
def live_rho(tmp_path_factory):
    datasets = {"zsurvey": (4.0, 2.0), "survey": (50.0, 2.0)}
    live = LiveServer(
        tmp_path_factory.mktemp("rho"),
        "metrics = true",
        datasets,
        counted_in_rho=frozenset({"zsurvey"}),
    ).start()
    people = {"ann": "analyst", "ben": "analyst", "olga": "owner", "aud": "auditor"}
    live.tokens = {name: live.book.add(name, role) for name, role in people.items()}
    yield live
    live.stop()


def test_caps_costs_answers_and_what_is_left_are_in_rho(live_rho):
    with Client(live_rho.url, live_rho.tokens["ann"], "zsurvey") as ann:
        facts = ann.budget()
        assert (facts["currency"], facts["counted_in"], facts["delta"]) == ("zcdp", "rho", 1e-6)
        assert (facts["cap"], facts["spent"], facts["remaining"]) == (OWN, 0.0, OWN)
        assert facts["cap_epsilon"] == pytest.approx(2.0, abs=1e-3)
        cost = ann.cost(SQL, rho=0.002)
        assert (cost["rho"], cost["remaining"], cost["counted_in"]) == (0.002, OWN, "rho")
        assert cost["questions_left"] == int(OWN * 1e6) // 2000
        assert cost["sentence"].startswith("Within ±")
        assert "costs rho 0.002 ((0.2" in cost["sentence"]
        answer = ann.ask(SQL, rho=0.002)
        assert (answer.rho, answer.delta) == (0.002, 1e-6)
        assert answer.remaining == pytest.approx(OWN - 0.002)
        assert answer.guarantee.startswith("guarantee: rho-zCDP, add or remove one record; all answers")
        assert "(4, 1e-06)-DP" in answer.guarantee or "(3.99" in answer.guarantee
        assert ann.ask(SQL, rho=0.002).rho == 0  # held already
        by_epsilon = ann.ask(SQL, epsilon=0.1)
        assert by_epsilon.rho == RHO.millionths(0.1) / 1e6
        wide = ann.ask("SELECT COUNT(*) FROM t WHERE age > 41", error=30)
        assert 0 < wide.rho < 0.01
        assert ann.remaining() == pytest.approx(OWN - 0.002 - by_epsilon.rho - wide.rho)
        with pytest.raises(BudgetError, match=r"does not allow rho 0\.5: "):
            ann.ask(SQL, rho=0.5)
        with pytest.raises(ShoalError, match="counted in epsilon"):
            ann.ask(SQL, rho=0.1, dataset="survey")
        found = ann.answers()
        spent = [each["rho"] for each in found]
        assert spent == [wide.rho, by_epsilon.rho, 0.002]
        assert found[-1]["asked"]["rho"] == 0.002
        assert found[-1]["epsilon"] == pytest.approx(RHO.epsilon(2000))
        assert found[-1]["answer"]["value"] == answer.value


def test_files_and_python_to_take_along_name_rho(live_rho):
    with Client(live_rho.url, live_rho.tokens["ann"], "zsurvey") as ann:
        entry = ann.ask(SQL, rho=0.002).entry
    with live_rho.signed_in(live_rho.tokens["ann"]) as ann:
        row = next(csv.DictReader(io.StringIO(ann.get(f"/ask/zsurvey/answers/{entry}.csv").text)))
        assert (float(row["rho"]), "epsilon" in row) == (0.002, False)
        rows = list(csv.DictReader(io.StringIO(ann.get("/ask/zsurvey/answers/all.csv").text)))
        assert 0.002 in [float(each["rho"]) for each in rows]
        facts = ann.get(f"/ask/zsurvey/answers/{entry}.json").json()
        assert (facts["rho"], facts["delta"]) == (0.002, 1e-6)
        page = ann.get(f"/ask/zsurvey/answers/{entry}").text
        assert "rho=0.002" in page
        assert "epsilon=0.002" not in page
        assert "rho 0.002 ((0.2" in page
        assert "client.ask" in ann.get(f"/ask/zsurvey/answers/{entry}.ipynb").text
        again = ann.get(f"/ask/zsurvey?again={entry}").text
        assert re.search(r'name="rho"[^>]*value="0.002"', again)


def test_a_form_without_scripts_asks_in_rho(live_rho):
    with live_rho.signed_in(live_rho.tokens["ben"]) as ben:
        page = ben.get("/ask/zsurvey").text
        assert 'name="epsilon"' not in page
        assert f"of {OWN:g} rho left" in page
        form = {"sql": SQL, "rho": "0.003", "error": "", "mode": "dp"}
        told = ben.post("/ask/zsurvey", data=form | {"do": "price"}).text
        assert "costs rho 0.003" in told
        done = ben.post("/ask/zsurvey", data=form | {"do": "ask"}).text
        assert "Charged: rho 0.003 (alone (0.3" in done
        assert ben.post("/ask/zsurvey", data=form | {"rho": "much", "do": "ask"}).status_code == 400


def test_rights_requests_and_grants_are_in_rho(live_rho):
    with live_rho.http(live_rho.tokens["olga"]) as olga, live_rho.http(live_rho.tokens["ben"]) as ben:
        spent = ben.get(f"{AT}/budget").json()["spent"]
        told = olga.put(f"{AT}/access", json={"people": {"ben": 0.02}, "why": "less"})
        assert told.json()["counted_in"] == "rho"
        assert ben.get(f"{AT}/budget").json()["cap"] == 0.02
        wrong = ben.post(f"{AT}/requests", json={"epsilon": 1.0, "reason": "more"})
        assert "counted in rho" in wrong.json()["error"]
        made = ben.post(f"{AT}/requests", json={"rho": 0.03, "reason": "a table"}).json()
        assert (made["rho"], made["counted_in"], "epsilon" in made) == (0.03, "rho", False)
        with live_rho.signed_in(live_rho.tokens["olga"]) as page:
            said = page.get("/requests").text
            assert "ben: rho 0.03 more on zsurvey" in said
            assert "Grant rho" in said
            assert "psilon" not in said
            page.post(f"/requests/{made['id']}", data={"decision": "grant", "amount": "0.01", "note": ""})
        facts = ben.get(f"{AT}/budget").json()
        assert facts["cap"] == pytest.approx(0.03)
        assert facts["remaining"] == pytest.approx(0.03 - spent)
        with live_rho.signed_in(live_rho.tokens["ben"]) as page:
            page.post("/requests", data={"dataset": "zsurvey", "amount": "0.05", "reason": "x"})
            assert "rho 0.05 more on zsurvey" in page.get("/requests").text


def test_owner_auditor_and_metrics_name_rho(live_rho):
    with live_rho.http(live_rho.tokens["ann"]) as ann:
        ann.post(f"{AT}/ask", json={"sql": SQL, "rho": 0.002})
        ann.post("/api/v1/datasets/survey/ask", json={"sql": SQL, "epsilon": 0.25})
    with live_rho.http(live_rho.tokens["olga"]) as olga:
        facts = olga.get(f"{AT}/spending").json()
        assert (facts["counted_in"], facts["cap"]) == ("rho", CAP)
        assert facts["meaning"].endswith("1e-06)-DP")
        text = olga.get("/metrics").text
        assert f'shoal_rho_cap{{dataset="zsurvey"}} {CAP}' in text
        assert 'shoal_epsilon_cap{dataset="survey"} 50.0' in text
        assert 'epsilon_spent{dataset="zsurvey"}' not in text
    with live_rho.http(live_rho.tokens["aud"]) as auditor:
        rows = auditor.get("/api/v1/log/questions", params={"state": "answered"}).json()["rows"]
        assert {(each["dataset"], each["counted_in"]) for each in rows} == {
            ("survey", "epsilon"),
            ("zsurvey", "rho"),
        }
        entries = auditor.get("/api/v1/log", params={"last": 1000}).json()
        assert all("epsilon" not in each for each in entries if each["dataset"] == "zsurvey")
    with live_rho.signed_in(live_rho.tokens["aud"]) as auditor:
        rows = list(csv.DictReader(io.StringIO(auditor.get("/audit/log.csv").text)))
        assert {each["counted_in"] for each in rows if each["dataset"] == "zsurvey"} == {"rho"}
        assert f"budget rho {CAP:g}, per analyst rho {OWN:g}" in auditor.get("/audit").text
    with live_rho.signed_in(live_rho.tokens["olga"]) as olga:
        page = olga.get("/owner/access/zsurvey").text
        assert "psilon" not in page
        assert f"each up to rho {OWN:g}" in page
        assert "The cap means (" in page


def test_agents_spend_what_their_epsilon_comes_to_in_rho(tmp_path):
    from shoal.server.config import Config
    from shoal.server.service import Service

    live = LiveServer(
        tmp_path / "agents", datasets={"zsurvey": (4.0, 2.0)}, counted_in_rho=frozenset({"zsurvey"})
    )
    live.book.close()
    service = Service(Config.from_toml(live.path), most=0.5)
    assert service.budget("zsurvey", "robot").cap.millionths == RHO.millionths(0.5)
    with pytest.raises(BudgetError, match="rho"):
        service.ask("zsurvey", SQL, 0.6, None, "robot")
    assert service.ask("zsurvey", SQL, None, None, "robot", rho=0.001).rho == 0.001
    service.close()


def test_an_amount_under_the_other_name_is_refused():
    with pytest.raises(ParameterError, match="counted in rho"):
        amount_named("rho", 0.5, None)
    with pytest.raises(ParameterError, match="counted in epsilon"):
        amount_named("epsilon", 0.5, 0.5)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 390)])
def test_pages_of_analyst_and_owner_in_a_browser(browser, live_rho, tmp_path, scheme, width):
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    page = watched(context)
    sign_in(page, live_rho, live_rho.book.add(f"eyes-{scheme}", "analyst"))
    page.goto(f"{live_rho.url}/ask/zsurvey")
    page.wait_for_selector("body[data-ready=ask]")
    form = page.locator("#build")
    form.get_by_label("rho to spend").fill("0.004")
    form.get_by_text("costs rho 0.004 (").wait_for()
    form.get_by_label("for each", exact=True).select_option("region")
    form.get_by_role("button", name="Ask").click()
    answer = page.get_by_label("Answer", exact=True)
    answer.wait_for()
    assert "Charged: rho 0.004" in answer.inner_text()
    assert "rho left" in page.get_by_label("Your budget").inner_text()
    seen = page.locator("body").inner_text()
    assert "epsilon" not in seen.lower().replace("epsilon-dp", "")
    page.screenshot(path=tmp_path / f"analyst-{scheme}.png", full_page=True)
    no_violations(page)
    assert page.problems == []
    context.close()
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    page = watched(context)
    sign_in(page, live_rho, live_rho.tokens["olga"])
    page.goto(f"{live_rho.url}/owner")
    card = page.locator("section.card", has=page.get_by_role("heading", name="zsurvey", exact=True))
    said = card.inner_text()
    assert "rho spent" in said
    assert "the cap means (" in said
    assert "epsilon" not in said.lower()
    page.screenshot(path=tmp_path / f"owner-{scheme}.png", full_page=True)
    no_violations(page)
    page.goto(f"{live_rho.url}/owner/access/zsurvey")
    page.screenshot(path=tmp_path / f"access-{scheme}.png", full_page=True)
    no_violations(page)
    assert page.problems == []
    context.close()
