"""What the tests of the server share: a real server on loopback, its tokens, and a browser where there is one."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from dp.conftest import cluster, postgres  # noqa: F401 - fixtures
from shoal.datasets import DATASETS
from shoal.server.accounts import Accounts

# The shell draws pages as the browser does, and starts without the browser's own windows.
CHROMIUM = next(
    (each for each in map(Path, ("/usr/bin/chromium-headless-shell", "/usr/bin/chromium")) if each.exists()),
    None,
)
# What a client trusts over plain HTTP: reading the list of authorities takes longer than a request.
NOTHING = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
# Settings of a server whose test says nothing of them: answers at a fifth of the usual waiting, and no limits.
QUICK = {"requests_per_minute": 60000, "sign_ins_per_hour": 60000, "slot_seconds": 0.02}


@dataclass
class LiveServer:
    """A server in a process of its own, and how to reach it."""

    folder: Path
    extra: str = ""
    datasets: dict[str, tuple[float, float]] = field(default_factory=lambda: {"survey": (1e5, 1e4)})
    ledger: str = "ledger.db"
    workers: int = 1
    certificate: Path | None = None
    counted_in_rho: frozenset[str] = frozenset()
    process: subprocess.Popen | None = None

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.port = free_port()
        self.refill()

    def refill(self) -> None:
        """Write the folder: table, schemas, configuration, and an empty book of accounts."""
        source = DATASETS["survey"].path
        shutil.copyfile(source, self.folder / "survey.csv")
        schema = source.with_suffix(".toml").read_text()
        lines = ["[server]", f'ledger = "{self.ledger}"', 'accounts = "accounts.db"', self.extra]
        for name, value in QUICK.items():
            if name not in self.extra:
                lines.append(f"{name} = {value}")
        for name, (budget, own) in self.datasets.items():
            currency = '\ncurrency = "zcdp"\ndelta = 1e-6' if name in self.counted_in_rho else ""
            (self.folder / f"{name}.toml").write_text(
                schema.replace('id = "survey"', f'id = "{name}"{currency}')
            )
            lines += [f"[datasets.{name}]", 'file = "survey.csv"', f'schema = "{name}.toml"', 'version = "1"']
            lines += [f"budget = {budget}", f"per_analyst = {own}"]
        self.path = self.folder / "shoal.toml"
        self.path.write_text("\n".join(lines) + "\n")
        self.book = Accounts(self.folder / "accounts.db")

    @property
    def url(self) -> str:
        return f"http{'s' if self.certificate else ''}://127.0.0.1:{self.port}"

    @property
    def verify(self) -> ssl.SSLContext:
        """What a client trusts: the server's own certificate where it has one."""
        return NOTHING if self.certificate is None else ssl.create_default_context(cafile=self.certificate)

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def start(self) -> LiveServer:
        words = [sys.executable, "-m", "shoal", "serve", str(self.path), "--port", str(self.port)]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*words, "--workers", str(self.workers)], stdout=log, stderr=log, start_new_session=True
            )
        for _ in range(3000):
            try:
                if httpx.get(f"{self.url}/health", timeout=5, verify=self.verify).status_code == 200:
                    return self
            except httpx.TransportError:
                if self.process.poll() is not None:
                    raise RuntimeError(self.log) from None
            time.sleep(0.05)
        raise RuntimeError(f"the server does not answer: {self.log}")

    def kill(self) -> None:
        """kill -9 of the server with all its workers."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(timeout=120)

    def http(self, token: str | None = None, **words) -> httpx.Client:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        headers |= words.pop("headers", {})
        return httpx.Client(base_url=self.url, headers=headers, timeout=300, verify=self.verify, **words)

    @contextlib.contextmanager
    def signed_in(self, token: str) -> Iterator[httpx.Client]:
        """A client with the cookie of a visit, as a browser would have."""
        with self.http(follow_redirects=True) as client:
            client.get("/sign-in")
            form_key = next(value for name, value in client.cookies.items() if name.endswith("shoal_form"))
            done = client.post("/sign-in", data={"token": token, "form_key": form_key})
            assert done.status_code == 200, done.text
            client.headers["x-csrf-token"] = done.text.split('name="csrf" content="')[1].split('"')[0]
            yield client


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def question(place: int, epsilon: float = 0.001, dataset: str = "survey") -> tuple[str, dict]:
    """A question that nobody asked before."""
    sql = f"SELECT COUNT(*) FROM t WHERE income > {place}"
    return f"/api/v1/datasets/{dataset}/ask", {"sql": sql, "epsilon": epsilon}


@pytest.fixture(scope="session")
def live(tmp_path_factory):
    """A server that most tests share; nothing here may spend more than it adds."""
    datasets = {"survey": (1e5, 1e4), "last": (1.0, 1.0), "gone": (0.3, 0.3)}
    made = LiveServer(tmp_path_factory.mktemp("live"), datasets=datasets).start()
    yield made
    made.stop()


@pytest.fixture(scope="session")
def tokens(live):
    """One token per role."""
    return {role: live.book.add(f"the-{role}", role) for role in ("owner", "analyst", "auditor")}


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium, or a skip with the reason; closed with its file, since its event loop would stop others."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("neither chromium-headless-shell nor chromium is installed in /usr/bin")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(
            executable_path=str(CHROMIUM), args=[*flags, "--disable-component-update"]
        )
        yield opened
        opened.close()


@pytest.fixture
def page(browser):
    """A page that notes what goes wrong in it."""
    context = browser.new_context(accept_downloads=True)
    yield watched(context)
    context.close()


def watched(context):
    """A new page of a context whose errors are kept in `problems`."""
    context.set_default_timeout(60_000)
    opened = context.new_page()
    problems: list[str] = []
    opened.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.problems = problems
    return opened


def sign_in(page, live, token) -> None:
    """Sign in as a person does."""
    page.goto(live.url)
    page.get_by_label("Your token").fill(token)
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "sign-in" not in url)


def width_of(page) -> int:
    """How wide a page is that may only just have been gone to: until it has come there is nothing to measure."""
    page.wait_for_load_state()
    return page.wait_for_function("document.documentElement?.scrollWidth").json_value()


def no_violations(page) -> None:
    """Let axe-core look for what keeps people out."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed"
    )
    page.wait_for_load_state()  # a page that has just come in anew may not have its style sheet yet
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
