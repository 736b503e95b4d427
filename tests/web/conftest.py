# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Shared by the tests of pages: a browser, one for a process of tests; commands that serve pages; a small run."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.web.browser import Browser, find


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A Chromium; tests that need it are skipped where there is none (tests/needs.py)."""
    path = find()
    assert path is not None
    browser = Browser(path, tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


# Here the tests wait for what steps back for everything else, other tests too; test_jobs.py looks at how it does so.
COMMAND = """
import sys
from puffervec.train.cli import main
from puffervec.web import jobs
jobs.stepping_back, jobs.share_among_sessions = lambda nice: [], lambda pid, nice: None
sys.exit(main())
"""


class Served:
    """A command of `puffer-train` that serves a page, until the block ends. Attributes: url: what it has printed."""

    def __init__(self, *args: str, folder: Path) -> None:
        command = [sys.executable, "-c", COMMAND, *args]
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise RuntimeError(self.process.communicate()[1])
        self.address = urlsplit(self.url)

    def ask(self, request: str) -> tuple[int, dict[str, str], bytes]:
        """Send a request as it stands here and return status, headers and body. HOST and /TOKEN/ in it are replaced by ours."""
        host, port = self.address.hostname, self.address.port
        text = request.replace("HOST", self.address.netloc).replace("/TOKEN/", self.address.path)
        with socket.create_connection((host, port), timeout=60) as connection:
            connection.sendall(text.replace("\n", "\r\n").encode())
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            return answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.read()

    def get(self, path: str, *headers: str) -> tuple[int, dict[str, str], bytes]:
        """Ask for a path below the token as our own page does."""
        lines = [f"GET /TOKEN/{path} HTTP/1.1", "Host: HOST", "Connection: close", *headers]
        return self.ask("\n".join([*lines, "", ""]))

    def json(self, path: str) -> Any:
        """The JSON of a path."""
        status, _, body = self.get(path)
        assert status == 200, body
        return json.loads(body)

    def close(self, number: int = signal.SIGINT) -> tuple[int, str]:
        """Send it a signal; return the exit code and what it said."""
        self.process.send_signal(number)
        said = self.process.communicate(timeout=60)[1]
        return self.process.returncode, said


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Start commands that serve pages: serve("watch", "runs")."""
    begun: list[Served] = []

    def start(*args: str) -> Served:
        begun.append(Served(*args, folder=tmp_path))
        return begun[-1]

    yield start
    for served in begun:
        if served.process.poll() is None:
            served.close()


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of cartpole that has learnt next to nothing. Copy it: others look at it too."""
    from puffervec.train import TrainConfig, Trainer

    settings: dict[str, Any] = {
        "vec": {"backend": "serial", "num_envs": 4},
        "train": {"horizon": 32, "device": "cpu", "precision": "fp32", "compile": "off", "threads": 1, "total_timesteps": 1000},
        "policy": {"hidden": (8,)},
        "log": {"dashboard": "off", "folder": str(tmp_path_factory.mktemp("trained")), "name": "first"},
    }
    with Trainer(TrainConfig.of("cartpole", **settings)) as trainer:
        trainer.train()
        return trainer.folder


@pytest.fixture
def a_run(tmp_path: Path, trained: Path) -> Path:
    """A copy of that run, tmp_path / "runs" / "first"."""
    return Path(shutil.copytree(trained, tmp_path / "runs" / "first"))
