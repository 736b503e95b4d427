# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The routes of `puffer-train watch`; static/watch.js is the page.

    GET  state?run=N            runs, metrics, jobs
    GET  curves?run=N&key=...   columns of a run
    GET  files/N/NAME           a file of a run folder
    GET  jobs/N                 the output of a job
    POST jobs                   {run, kind, part}: evaluate, or record a replay

Run folders are not changed; jobs write into a temporary folder.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puffervec.system.folder import Folder, NotPlainError
from puffervec.viewing.web import constants
from puffervec.viewing.web.board import Board, media_type
from puffervec.viewing.web.guard import HEADERS, SANDBOX_HEADERS
from puffervec.viewing.web.serve import Server, refuse, respond, respond_json
from puffervec.wings.watch.jobs import AutoReplay, Jobs

if TYPE_CHECKING:
    from aiohttp import web

FILES = (
    "vendor/uPlot.css",
    constants.STYLE,
    "static/pages.css",
    "static/watch.css",
    "vendor/uPlot.js",
    constants.SCRIPT,
    "static/colours.js",
    "static/dom.js",
    "static/charts.js",
    "static/tables.js",
)
SCRIPT = "static/watch.js"
MOST_KEYS = 60  # curves of a run per request
MOST_FILE = 1 << 26


def watch(
    where: Sequence[Path],
    host: str,
    port: int,
    flags: Sequence[str],
    ready: Callable[[str], None],
    replay_every_s: float,
) -> int:
    """Serve the page until a signal comes; return its number.

    Args:
        where: run folders, and folders of runs.
        host, port: to listen on.
        flags: flags for evaluations and replays.
        ready: called with the URL.
        replay_every_s: see `AutoReplay`.

    Raises:
        ConfigError, MissingExtraError: bad input.
    """
    board = Board(where)
    server = Server(host, port)
    with tempfile.TemporaryDirectory(prefix="puffervec-watch-") as folder:
        routes = Routes(server, board, Jobs(Path(folder), flags), replay_every_s)
        return server.run(ready, routes.jobs.work)


class Routes:
    """The answers to the page's requests."""

    def __init__(self, server: Server, board: Board, jobs: Jobs, replay_every_s: float) -> None:
        """Add the routes to a server."""
        self.server, self.board, self.jobs = server, board, jobs
        self.auto_replay = AutoReplay(jobs, replay_every_s)
        server.page("puffervec: runs", FILES, SCRIPT)
        server.get("state", self.state)
        server.get("curves", self.curves)
        server.get("files/{run}/{name:.+}", self.file)
        server.get("jobs/{number}", self.output)
        server.post("jobs", self.ask)

    async def state(self, request: web.Request) -> web.StreamResponse:
        """Answer with runs, metrics and jobs; ?run=N names the run that the page shows."""
        self.board.refresh()
        run = self._run(request.query.get("run", ""))
        if run is not None:
            self.auto_replay.record_view(self.board.runs.index(run), run)
        return await respond_json(
            {**self.board.to_json(), "jobs": [job.to_json() for job in self.jobs.jobs]}
        )

    async def curves(self, request: web.Request) -> web.StreamResponse:
        """Answer with columns of a run: ?run=N&key=KEY&key=..."""
        run = self._run(request.query.get("run", ""))
        keys = request.query.getall("key", [])
        if run is None or len(keys) > MOST_KEYS:
            return await refuse(f"give a run, and at most {MOST_KEYS} metrics", 404)
        return await respond_json({"version": run.metrics.version, **run.metrics.curves(keys)})

    async def file(self, request: web.Request) -> web.StreamResponse:
        """Answer with a file of a run folder, if pages show its kind. Links are not followed."""
        run, name = self._run(request.match_info["run"]), request.match_info["name"]
        kind = media_type(name)
        if run is None:
            return await refuse("this run does not exist", 404)
        if kind is None:
            return await refuse("files of this kind are not shown")
        try:
            with Folder(run.path) as folder:
                data = read_below(folder, name.split("/"))
        except FileNotFoundError:
            return await refuse("this file does not exist", 404)
        except NotPlainError:
            return await refuse("it is a link, or not a plain file")
        except OSError as error:
            return await refuse(error.strerror or "it cannot be read")
        return await respond(data, kind, SANDBOX_HEADERS if kind == "text/html" else HEADERS)

    async def ask(self, request: web.Request) -> web.StreamResponse:
        """Queue a job: {"run": N, "kind": "eval" or "replay", "part": NAME or ""}."""
        try:
            body = json.loads(await request.read())
            run, kind, part = self._run(str(body["run"])), body["kind"], str(body["part"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return await refuse("give run, kind and part", 400)
        checkpoint = None if run is None else run.checkpoint()
        if run is None or kind not in ("eval", "replay"):
            return await refuse("this run or kind does not exist", 404)
        if checkpoint is None:
            return await refuse("the run has no checkpoint yet", 409)
        job = self.jobs.ask(self.board.runs.index(run), run.path, kind, part, checkpoint)
        return await (
            refuse("too many jobs are waiting", 429) if job is None else respond_json(job.to_json())
        )

    async def output(self, request: web.Request) -> web.StreamResponse:
        """Answer with the file that a job has written."""
        number = request.match_info["number"]
        job = next(
            (job for job in self.jobs.jobs if str(job.number) == number and job.state == "done"),
            None,
        )
        if job is None:
            return await refuse("it has no output yet", 404)
        kind = media_type(job.out.name) or ""
        return await respond(
            job.out.read_bytes(), kind, HEADERS if job.kind == "eval" else SANDBOX_HEADERS
        )

    def _run(self, number: str) -> Any:
        known = {str(place): run for place, run in enumerate(self.board.runs)}
        return known.get(number)


def read_below(folder: Folder, parts: Sequence[str]) -> bytes:
    """Return a file below an open folder, opened name by name. Raises: OSError, NotPlainError."""
    if len(parts) == 1:
        return folder.read(parts[0], MOST_FILE)
    with folder.below(parts[0]) as below:
        return read_below(below, parts[1:])
