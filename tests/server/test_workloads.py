"""Questions asked together over HTTP: told first, charged once, distributed as a session of one's own gives them."""

from __future__ import annotations

import itertools
import json
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed

import numpy as np
import pytest
from scipy.stats import ks_2samp

from shoal import Client, Session
from shoal.dp import Ledger
from shoal.dp.workload import statements
from shoal.errors import BudgetError, QueryError, ShoalError
from shoal.server.config import Config
from shoal.server.service import Service
from shoal.server.workloads import Workload, answer_of, as_typed, forecast_of

from .conftest import LiveServer
from .test_linked import linked  # noqa: F401 - a fixture

RANGES = [f"SELECT COUNT(*) FROM t WHERE age >= {least}" for least in range(0, 100, 5)]
MARGINALS = ["SELECT COUNT(*) FROM t GROUP BY region", "SELECT COUNT(*) FROM t GROUP BY sex, region"]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    live = LiveServer(
        tmp_path_factory.mktemp("together"),
        "slot_seconds = 0",
        {"survey": (1e4, 1e3), "zsurvey": (20.0, 10.0), "little": (0.5, 0.5)},
        counted_in_rho=frozenset({"zsurvey"}),
    )
    service = Service(Config.from_toml(live.path))
    yield live, service
    service.close()


@pytest.mark.parametrize(("dataset", "word"), [("survey", "epsilon"), ("zsurvey", "rho")])
def test_cost_first_then_one_charge_and_again_for_nothing(served, dataset, word):
    _, service = served
    wanted = Workload(queries=[*RANGES, *MARGINALS], **{word: 0.05})
    told = forecast_of(service, dataset, wanted, "ann")
    before = service.budget(dataset, "ann").remaining.millionths
    assert told.cost.spent == 0.05
    assert told.cost.workloads_left == before // 50_000
    assert f"costs {word} 0.05" in told.sentence
    assert told.sentence.startswith("22 questions answered together, each count within ±")
    assert all(each.deviation < each.alone for each in told.cost.queries[: len(RANGES)])
    entries = service.ledger.head().seq
    answer = answer_of(service, dataset, wanted, "ann")
    assert service.ledger.head().seq == entries + 2  # one charge, one stored answer
    assert service.budget(dataset, "ann").remaining.millionths == before - 50_000
    assert [each.deviation for each in answer.answers] == [each.deviation for each in told.cost.queries]
    again = answer_of(service, dataset, wanted, "ann")
    assert (again.epsilon, again.answers) == (0, answer.answers)
    assert forecast_of(service, dataset, wanted, "ann").cost.spent == 0
    assert service.past(dataset, "ann", 1)[0].charged.millionths == 50_000
    assert statements(as_typed(service.past(dataset, "ann", 1)[0].query)) == [
        each.query for each in answer.answers
    ]


def test_figures_have_the_distribution_of_a_session(served):
    """Each analyst's own data version makes a fresh draw; the same queries in a session of one's own."""
    _, service = served
    schema, frame = service.datasets["survey"].schema, service.frames["survey"]
    ages = frame["age"].cast(int)  # a served table holds texts until a schema reads them
    exact = np.array([(ages >= least).sum() for least in range(0, 100, 5)])
    over_http, own = [], []
    for turn in range(50):
        session = service.session("survey")
        session._version = f"state {turn}"
        found = answer_of(service, "survey", Workload(queries=RANGES, epsilon=0.5), "many")
        over_http.append([each.value for each in found.answers])
        with Session(frame, schema, budget=1.0, ledger=Ledger()) as alone:
            own.append([each.value for each in alone.workload(RANGES, 0.5).answers])
    deviations = [each.deviation for each in found.answers]
    noise = [(np.array(each) - exact) / deviations for each in (over_http, own)]
    assert ks_2samp(noise[0][:, 8], noise[1][:, 8]).pvalue > 1e-4
    for each in noise:
        assert abs(each.mean()) < 0.5
        assert 0.7 < each.std() < 1.3


def test_refusals_are_sentences_and_charge_nothing(served):
    _, service = served
    head = service.ledger.head().seq
    for queries in (["SELECT AVG(age) FROM t"], ["SELECT nothing FROM t"], ["SELECT COUNT(*) FROM t WHERE"]):
        with pytest.raises(ShoalError):
            answer_of(service, "survey", Workload(queries=queries, epsilon=0.1), "ann")
    assert service.ledger.head().seq == head
    with pytest.raises(BudgetError, match="does not allow epsilon"):
        answer_of(service, "little", Workload(queries=RANGES, epsilon=0.6), "ann")
    for wrong in (
        {"queries": [], "epsilon": 1.0},
        {"queries": ["x"]},
        {"queries": ["x" * 300_000], "rho": 1.0},
    ):
        with pytest.raises(ValueError, match="queries|give|at least"):
            Workload(**wrong)


def test_statements_are_parted_outside_quotes():
    text = """SELECT COUNT(*) FROM t WHERE a = 'x;''y' AND "b;c" = 1;; SELECT COUNT(*) FROM t ; 'open"""
    assert statements(text) == [
        """SELECT COUNT(*) FROM t WHERE a = 'x;''y' AND "b;c" = 1""",
        "SELECT COUNT(*) FROM t",
        "'open",
    ]


def test_over_http_from_client_and_page(live, tokens):
    with Client(live.url, tokens["analyst"], "survey") as client:
        before = client.remaining()
        cost = client.workload_cost(MARGINALS, 0.02)
        assert (cost["epsilon"], cost["counted_in"], len(cost["queries"])) == (0.02, "epsilon", 2)
        found = client.workload(MARGINALS, 0.02)
        assert client.remaining() == pytest.approx(before - 0.02)
        assert [len(each.value) for each in found.answers] == [5, 10]
        assert found.guarantee.startswith("guarantee: epsilon-DP")
        with pytest.raises(ShoalError, match="COUNT"):
            client.workload(["SELECT MAX(age) FROM t", MARGINALS[0]], 0.02)
    with live.signed_in(tokens["analyst"]) as page:
        form = {"sql": ";\n".join(MARGINALS) + ";", "epsilon": "0.02", "error": "", "mode": "dp"}
        told = page.post(
            "/ask/survey", data=form | {"do": "price"}, headers={"accept": "application/json"}
        ).json()
        assert "You hold these answers already" in told["sentence"]
        shown = page.post("/ask/survey", data=form | {"do": "ask"}).text
        assert "Answers to 2 questions together" in shown
        assert "You had these answers already" in shown
        entry = found.entry
        again = page.get(f"/ask/survey?again={entry}").text
        assert ";\n" in again.split("<textarea")[1].split("</textarea>")[0]
        kept = page.get(f"/ask/survey/answers/{entry}").text
        assert "Answers to 2 questions together" in kept
        assert "cannot be made again" not in kept
        facts = page.get(f"/ask/survey/answers/{entry}.json").json()
        assert facts["answer"]["answers"][0]["value"] == found.answers[0].value
        lines = page.get(f"/ask/survey/answers/{entry}.csv").text.splitlines()
        assert len(lines) == 1 + 5 + 10
        assert page.get(f"/ask/survey/answers/{entry}.ipynb").status_code == 404
        wrong = page.post("/ask/survey", data=form | {"error": "30", "do": "ask"})
        assert "leave the wanted error empty" in wrong.text
    assert json.loads(found.to_json())["strategy"]


def test_over_a_join_by_http(linked):  # noqa: F811 - the fixture
    """Counts of one join asked together by the client, found again on the page, refused where the FROMs differ."""
    joined = "FROM visits v JOIN people p ON v.person = p.person"
    queries = [f"SELECT p.region, COUNT(*) {joined} GROUP BY p.region"]
    queries += [f"SELECT COUNT(*) {joined} WHERE v.cost >= {least}" for least in (50, 100, 150)]
    token = linked.book.add("together", "analyst")
    with Client(linked.url, token, "people") as client:
        before = client.remaining()
        assert client.workload_cost(queries, 2.0)["epsilon"] == 2.0
        found = client.workload(queries, 2.0)
        assert client.remaining() == pytest.approx(before - 2.0)
        assert "one household" in found.guarantee
        regions, least = found.answers[0], found.answers[1:]
        assert len(regions.value) == 2
        assert all(abs(each.value) < 1e5 and each.deviation > 0 for each in least)
        assert client.workload(queries, 2.0).epsilon == 0
        assert client.remaining() == pytest.approx(before - 2.0)
        with pytest.raises(ShoalError, match="must all have the same FROM"):
            client.workload([queries[0], "SELECT COUNT(*) FROM people"], 1.0)
        assert client.remaining() == pytest.approx(before - 2.0)
    with linked.signed_in(token) as page:
        kept = page.get(f"/ask/people/answers/{found.entry}").text
        assert "Answers to 4 questions together" in kept
        facts = page.get(f"/ask/people/answers/{found.entry}.json").json()
        assert facts["answer"]["answers"][0]["value"] == regions.value


def test_lists_that_take_long_hold_no_more_threads_than_accounts(served, monkeypatch):
    """Each waited for the one before in a thread of the server: 160 of them, and nobody was answered."""
    _, service = served
    inside, go_on = threading.Event(), threading.Event()

    def slow(*_, **__):
        inside.set()
        go_on.wait(60)
        raise QueryError("enough")

    monkeypatch.setattr(service.session("survey"), "workload_cost", slow)
    wanted = Workload(queries=RANGES, epsilon=0.1)

    def ask(who: str) -> str:
        try:
            forecast_of(service, "survey", wanted, who)
        except ShoalError as error:
            return str(error)
        return "told"

    most = service.config.large_waiting
    with ThreadPoolExecutor(20) as pool:
        try:
            first = pool.submit(ask, "greedy")
            assert inside.wait(60)
            for _ in range(30):
                assert "of yours" in pool.submit(ask, "greedy").result(timeout=60)
            others = [pool.submit(ask, f"other-{each}") for each in range(12)]
            # Who comes too late is refused at once, in whatever order the threads came.
            refused = list(itertools.islice(as_completed(others, timeout=60), 12 - most))
        finally:
            go_on.set()
        assert all("Too many are waiting" in each.result() for each in refused)
        assert {each.result(timeout=60) for each in (first, *others) if each not in refused} == {"enough"}
