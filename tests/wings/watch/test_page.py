# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The answers of `puffer-train watch` (puffervec/wings/watch/page.py), asked for without a server;
tests/viewing/web/test_serve.py asks the command.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from multidict import MultiDict

from puffervec.train.metrics.log import JsonLog
from puffervec.viewing.web.board import Board
from puffervec.viewing.web.guard import HEADERS, SANDBOX_HEADERS
from puffervec.viewing.web.serve import Server
from puffervec.wings.watch import page
from puffervec.wings.watch.jobs import Jobs
from puffervec.wings.watch.page import Routes

POLICY = "Content-Security-Policy"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The only run of the page."""
    folder = tmp_path / "runs" / "one"
    folder.mkdir(parents=True)
    log = JsonLog(folder / "metrics.jsonl", {"env": "probe"})
    log.write({"step": 1, "elapsed_s": 1.0, "env/a": 0.5})
    log.close()
    return folder


@pytest.fixture
def routes(run: Path, tmp_path: Path) -> Routes:
    return Routes(Server("127.0.0.1", 0), Board([run.parent]), Jobs(tmp_path), 60.0)


def save(run: Path) -> None:
    (run / "checkpoints" / "000000000001").mkdir(parents=True)
    (run / "checkpoints" / "000000000001" / "manifest.json").write_text("{}")


def ask(
    handler: Callable[[Any], Awaitable[Any]],
    query: Sequence[tuple[str, str]] = (),
    body: bytes = b"",
    **names: str,
) -> Any:
    """Return the response to a request with this query and body; names: parts of its path."""

    async def read() -> bytes:
        return body

    async def answer() -> Any:
        return await handler(SimpleNamespace(query=MultiDict(query), match_info=names, read=read))

    return asyncio.run(answer())


def test_the_state_and_a_replay_of_the_run_that_is_shown(routes: Routes, run: Path) -> None:
    save(run)
    found = json.loads(ask(routes.state).body)
    assert [one["name"] for one in found["runs"]] == ["one"] and found["jobs"] == []
    found = json.loads(ask(routes.state, [("run", "0")]).body)
    assert [(job["kind"], job["automatic"]) for job in found["jobs"]] == [("replay", True)]


def test_curves(routes: Routes) -> None:
    query = [("run", "0"), *[("key", "env/a")] * 60]
    assert json.loads(ask(routes.curves, query).body)["keys"] == {"env/a": [0.5]}
    assert ask(routes.curves, [*query, ("key", "env/a")]).status == 404
    assert ask(routes.curves, [("run", "7"), ("key", "env/a")]).status == 404


def test_files(routes: Routes, run: Path) -> None:
    (run / "sub").mkdir()
    (run / "sub" / "a.json").write_text("{}")
    (run / "page.html").write_text("<p>")
    (run / "link.json").symlink_to(run / "sub" / "a.json")
    (run / "weights.safetensors").write_text("secret")
    with (run / "large.json").open("wb") as file:
        file.truncate((64 << 20) + 1)

    def file_of(name: str, number: str = "0") -> Any:
        return ask(routes.file, run=number, name=name)

    found = file_of("sub/a.json")
    assert (found.status, found.body, found.content_type) == (200, b"{}", "application/json")
    assert found.headers[POLICY] == HEADERS[POLICY]
    found = file_of("page.html")
    assert (found.status, found.content_type) == (200, "text/html")
    assert found.headers[POLICY] == SANDBOX_HEADERS[POLICY]
    assert file_of("none.json").status == file_of("page.html", "1").status == 404
    for name in ("link.json", "weights.safetensors", "sub"):
        assert file_of(name).status == 403
    found = file_of("large.json")
    assert found.status == 403 and str(64 << 20).encode() in found.body
    assert os.strerror(errno.ENAMETOOLONG).encode() in file_of("a" * 300 + ".json").body


def test_jobs(routes: Routes, run: Path) -> None:
    def post(number: object = 0, kind: str = "eval", part: str = "") -> Any:
        body = json.dumps({"run": number, "kind": kind, "part": part}).encode()
        return ask(routes.ask, body=body)

    for body in (b"{}", b"[1]", b"no JSON"):
        assert ask(routes.ask, body=body).status == 400
    assert post(7).status == post(kind="rm").status == 404
    assert post().status == 409  # There is no checkpoint.
    save(run)
    assert post(kind="rm").status == 404
    jobs = [json.loads(found.body) for found in (post(), post(kind="replay"))]
    assert [(job["number"], job["kind"], job["state"]) for job in jobs] == [
        (0, "eval", "waiting"), (1, "replay", "waiting"),
    ]  # fmt: skip
    assert [post(part=str(part)).status for part in range(7)] == [200] * 6 + [429]


def test_the_output_of_jobs(routes: Routes, run: Path) -> None:
    evaluation, replay = (
        routes.jobs.ask(0, run, kind, "", "000000000001") for kind in ("eval", "replay")
    )
    assert evaluation is not None and replay is not None
    assert ask(routes.output, number="0").status == 404
    for job, data in ((evaluation, b"{}"), (replay, b"<p>")):
        job.out.write_bytes(data)
    evaluation.state = "done"
    found = ask(routes.output, number="0")
    assert (found.status, found.body, found.content_type) == (200, b"{}", "application/json")
    assert found.headers[POLICY] == HEADERS[POLICY]
    assert ask(routes.output, number="1").status == ask(routes.output, number="2").status == 404
    replay.state = "done"
    found = ask(routes.output, number="1")
    assert (found.status, found.body, found.content_type) == (200, b"<p>", "text/html")
    assert found.headers[POLICY] == SANDBOX_HEADERS[POLICY]


def test_aiohttp_is_not_imported_before_a_page_is_served() -> None:
    """It is an extra."""
    assert "web" not in vars(page)
