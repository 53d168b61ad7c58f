"""Agents over the model context protocol: a real client against a real process, over pipes and over HTTP."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time

import anyio
import httpx
import pytest

pytest.importorskip("mcp", reason="the extra 'agents' is not installed")

from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver.exceptions import ToolError

from shoal.datasets import DATASETS
from shoal.dp import Ledger
from shoal.dp.past import find
from shoal.server.accounts import Accounts
from shoal.server.agents import Agents
from shoal.server.config import Config

from .conftest import NOTHING, free_port

SQL = "SELECT COUNT(*) FROM survey WHERE age >= 40"


@pytest.fixture
def folder(tmp_path):
    survey = DATASETS["survey"].path
    (tmp_path / "s.csv").write_bytes(survey.read_bytes())
    (tmp_path / "s.toml").write_text(survey.with_suffix(".toml").read_text())
    (tmp_path / "shoal.toml").write_text(
        '[server]\nagent_epsilon = 0.3\nslot_seconds = 0\n[datasets.s]\nfile = "s.csv"\nschema = "s.toml"\n'
        'modes = ["dp", "heuristic"]\nbudget = 10\nversion = "1"\n'
    )
    return tmp_path


def stdio(folder, token):
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "shoal", "mcp", str(folder / "shoal.toml")],
        env={**os.environ, "SHOAL_TOKEN": token},
    )


async def walk(client):
    """What an agent does: look, ask what it costs, ask, ask again, ask for too much."""
    tools = {each.name for each in (await client.list_tools()).tools}
    found = {}
    for name, arguments in (
        ("list_datasets", {}),
        ("schema", {"dataset": "survey"}),
        ("cost", {"dataset": "survey", "sql": SQL, "epsilon": 0.2}),
        ("ask", {"dataset": "survey", "sql": SQL, "epsilon": 0.2}),
        ("budget", {"dataset": "survey"}),
    ):
        result = await client.call_tool(name, arguments)
        assert not result.is_error, result.content
        found[name] = result.structured_content
    by_error = await client.call_tool("cost", {"dataset": "survey", "sql": SQL, "error": 30.0})
    assert by_error.structured_content["expected"][0]["error"] <= 30.5
    for both in ({}, {"epsilon": 0.1, "error": 30.0}):
        assert (await client.call_tool("cost", {"dataset": "survey", "sql": SQL, **both})).is_error
    again = await client.call_tool("ask", {"dataset": "survey", "sql": SQL, "epsilon": 0.2})
    refused = [
        await client.call_tool("ask", {"dataset": "survey", "sql": sql, "epsilon": epsilon, "mode": mode})
        for sql, epsilon, mode in (
            ("SELECT COUNT(*) FROM survey", 0.2, None),  # more than the cap of agents
            ("SELECT * FROM survey", 0.01, None),
            ("SELECT COUNT(*) FROM survey", 0.01, "heuristic"),
        )
    ]
    return tools, found, again.structured_content, [each.content[0].text for each in refused if each.is_error]


def check(walked, folder):
    tools, found, again, refused = walked
    assert tools == {"list_datasets", "schema", "cost", "ask", "budget"}
    answer = found["ask"]
    assert (answer["epsilon"], again["epsilon"], again["value"]) == (0.2, 0, answer["value"])
    assert answer["stamp"] == "guarantee: epsilon-DP, add or remove one record"
    assert found["budget"]["cap"] == 0.3
    assert found["schema"]["modes"] == ["dp"]  # not heuristic, which guarantees nothing
    assert found["cost"]["affordable"] is True
    assert found["cost"]["sentence"].startswith("Within ")
    assert answer["expected"] == found["cost"]["expected"]
    assert len(refused) == 3
    assert "0.1" in refused[0]
    with Ledger(folder / "ledger.db") as ledger:
        charge, released = find(ledger, answer["entry"])
        assert (charge.analyst, str(answer["value"]) in released) == ("helper", True)
        assert ledger.spent("survey") == 200_000


def test_an_agent_asks_over_pipes_within_its_cap(folder):
    token = Accounts(folder / "accounts.db").add("helper", "agent")

    async def run():
        async with Client(stdio(folder, token)) as client:
            return await walk(client)

    check(anyio.run(run), folder)


def test_an_agent_asks_over_http_with_its_own_token(folder):
    book, port = Accounts(folder / "accounts.db"), free_port()
    token, person = book.add("helper", "agent"), book.add("ann", "analyst")
    process = subprocess.Popen(
        [sys.executable, "-m", "shoal", "mcp", str(folder / "shoal.toml"), "--http", "--port", str(port)],
        stderr=subprocess.PIPE,
    )
    url = f"http://127.0.0.1:{port}/mcp"
    try:
        plain = httpx.Client(verify=NOTHING)
        for _ in range(1200):
            try:
                assert plain.post(url, json={}).status_code == 401
                break
            except httpx.ConnectError:
                assert process.poll() is None, process.stderr.read()
                time.sleep(0.1)
        for wrong in ("x", "shoal-0-x", person):
            assert plain.post(url, json={}, headers={"authorization": f"Bearer {wrong}"}).status_code == 401

        async def run():
            async with bearer(token) as http, Client(streamable_http_client(url, http_client=http)) as client:
                return await walk(client)

        check(anyio.run(run), folder)
    finally:
        process.kill()
        process.wait()


def bearer(token):
    try:
        import httpx2
    except ImportError:
        return httpx.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=60)
    return httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=60)


def test_what_owners_add_and_take_out_changes_for_agents(folder):
    """A data set that nobody can ask any more must not be left open by the other door."""
    agents = Agents(
        Config.from_toml(folder / "shoal.toml"), Accounts(folder / "accounts.db").add("helper", "agent")
    )
    files, schema = agents.service.files, (folder / "s.toml").read_text()

    async def walk():
        agents.service._looked_at = -math.inf  # a second later
        names = [each["id"] for each in await agents.list_datasets()]
        if "added" not in names:
            with pytest.raises(ToolError, match="There is no data set 'added'"):
                await agents.ask("added", SQL, 0.1)
        return names

    try:
        assert anyio.run(walk) == ["survey"]
        draft = files.draft(folder / "s.csv", ".csv")
        files.save(draft, schema.replace('id = "survey"', 'id = "added"'), {"modes": ["dp"], "budget": 1.0})
        assert anyio.run(walk) == ["survey", "added"]
        assert anyio.run(lambda: agents.budget("added"))["cap"] == 0.3  # of agents
        files.take_out("added")
        assert anyio.run(walk) == ["survey"]
    finally:
        agents.close()


def test_ctrl_c_ends_an_agent_s_server_at_once(folder):
    """It said that it was interrupted, and stayed until standard input was closed."""
    token = Accounts(folder / "accounts.db").add("helper", "agent")
    hello = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
    }  # fmt: skip
    words = [sys.executable, "-m", "shoal", "mcp", str(folder / "shoal.toml")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, env={**os.environ, "SHOAL_TOKEN": token}, text=True, **pipes) as process:
        process.stdin.write(json.dumps(hello) + "\n")
        process.stdin.flush()
        assert "shoal" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(timeout=30) == 130
        finally:
            process.kill()
        assert process.stderr.read().count("Interrupted") == 1


def test_an_agent_has_as_many_requests_a_minute_as_other_accounts(folder):
    path = folder / "shoal.toml"
    path.write_text(path.read_text().replace("slot_seconds = 0", "slot_seconds = 0\nrequests_per_minute = 3"))
    agents = Agents(Config.from_toml(path), Accounts(folder / "accounts.db").add("helper", "agent"))
    for _ in range(3):
        anyio.run(agents.list_datasets)
    with pytest.raises(ToolError, match="Too many requests"):
        anyio.run(agents.list_datasets)
    agents.close()


@pytest.mark.parametrize("role", ["analyst", "owner", None])
def test_who_is_no_agent_is_refused_in_one_sentence(folder, role):
    token = "shoal-0-x" if role is None else Accounts(folder / "accounts.db").add("ann", role)
    done = subprocess.run(
        [sys.executable, "-m", "shoal", "mcp", str(folder / "shoal.toml")],
        env={**os.environ, "SHOAL_TOKEN": token},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "--role agent" in done.stderr
    assert "Traceback" not in done.stderr
