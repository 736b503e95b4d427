# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A server of pages for this machine, on aiohttp: loopback, a token in the URL, strict headers.

Runs in the process of the command, in one thread, until Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import asyncio
import json
import mimetypes
import signal
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from puffervec.errors import ConfigError
from puffervec.system import extras
from puffervec.viewing.web.guard import HEADERS, check_host, new_token, refusal
from puffervec.viewing.web.page import document, source

if TYPE_CHECKING:
    from aiohttp import web

Handler = Callable[["web.Request"], Awaitable["web.StreamResponse"]]
MOST_BODY = 1 << 16  # Most bytes of a request.
MOST_UNKNOWN = 100  # Most open connections without the token; a browser opens few.


class Server:
    """Routes below /TOKEN/, and the token.

    Attributes:
        token: the first part of every path.
        url: URL of the first page, once the server runs.
    """

    def __init__(self, host: str, port: int) -> None:
        """Make a server without routes.

        Args:
            host: a loopback address.
            port: 0 for any free port.

        Raises:
            ConfigError: the host is not a loopback address.
            MissingExtraError: aiohttp is not installed.
        """
        self.host, self.port, self.token, self.url = check_host(host), port, new_token(), ""
        extras.require("a page in the browser", "aiohttp")
        from aiohttp import web

        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            socket = request.headers.get("Upgrade") is not None
            why = refusal(self.token, request.raw_path, request.headers, socket)
            if why is None:
                self._known.add(request.protocol)
            else:
                return web.Response(status=403, text=f"403: {why}\n", headers=HEADERS)
            try:
                return await handler(request)
            except web.HTTPException as error:
                error.headers.update(HEADERS)
                raise

        self._known = set[Any]()  # Connections that have sent the token.
        self.app = web.Application(middlewares=[web.middleware(guard)], client_max_size=MOST_BODY)

    def get(self, path: str, handler: Handler) -> None:
        """Answer GET requests of /TOKEN/path. Args: path: may contain {names}."""
        self.app.router.add_get(f"/{self.token}/{path}", handler)

    def post(self, path: str, handler: Handler) -> None:
        """Answer POST requests of /TOKEN/path."""
        self.app.router.add_post(f"/{self.token}/{path}", handler)

    def page(self, title: str, names: tuple[str, ...], script: str) -> None:
        """Add the first page: a `<main id="app">` that scripts fill.

        Args:
            title: title of the page.
            names: names of scripts and styles, for `source`.
            script: name of the last script.
        """
        for name in (*names, script):
            self.get(name, static(name))
        scripts = "".join(
            f'<script src="{name}" defer></script>\n'
            for name in (*names, script)
            if name.endswith(".js")
        )
        styles = "".join(
            f'<link rel="stylesheet" href="{name}">\n' for name in names if name.endswith(".css")
        )
        text = document(title, styles + scripts)

        async def first(request: web.Request) -> web.StreamResponse:
            return await respond(text, "text/html")

        self.get("", first)

    def run(
        self, ready: Callable[[str], None], background: Callable[[], Awaitable[None]] | None = None
    ) -> int:
        """Serve until a signal comes; return its number.

        Args:
            ready: called with the URL once it can be opened.
            background: coroutine function that runs concurrently until the end.

        Raises:
            ConfigError: the port is taken.
        """
        return asyncio.run(self._run(ready, background))

    async def _run(
        self, ready: Callable[[str], None], background: Callable[[], Awaitable[None]] | None
    ) -> int:
        from aiohttp import web

        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        received = [0]

        def stop(number: int) -> None:
            received[0] = number
            ended.set()

        runner = web.AppRunner(self.app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        work: asyncio.Task[None] | None = None
        listening: asyncio.Server | None = None
        try:
            try:
                listening = await loop.create_server(
                    lambda: self._connection(runner.server), self.host, self.port
                )
            except OSError as error:
                raise ConfigError(
                    f"--port {self.port}: {error.strerror}: use another one, or none for any"
                ) from error
            self.port = listening.sockets[0].getsockname()[1]
            name = f"[{self.host}]" if ":" in self.host else self.host
            self.url = f"http://{name}:{self.port}/{self.token}/"
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(number, stop, number)
            if background is not None:
                work = loop.create_task(_as_coroutine(background))
            ready(self.url)
            waits = [loop.create_task(ended.wait()), *([work] if work is not None else [])]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if work is not None and work.done():
                work.result()
        finally:
            if listening is not None:
                listening.close()
            if work is not None:
                work.cancel()
                await asyncio.wait([work])
            await runner.cleanup()
        return received[0]

    def _connection(self, server: Any) -> Any:
        """Return the protocol of a new connection.

        If too many connections have not sent the token, close the oldest of them. Otherwise any
        program on this machine could use up this process's file descriptors, and no page would get
        an answer.
        """
        self._known.intersection_update(server.connections)
        unknown = [connection for connection in server.connections if connection not in self._known]
        for connection in unknown[: max(0, len(unknown) - MOST_UNKNOWN)]:
            connection.force_close()
        return server()


async def _as_coroutine(work: Callable[[], Awaitable[None]]) -> None:
    await work()


async def respond(
    body: str | bytes, kind: str, headers: Mapping[str, str] = HEADERS, status: int = 200
) -> web.Response:
    """Return a response. Args: kind: media type of the body."""
    from aiohttp import web

    data = body.encode() if isinstance(body, str) else body
    charset = "utf-8" if kind.startswith("text/") or kind.endswith("json") else None
    return web.Response(
        body=data, content_type=kind, charset=charset, headers=headers, status=status
    )


async def respond_json(data: Any, status: int = 200) -> web.Response:
    """Return data as a JSON response."""
    return await respond(
        json.dumps(data, allow_nan=False, separators=(",", ":")), "application/json", status=status
    )


async def refuse(why: str, status: int = 403) -> web.Response:
    """Return an error response with the reason."""
    return await respond(f"{status}: {why}\n", "text/plain", status=status)


def static(name: str) -> Handler:
    """Return a handler that answers with a script or style."""
    data = source(name)
    kind = mimetypes.types_map[name[name.rindex(".") :]]

    async def handler(request: web.Request) -> web.StreamResponse:
        return await respond(data, kind)

    return handler
