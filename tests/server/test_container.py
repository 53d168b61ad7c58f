"""The container file, built and run where a builder and its base image are at hand.

`SHOAL_BUILD_WORDS` holds further words for the builder, such as `-v /srv/wheels:/srv/wheels:ro` where packages come from a folder.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from shoal.datasets import DATASETS

from .conftest import free_port

ROOT = Path(__file__).parents[2]
IMAGE = "localhost/shoal-test"
BASE = re.search(r"^FROM (\S+)", (ROOT / "Containerfile").read_text(), re.MULTILINE)[1]
WORDS = shlex.split(os.environ.get("SHOAL_BUILD_WORDS", ""))


@dataclass(frozen=True)
class Builder:
    """A program that builds images and runs them, with a daemon or without."""

    program: str

    @property
    def alone(self) -> bool:
        """Whether it is `buildah`, which needs neither a daemon nor rights of its own."""
        return self.program.endswith("buildah")

    def has(self, image: str) -> bool:
        kind = ["inspect", "--type", "image"] if self.alone else ["image", "inspect"]
        return self._tried(*kind, image)

    def fetched(self, image: str) -> bool:
        return self.has(image) or self._tried("pull", image)

    def build(self) -> None:
        how = ["bud", "--layers", "--isolation", "chroot"] if self.alone else ["build"]
        subprocess.run([self.program, *how, *WORDS, "-t", IMAGE, str(ROOT)], check=True, timeout=3000)

    def command(self, image: str, data: Path, *words: str) -> list[str]:
        """What runs words in a container, with a folder as its volume and the network of this machine."""
        if not self.alone:
            shared = ["--network", "host", "-v", f"{data}:/data"]
            return [self.program, "run", "--rm", *shared, *WORDS, image, *words]
        made = subprocess.run([self.program, "from", image], capture_output=True, text=True, check=True)
        name = made.stdout.strip()
        # Its own volume would lie over the folder.
        subprocess.run([self.program, "config", "--volume", "/data-", name], check=True)
        return [
            self.program,
            "run",
            "--isolation",
            "chroot",
            "-v",
            f"{data}:/data",
            *WORDS,
            name,
            "--",
            *words,
        ]

    def _tried(self, *words: str) -> bool:
        try:
            done = subprocess.run([self.program, *words], capture_output=True, check=False, timeout=60)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0


@pytest.fixture(scope="module")
def builder():
    for name in ("podman", "docker", "buildah"):
        found = Builder(shutil.which(name) or "")
        if found.program and found._tried("info"):
            break
    else:
        pytest.skip("no container builder is at hand (podman, docker with a daemon, or buildah)")
    if not found.fetched(BASE):
        pytest.skip(f"the base image {BASE} is neither here nor can it be fetched")
    probe = found.command(BASE, Path("/tmp"), "pip", "download", "--no-deps", "--dest", "/root/x", "tomli-w")
    if subprocess.run(probe, capture_output=True, check=False, timeout=300).returncode:
        pytest.skip("no packages can be reached from inside a container")
    found.build()
    return found


@pytest.mark.timeout(3600)  # packages are fetched and installed
def test_the_container_is_built_and_answers(builder, tmp_path):
    port = free_port()
    source = DATASETS["survey"].path
    for file in (source, source.with_suffix(".toml")):
        shutil.copyfile(file, tmp_path / file.name)
    (tmp_path / "shoal.toml").write_text(
        f'[server]\nport = {port}\n[datasets.survey]\nfile = "survey.csv"\nschema = "survey.toml"\nbudget = 9.0\n'
    )
    for each in (tmp_path, *tmp_path.iterdir()):
        os.chmod(each, 0o777)  # the server runs as a user of its own
    added = builder.command(
        IMAGE, tmp_path, "shoal", "users", "add", "shoal.toml", "ann", "--role", "analyst"
    )
    token = subprocess.run(added, capture_output=True, text=True, check=True).stdout.split()[-1]
    words = ["shoal", "serve", "shoal.toml", "--host", "0.0.0.0", "--behind-proxy", "--workers", "2"]
    with (tmp_path / "log").open("wb") as log:
        served = subprocess.Popen(
            builder.command(IMAGE, tmp_path, *words), stdout=log, stderr=log, start_new_session=True
        )
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(600):
            try:
                if httpx.get(f"{url}/health/ready").status_code == 200:
                    break
            except httpx.TransportError:
                assert served.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.2)
        answer = httpx.post(
            f"{url}/api/v1/datasets/survey/ask",
            json={"sql": "SELECT COUNT(*) FROM survey", "epsilon": 1.0},
            headers={"authorization": f"Bearer {token}"},
        )
        assert answer.status_code == 200, answer.text
        assert "epsilon-DP" in answer.json()["stamp"]
        assert (tmp_path / "ledger.db").stat().st_uid not in (0, os.getuid())
    finally:
        os.killpg(served.pid, signal.SIGTERM)
        served.wait(timeout=60)
    assert "Warning" not in (tmp_path / "log").read_text()
