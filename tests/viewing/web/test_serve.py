# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The server of `puffer-train watch`, by raw requests: who is answered and who is not
(puffervec/viewing/web/serve.py, watch.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from puffervec.commands import cli
from puffervec.system import extras
from puffervec.train.metrics.log import JsonLog
from puffervec.viewing.web import constants
from puffervec.viewing.web.serve import MOST_UNKNOWN, Server, refuse, respond, respond_json
from tests.fixtures.pages import Served

Serve = Callable[..., Served]
GET = "GET {path} HTTP/1.1\nHost: {host}\nConnection: close\n{more}\n"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder of a run with links out of it, and a secret beside it."""
    run = tmp_path / "runs" / "one"
    (run / "sub").mkdir(parents=True)
    log = JsonLog(run / "metrics.jsonl", {"env": "probe"})
    log.write({"step": 1, "elapsed_s": 1.0, "env/a": 0.5})
    log.close()
    (run / "sub" / "a.json").write_text("{}")
    (run / "page.html").write_text("<script>1</script>")
    (tmp_path / "secret.json").write_text("secret")
    (run / "link.json").symlink_to(tmp_path / "secret.json")
    (run / "out").symlink_to(tmp_path)
    (run / "weights.safetensors").write_text("secret")
    return tmp_path / "runs"


@pytest.mark.slow
def test_who_is_refused(serve: Serve, runs: Path) -> None:
    served = serve("watch", "runs")
    ours = "/TOKEN/state"

    def status(path: str, host: str = "HOST", more: str = "") -> int:
        found, headers, body = served.ask(GET.format(path=path, host=host, more=more))
        assert (
            headers["cache-control"] == "no-store"
            and headers["x-content-type-options"] == "nosniff"
        )
        assert headers["content-security-policy"].startswith(("default-src 'none'", "sandbox"))
        assert b"secret" not in body and (found != 403 or body.startswith(b"403: "))
        return found

    assert status(ours) == 200
    assert status(ours, more="Origin: http://HOST\n") == 200
    assert status("/state") == 403 and status("/") == 403
    assert status("/" + "A" * 43 + "/state") == 403
    assert status(ours.replace("/TOKEN/", served.address.path[:-2] + "/")) == 403
    assert status(ours, more="Origin: http://evil.example\n") == 403
    assert status(ours, more="Origin: null\n") == 403
    assert status(ours, host="evil.example") == 403
    for path in (
        "../secret.json",
        "%2e%2e/secret.json",
        "..%2fsecret.json",
        "%252e%252e/secret.json",
        "sub/../../secret.json",
    ):
        assert status(f"/TOKEN/files/0/{path}") == 403, path
    for path in ("link.json", "out/secret.json", "weights.safetensors", "run.lock", "sub"):
        assert status(f"/TOKEN/files/0/{path}") == 403, path
    assert (
        status("/TOKEN/files/0/none.json") == 404 and status("/TOKEN/files/1/metrics.jsonl") == 404
    )
    assert status("/TOKEN/files/0//etc/passwd") in (403, 404)
    assert status("/TOKEN/nothing") == 404
    for method in ("PUT", "DELETE", "OPTIONS", "POST"):
        assert (
            served.ask(
                f"{method} {ours} HTTP/1.1\nHost: HOST\nContent-Length: 0\nConnection: close\n\n"
            )[0]
            == 405
        )
        assert (
            served.ask(
                f"{method} /state HTTP/1.1\nHost: HOST\nContent-Length: 0\nConnection: close\n\n"
            )[0]
            == 403
        )


@pytest.mark.slow
def test_what_is_answered(serve: Serve, runs: Path) -> None:
    served = serve("watch", "runs/one")
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{43}/", served.url)
    status, headers, body = served.get("")
    assert status == 200 and headers["content-type"] == "text/html; charset=utf-8"
    policy = headers["content-security-policy"]
    assert (
        "unsafe" not in policy
        and "script-src 'self'" in policy
        and "access-control-allow-origin" not in headers
    )
    assert not re.search(
        rb"<script(?! src=\"[\w/.]+\" defer></script>)|style=|\son\w+=|https?:", body
    )
    assert served.get("files/0/sub/a.json")[2] == b"{}"
    status, headers, body = served.get("files/0/page.html")
    assert (status, body) == (200, b"<script>1</script>")
    assert headers["content-security-policy"].startswith(
        "sandbox allow-scripts; default-src 'none'"
    )
    assert served.json("curves?run=0&key=env%2Fa&key=none")["keys"] == {"env/a": [0.5]}
    assert served.get("curves?run=7&key=env%2Fa")[0] == 404
    assert served.get("curves?run=0" + "&key=a" * 61)[0] == 404
    before = sorted(path.name for path in (runs / "one").iterdir())
    assert served.close()[0] == 130
    assert sorted(path.name for path in (runs / "one").iterdir()) == before


@pytest.mark.slow
def test_asking_for_jobs(serve: Serve, runs: Path) -> None:
    served = serve("watch", "runs")

    def post(body: str) -> tuple[int, bytes]:
        head = (
            "POST /TOKEN/jobs HTTP/1.1\nHost: HOST\nConnection: close\nContent-Length: "
            f"{len(body)}\n\n"
        )
        status, _, answer = served.ask(head + body)
        return status, answer

    assert post("{}")[0] == 400 and post("[1]")[0] == 400 and post("no JSON")[0] == 400
    assert post(json.dumps({"run": 9, "kind": "eval", "part": ""}))[0] == 404
    assert post(json.dumps({"run": 0, "kind": "rm", "part": ""}))[0] == 404
    assert post(json.dumps({"run": 0, "kind": "eval", "part": ""})) == (
        409,
        b"409: the run has no checkpoint yet\n",
    )
    assert post("x" * 100_000)[0] == 413
    assert served.get("jobs/0")[0] == 404


@pytest.mark.slow
def test_connections_without_the_token_do_not_keep_others_out(serve: Serve, runs: Path) -> None:
    """More of them than the process may have open files: the page is answered, and a connection of
    the page stays.
    """
    served = serve("watch", "runs")
    resource.prlimit(
        served.process.pid, resource.RLIMIT_NOFILE, (MOST_UNKNOWN + 200, MOST_UNKNOWN + 200)
    )
    place = (served.address.hostname, served.address.port)
    request = GET.format(
        path=f"{served.address.path}state", host=served.address.netloc, more=""
    ).replace("close", "keep-alive")
    with contextlib.ExitStack() as opened:
        ours = opened.enter_context(socket.create_connection(place, timeout=60))
        for number in range(MOST_UNKNOWN + 400):
            if number == MOST_UNKNOWN // 2:
                ours.sendall(request.replace("\n", "\r\n").encode())
                assert ours.recv(15) == b"HTTP/1.1 200 OK"
            opened.enter_context(socket.create_connection(place, timeout=60))
        assert served.get("state")[0] == 200
        while b"\r\n\r\n" not in ours.recv(1 << 16):
            pass
        ours.sendall(request.replace("\n", "\r\n").encode())
        assert ours.recv(15) == b"HTTP/1.1 200 OK"


def test_the_oldest_connections_without_the_token_are_closed() -> None:
    """Only those beyond a hundred."""
    server, closed = Server("127.0.0.1", 0), list[int]()

    class Connection:
        def __init__(self, number: int) -> None:
            self.number = number

        def force_close(self) -> None:
            closed.append(self.number)

    class Listener:
        connections = [Connection(number) for number in range(110)]

        def __call__(self) -> str:
            return "the new one"

    listener = Listener()
    server._known.update(listener.connections[:10])
    assert server._connection(listener) == "the new one" and closed == []
    server._known.difference_update(listener.connections[:3])
    server._connection(listener)
    assert closed == [0, 1, 2]
    listener.connections = listener.connections[3:9]
    server._connection(listener)
    assert closed == [0, 1, 2] and server._known == set(listener.connections)


def test_a_server_ends_with_a_signal_or_its_background_work() -> None:
    def stop(url: str) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    async def work() -> None:
        stop("")
        await asyncio.sleep(1000)

    async def done() -> None:
        pass

    async def fail() -> None:
        raise ValueError("it failed")

    urls: list[str] = []
    for ready, background, number in (
        (stop, None, signal.SIGTERM),
        (urls.append, work, signal.SIGTERM),
        (urls.append, done, 0),
    ):
        assert Server("127.0.0.1", 0).run(ready, background) == number
    assert all(re.fullmatch(r"http://127\.0\.0\.1:[1-9]\d+/[\w-]{43}/", url) for url in urls)
    with pytest.raises(ValueError, match="it failed"):
        Server("127.0.0.1", 0).run(urls.append, fail)


def test_responses_have_a_status_and_text_is_utf8() -> None:
    for work, status, kind, charset in (
        (respond("x", "text/html"), 200, "text/html", "utf-8"),
        (respond(b"x", "image/png"), 200, "image/png", None),
        (respond_json([]), 200, "application/json", "utf-8"),
        (refuse("no"), 403, "text/plain", "utf-8"),
    ):
        found = asyncio.run(work)
        assert (found.status, found.content_type, found.charset) == (status, kind, charset)


def test_a_page_has_its_scripts_in_order() -> None:
    handlers: dict[str, Any] = {}
    server = Server("127.0.0.1", 0)
    server.get = handlers.__setitem__  # type: ignore[method-assign, assignment]
    server.page("one", (constants.STYLE, constants.SCRIPT), "static/dom.js")
    text = asyncio.run(handlers[""](None)).text
    assert re.findall(r'(?:src|href)="([\w./]+)"', text) == [*handlers][:3]


@pytest.mark.slow
def test_signals_end_it(serve: Serve, runs: Path) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        assert serve("watch", "runs").close(number) == (128 + number, "")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (
            ["runs", "--host", "0.0.0.0"],
            "--host 0.0.0.0: pages are served only to this machine: use 127.0.0.1 or ::1",
        ),
        (["runs", "--port", "70000"], "--port 70000: use at most 65535"),
        (["none"], "none does not exist"),
        (["--port", "0"], "which run?"),
        (["runs", "--what"], "--what"),
    ],
)
def test_bad_input_is_one_line(
    args: list[str],
    words: str,
    runs: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(runs.parent)
    assert cli.main(["watch", *args]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1


@pytest.mark.slow
def test_the_other_loopback(serve: Serve, runs: Path) -> None:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            pass
    except OSError:
        pytest.skip("no IPv6 here")
    served = serve("watch", "runs", "--host", "::1")
    assert served.url.startswith("http://[::1]:") and served.get("state")[0] == 200


@pytest.mark.slow
def test_curves_need_no_trainer(runs: Path) -> None:
    """Without torch and its like: evaluations fail then, and say why."""
    script = "import sys\nfor name in ('torch', 'rich', 'safetensors'): sys.modules[name] = None\n"
    script += "from puffervec.commands.cli import main\nsys.exit(main(['watch', 'runs']))"
    process = subprocess.Popen(
        [sys.executable, "-c", script], cwd=runs.parent, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline().startswith("http://127.0.0.1:")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130


def test_the_extra_is_named(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(extras, "installed", lambda module: module != "aiohttp")
    for args in (["watch", str(runs)], ["play", "cartpole"]):
        assert cli.main(args) == 2
        assert (
            "a page in the browser needs aiohttp: pip install 'puffervec[watch]'"
            in capsys.readouterr().err
        )


@pytest.mark.slow
def test_a_port_that_is_taken(serve: Serve, runs: Path) -> None:
    port = str(serve("watch", "runs").address.port)
    with pytest.raises(RuntimeError, match=f"--port {port}: .*: use another one"):
        serve("watch", "runs", "--port", port)
