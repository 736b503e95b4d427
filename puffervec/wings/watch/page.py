# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The page of `puffer-train watch`: what it asks for, and what it is answered. static/watch.js is
the page.

    GET  state?run=N            runs, metrics, jobs             POST jobs                 {run, kind, part}: evaluate, or play
    GET  curves?run=N&key=...   columns of a run                GET  jobs/N               what a job has made
    GET  files/N/NAME           a file of a run folder

Nothing of a run folder is changed; what jobs make lies in a temporary folder.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puffervec.system.folder import Folder, NotPlainError
from puffervec.viewing.web.board import Board, served_as
from puffervec.viewing.web.guard import APART, HEADERS
from puffervec.viewing.web.serve import Server, answered, as_json, refused
from puffervec.wings.watch.jobs import Jobs, Latest

if TYPE_CHECKING:
    from aiohttp import web

FILES = (
    "vendor/uPlot.css", "static/pages.css", "static/watch.css", "vendor/uPlot.js", "static/colours.js", "static/dom.js",
    "static/charts.js", "static/tables.js",
)  # fmt: skip
SCRIPT = "static/watch.js"
MOST_KEYS = 60  # curves of a run at once
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

    Args: where: run folders, and folders of runs. flags: for evaluations and replays. ready: called
        with the URL.
        replay_every_s: see `Latest`.
    Raises: ConfigError, MissingExtraError: bad input.
    """
    board = Board(where)
    server = Server(host, port)
    with tempfile.TemporaryDirectory(prefix="puffervec-watch-") as folder:
        watched = Watched(server, board, Jobs(Path(folder), flags), replay_every_s)
        return server.run(ready, watched.jobs.work)


class Watched:
    """Answers of the page."""

    def __init__(self, server: Server, board: Board, jobs: Jobs, replay_every_s: float) -> None:
        """Add the routes to a server."""
        self.server, self.board, self.jobs = server, board, jobs
        self.latest = Latest(jobs, replay_every_s)
        server.page("puffervec: runs", FILES, SCRIPT)
        server.get("state", self.state)
        server.get("curves", self.curves)
        server.get("files/{run}/{name:.+}", self.file)
        server.get("jobs/{number}", self.made)
        server.post("jobs", self.ask)

    async def state(self, request: web.Request) -> web.StreamResponse:
        """Runs, metrics and jobs as they are now: ?run=N says whose policy the page looks at."""
        self.board.refresh()
        run = self._run(request.query.get("run", ""))
        if run is not None:
            self.latest.looked_at(self.board.runs.index(run), run)
        return await as_json(
            {**self.board.to_json(), "jobs": [job.to_json() for job in self.jobs.jobs]}
        )

    async def curves(self, request: web.Request) -> web.StreamResponse:
        """Columns of a run: ?run=N&key=KEY&key=..."""
        run = self._run(request.query.get("run", ""))
        keys = request.query.getall("key", [])
        if run is None or len(keys) > MOST_KEYS:
            return await refused(f"give a run, and at most {MOST_KEYS} metrics", 404)
        return await as_json({"version": run.metrics.version, **run.metrics.curves(keys)})

    async def file(self, request: web.Request) -> web.StreamResponse:
        """A file of a run folder, if it is of a kind that pages show. Links are not followed."""
        run, name = self._run(request.match_info["run"]), request.match_info["name"]
        kind = served_as(name)
        if run is None:
            return await refused("there is no such run", 404)
        if kind is None:
            return await refused("files of this kind are not shown")
        try:
            with Folder(run.path) as folder:
                data = read_below(folder, name.split("/"))
        except FileNotFoundError:
            return await refused("there is no such file", 404)
        except NotPlainError:
            return await refused("it is a link, or no plain file")
        except OSError as error:
            return await refused(error.strerror or "it cannot be read")
        return await answered(data, kind, APART if kind == "text/html" else HEADERS)

    async def ask(self, request: web.Request) -> web.StreamResponse:
        """Ask for a job: {"run": N, "kind": "eval" or "replay", "part": NAME or ""}."""
        try:
            asked = json.loads(await request.read())
            run, kind, part = self._run(str(asked["run"])), asked["kind"], str(asked["part"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return await refused("give run, kind and part", 400)
        checkpoint = None if run is None else run.checkpoint()
        if run is None or kind not in ("eval", "replay"):
            return await refused("there is no such run or kind", 404)
        if checkpoint is None:
            return await refused("the run has no checkpoint yet", 409)
        job = self.jobs.ask(self.board.runs.index(run), run.path, kind, part, checkpoint)
        return await (
            refused("too much is waiting already", 429) if job is None else as_json(job.to_json())
        )

    async def made(self, request: web.Request) -> web.StreamResponse:
        """What a job has made."""
        number = request.match_info["number"]
        job = next(
            (job for job in self.jobs.jobs if str(job.number) == number and job.state == "done"),
            None,
        )
        if job is None:
            return await refused("there is nothing yet", 404)
        kind = served_as(job.out.name) or ""
        return await answered(job.out.read_bytes(), kind, HEADERS if job.kind == "eval" else APART)

    def _run(self, number: str) -> Any:
        known = {str(place): run for place, run in enumerate(self.board.runs)}
        return known.get(number)


def read_below(folder: Folder, parts: Sequence[str]) -> bytes:
    """Return a file below an open folder, found name by name. Raises: OSError, NotPlainError."""
    if len(parts) == 1:
        return folder.read(parts[0], MOST_FILE)
    with folder.below(parts[0]) as below:
        return read_below(below, parts[1:])
