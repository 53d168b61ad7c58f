"""Running the server: TLS, addresses, logs, what is left behind by a crash, backups, the demo."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import httpx
import pytest

from shoal.server.config import Config
from shoal.server.folders import JOBS, TABLES, PrivateFolder, sweep
from shoal.server.service import Service
from shoal.server.shown import table_of

from .conftest import NOTHING, LiveServer, free_port, question


def shoal(*words: object, **more) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "shoal", *(str(word) for word in words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **more)


@pytest.fixture
def certificate(tmp_path) -> Path:
    """A self-signed certificate for loopback, with its key beside it."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    words += ["-days", "1", "-subj", "/CN=shoal", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(
        [*words, "-keyout", tmp_path / "key.pem", "-out", tmp_path / "cert.pem"],
        check=True,
        capture_output=True,
    )
    return tmp_path / "cert.pem"


def test_with_a_certificate_the_server_speaks_tls_and_its_cookies_are_secure(tmp_path, certificate):
    extra = f'certificate = "{certificate}"\ncertificate_key = "{certificate.with_name("key.pem")}"'
    live = LiveServer(tmp_path / "h", extra, certificate=certificate)
    token = live.book.add("ann", "analyst")
    live.start()
    try:
        with live.http() as client:
            page = client.get("/sign-in")
            assert "; secure" in page.headers["set-cookie"].lower()
            assert page.headers["strict-transport-security"] == "max-age=31536000"
            form = {"token": token, "form_key": client.cookies["__Host-shoal_form"]}
            entered = client.post("/sign-in", data=form)
            assert "shoal_visit" in entered.headers["set-cookie"]
            assert "; secure" in entered.headers["set-cookie"].lower()
        with live.http(token) as client:
            path, body = question(1)
            assert client.post(path, json=body).status_code == 200
        with pytest.raises(httpx.ConnectError):  # a stranger's certificate is not trusted
            httpx.get(f"{live.url}/health")
        with pytest.raises(httpx.HTTPError):  # and nothing is said in the clear
            httpx.get(f"http://127.0.0.1:{live.port}/health", timeout=5)
    finally:
        live.kill()


def test_a_public_address_is_refused_without_tls_or_a_proxy(tmp_path):
    live = LiveServer(tmp_path / "h")
    refused = shoal("serve", live.path, "--host", "0.0.0.0")
    assert refused.returncode != 0
    assert "--behind-proxy" in refused.stderr
    assert "Traceback" not in refused.stderr
    checked = shoal("serve", live.path, "--host", "0.0.0.0", "--behind-proxy", "--check")
    assert checked.returncode == 0, checked.stderr


def test_folders_of_killed_servers_are_removed_at_the_next_start(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left, alive = (tmp_path / f"shoal-jobs-{pid}-x" for pid in (ended.pid, os.getpid()))
    other = tmp_path / "shoal-jobs-notes"
    for folder in (left, alive, other):
        (folder / "job").mkdir(parents=True)
        (folder / "job" / "table.csv").write_text("private")
    sweep(JOBS)
    assert (left.exists(), alive.exists(), other.exists()) == (False, True, True)


def test_a_folder_is_known_by_its_lock_where_numbers_of_processes_come_again(tmp_path):
    """In a container the next server has the number of the one that was killed; two containers see none of the other's."""
    mine = PrivateFolder(TABLES, str(tmp_path))
    before = tmp_path / f"shoal-tables-{os.getpid()}-before"
    elsewhere = tmp_path / "shoal-tables-999999999-x"
    for folder in (before, elsewhere):
        folder.mkdir()
    for folder in (mine.path, before, elsewhere):
        os.utime(folder, (1, 1))
    held = os.open(elsewhere, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    sweep(TABLES, str(tmp_path))
    assert (mine.path.exists(), before.exists(), elsewhere.exists()) == (True, False, True)
    os.close(held)
    sweep(TABLES, str(tmp_path))
    assert not elsewhere.exists()
    mine.close()
    assert list(tmp_path.iterdir()) == []


def test_a_killed_server_leaves_an_upload_that_its_successor_removes(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    live = LiveServer(tmp_path / "h")
    token = live.book.add("olga", "owner")
    live.start()
    with live.signed_in(token) as client:
        table = ("t.csv", b"a,b\n" + b"1,2\n" * 20, "text/csv")
        client.post("/publish", data={"csrf": client.headers["x-csrf-token"]}, files={"table": table})
    live.kill()
    tables = list((tmp_path / "tmp").glob("shoal-jobs-*/*/table.csv"))
    assert [each.stat().st_mode & 0o077 for each in tables] == [0]
    assert [each.parent.parent.stat().st_mode & 0o077 for each in tables] == [0]
    live.start()
    try:
        assert not tables[0].exists()
    finally:
        assert live.stop() in (0, -signal.SIGTERM)
    assert list((tmp_path / "tmp").glob("shoal-jobs-*")) == []


def test_the_log_is_json_and_holds_no_data_no_query_and_no_token(tmp_path):
    live = LiveServer(tmp_path / "h")
    token, owner = live.book.add("ann", "analyst"), live.book.add("olga", "owner")
    live.start()
    try:
        with live.http(token) as client:
            path, body = question(31_337)
            value = client.post(path, json=body).json()["value"]
            client.post(path, json={"sql": "SELECT secretword FROM t", "epsilon": 0.1})
            client.get("/ask/secretword/answers/secretword.csv?secretword=1")
            client.post(path, content=b"{secretword", headers={"content-type": "application/json"})
        with live.signed_in(owner) as client:
            data = "town,secretword\n" + "".join(f"{i},secretvalue{i}\n" for i in range(30))
            table = ("secretfile.csv", data.encode(), "text/csv")
            page = client.post(
                "/publish", data={"csrf": client.headers["x-csrf-token"]}, files={"table": table}
            )
            assert page.status_code == 200
    finally:
        live.stop()
    events = [json.loads(line) for line in live.log.splitlines() if "serving" not in line]
    requests = [each for each in events if each["event"] == "request"]
    assert {"time", "level", "id", "method", "route", "status", "ms", "account"} <= set(requests[0])
    assert "/api/v1/datasets/{dataset:path}/ask" in {each["route"] for each in requests}
    assert {each["event"] for each in events} >= {"start", "request", "stop"}
    for word in ("secret", "31337", token, owner, "income", f'"{value}"'):
        assert word not in live.log, word


def test_a_backup_taken_while_the_server_answers_is_restored_whole(tmp_path):
    live = LiveServer(tmp_path / "h")
    token = live.book.add("ann", "analyst")
    live.start()
    ledger, saved, fresh = live.folder / "ledger.db", tmp_path / "saved.jsonl", tmp_path / "fresh.db"
    try:
        with live.http(token) as client:
            path, body = question(1)
            first = client.post(path, json=body).json()
            taken = json.loads(shoal("ledger", "backup", ledger, saved, "--json").stdout)
            assert taken["holds"] is True
            path, later = question(2)
            assert client.post(path, json=later).status_code == 200
    finally:
        live.kill()
    assert json.loads(shoal("ledger", "verify", ledger, "--json").stdout)["entries"] > taken["entries"]
    restored = json.loads(shoal("ledger", "restore", fresh, saved, "--json").stdout)
    assert (restored["entries"], restored["head"]) == (taken["entries"], taken["head"])
    refused = shoal("ledger", "restore", ledger, saved)
    assert refused.returncode != 0
    assert "empty ledger" in refused.stderr
    for ending in ("", "-wal", "-shm"):
        Path(f"{ledger}{ending}").unlink(missing_ok=True)
    shutil.copyfile(fresh, ledger)
    live.start()
    try:
        with live.http(token) as client:
            path, body = question(1)
            again = client.post(path, json=body).json()
            assert (again["value"], again["epsilon"]) == (first["value"], 0)
    finally:
        live.kill()


def test_the_restore_of_the_documentation_is_served_again(tmp_path):
    """The commands of the page, word by word, on a server that was killed."""
    page = (Path(__file__).parents[2] / "docs" / "server.md").read_text()
    lines = page.split("To restore, stop the server")[1].split("```console\n")[1].split("```")[0].splitlines()
    commands = [each.removeprefix("$ ").partition("#")[0] for each in lines if each.startswith("$ ")]
    live = LiveServer(tmp_path / "h")
    token = live.book.add("ann", "analyst")
    live.start()
    try:
        with live.http(token) as client:
            first = client.post(question(1)[0], json=question(1)[1]).json()
        saved, heads = (
            live.folder / each for each in commands[-1].split() if "." in each and each != "ledger.db"
        )
        assert shoal("ledger", "backup", live.folder / "ledger.db", saved).returncode == 0
        assert shoal("ledger", "sign", live.folder / "ledger.db", "-o", heads).returncode == 0
    finally:
        live.kill()
    env = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for each in commands:
        subprocess.run(["/bin/sh", "-c", each], cwd=live.folder, env=env, check=True)
    live.start()
    try:
        with live.http(token) as client:
            again = client.post(question(1)[0], json=question(1)[1]).json()
            assert (again["value"], again["epsilon"]) == (first["value"], 0)
    finally:
        live.kill()


def test_the_demo_prints_tokens_once_and_they_open_their_pages(tmp_path):
    port = free_port()
    words = [
        sys.executable,
        "-u",
        "-m",
        "shoal",
        "serve",
        "--demo",
        str(tmp_path / "demo"),
        "--port",
        str(port),
    ]
    tokens = []
    for _ in range(2):
        with (tmp_path / "out").open("w+b") as out:
            server = subprocess.Popen(words, stdout=out, stderr=subprocess.DEVNULL)
            try:
                for _ in range(900):
                    try:
                        assert httpx.get(f"http://127.0.0.1:{port}/health", verify=NOTHING).status_code == 200
                        break
                    except httpx.TransportError:
                        assert server.poll() is None
                        time.sleep(0.1)
                printed = (tmp_path / "out").read_text()
                found = dict(re.findall(r"^(owner|analyst|auditor): +(shoal-\S+)$", printed, re.M))
                assert set(found) == {"owner", "analyst", "auditor"}
                for role, page in (("owner", "/owner"), ("analyst", "/ask/survey"), ("auditor", "/audit")):
                    headers = {"authorization": f"Bearer {found[role]}"}
                    assert httpx.get(f"http://127.0.0.1:{port}{page}", headers=headers).status_code == 200
                for old in tokens:  # those of the run before are revoked
                    got = httpx.get(
                        f"http://127.0.0.1:{port}/api/v1/me", headers={"authorization": f"Bearer {old}"}
                    )
                    assert got.status_code == 401
            finally:
                server.terminate()
                server.wait(60)
        tokens = list(found.values())
    kept = b"".join(each.read_bytes() for each in (tmp_path / "demo").iterdir() if each.is_file())
    assert not any(each.encode().split(b"-", 2)[2] in kept for each in tokens)


def test_health_says_when_the_ledger_is_gone(tmp_path, postgres, cluster):
    live = LiveServer(tmp_path / "h", ledger=postgres).start()
    try:
        assert httpx.get(f"{live.url}/health").json()["status"] == "ok"
        cluster.crash()
        down = httpx.get(f"{live.url}/health")
        assert down.status_code == 503
        assert down.headers["retry-after"] == "10"
        cluster.start()
        for _ in range(100):
            if httpx.get(f"{live.url}/health").status_code == 200:
                break
            time.sleep(0.1)
        assert httpx.get(f"{live.url}/health").status_code == 200
    finally:
        live.kill()


def test_the_configuration_in_the_documentation_is_one_that_works(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "server.md").read_text()
    live = LiveServer(tmp_path / "h")
    live.path.write_text("[server]" + page.split("```toml\n[server]")[1].split("```")[0])
    checked = shoal("serve", live.path, "--check")
    assert checked.returncode == 0, checked.stderr


def test_the_six_steps_of_the_documentation_lead_to_an_own_table(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "server.md").read_text()
    steps = page.split("## Your own table")[1].split("\n## ")[0]
    rows = ["Person;Alter (Jahre);Ort;Besuch;Notiz"]
    rows += [
        f"P{each // 2};{20 + each % 60};{('Köln', 'São Paulo', 'k.A.')[each % 3]};2026-05-{1 + each % 28:02};x"
        for each in range(400)
    ]
    (tmp_path / "people.csv").write_text("\n".join(rows), encoding="utf-8")
    guessed = shoal("schema", "people.csv", "-o", "guessed.toml", cwd=tmp_path)
    assert guessed.returncode == 0, guessed.stderr
    assert 'separator = ";"' in (tmp_path / "guessed.toml").read_text()
    schema, config = (textwrap.dedent(each) for each in re.findall(r"```toml\n(.*?)```", steps, re.DOTALL))
    (tmp_path / "people.toml").write_text(schema, encoding="utf-8")
    (tmp_path / "shoal.toml").write_text(f"[server]\nport = {free_port()}\n{config}", encoding="utf-8")
    checked = shoal("serve", "shoal.toml", "--check", cwd=tmp_path)
    assert checked.returncode == 0, checked.stderr
    assert "all is well" in checked.stdout
    asked = 'SELECT COUNT(*), AVG("Alter (Jahre)") FROM people GROUP BY Ort'
    for paid in (1.0, 0.0):  # the second time after a restart
        service = Service(Config.from_toml(tmp_path / "shoal.toml"))
        answer = service.ask("people", asked, 1.0, None, "ann")
        table = table_of(answer)
        service.close()
        assert answer.epsilon == paid
    assert [row[0] for row in table.rows] == ["Köln", "São Paulo", "O'Fallon"]
