"""Whole tables over HTTP: charged like an answer, asked for nothing afterwards, by nobody else."""

import io

import polars as pl

RELEASES = "/api/v1/datasets/survey/releases"
ASKED = {"sql": "SELECT COUNT(*) FROM survey WHERE sex = 'female'", "epsilon": 0.05}


def test_a_table_is_bought_and_then_answers_for_nothing(live, tokens):
    other = live.book.add("another", "analyst")
    with live.http(tokens["analyst"]) as client:
        before = client.get("/api/v1/datasets/survey/budget").json()["spent"]
        wanted = {"epsilon": 50.0, "columns": ["age", "sex"], "marginals": 2, "bins": {"age": 11}, "rows": 40}
        done = client.post(RELEASES, json=wanted)
        assert done.status_code == 200, done.text
        out = done.json()
        assert out["stamp"] == "guarantee: epsilon-DP, add or remove one record"
        rows = pl.read_csv(io.StringIO(out["csv"]))
        assert rows.columns == ["age", "sex"]
        assert rows.height == 40
        held = client.get(RELEASES).json()
        assert ["age", "sex"] in held[0]["measured"]
        assert held[0]["entry"] == out["entry"]
        answer = client.post("/api/v1/datasets/survey/ask", json=ASKED).json()
        assert answer["epsilon"] == 0
        assert answer["entry"] == out["entry"]
        assert client.post("/api/v1/datasets/survey/cost", json=ASKED).json()["epsilon"] == 0
        assert client.get("/api/v1/datasets/survey/budget").json()["spent"] == before + 50
        assert client.get("/api/v1/datasets/survey/answers").status_code == 200
    with live.http(other) as client:
        assert client.get(RELEASES).json() == []
        assert client.post("/api/v1/datasets/survey/ask", json=ASKED).json()["epsilon"] == 0.05


def test_each_mistake_is_one_sentence_and_costs_nothing(live, tokens):
    with live.http(tokens["analyst"]) as client:
        before = client.get("/api/v1/datasets/survey/budget").json()["spent"]
        for wrong, status in (
            ({"epsilon": 1.0, "columns": ["nothing"]}, 400),
            ({"epsilon": 1.0, "marginals": 9}, 400),
            ({"epsilon": 0.00001}, 400),
            ({"epsilon": 1.0, "delta": 1e-9}, 403),  # the data set is counted in epsilon for life
            ({"epsilon": 1.0, "method": "x"}, 422),
        ):
            done = client.post(RELEASES, json=wrong)
            assert done.status_code == status, (wrong, done.text)
            assert done.json()["error"].endswith(".")
        assert client.get("/api/v1/datasets/survey/budget").json()["spent"] == before
    with live.http(tokens["owner"]) as client:
        assert client.post(RELEASES, json={"epsilon": 1.0}).status_code == 403
