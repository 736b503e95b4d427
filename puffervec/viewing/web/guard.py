# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Access to the servers of this package: only from this machine, with the token in the URL.

A page of another origin may send requests to this server from the same browser, and a host name
that resolves to 127.0.0.1 makes them look like the server's own (DNS rebinding). So in addition to
the token, each request must name this machine as its host, and have either no origin or the
server's.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Mapping
from urllib.parse import unquote

from puffervec.errors import ConfigError

LOOPBACK = ("127.0.0.1", "::1")
HOSTS = ("127.0.0.1", "localhost", "[::1]")
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
# For a page that is not part of the server, such as a replay: it may run its own scripts, but
# cannot access the server or the token.
SANDBOX_HEADERS = {
    **HEADERS,
    "Content-Security-Policy": (
        "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src "
        "'unsafe-inline'; img-src data:; media-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'self'"
    ),
    "X-Frame-Options": "SAMEORIGIN",
}


def new_token() -> str:
    """Return a token of 256 random bits for a URL."""
    return secrets.token_urlsafe(32)


def check_host(host: str) -> str:
    """Return `host` if it is a loopback address. Raises: ConfigError: it is not."""
    if host not in LOOPBACK:
        raise ConfigError(
            f"--host {host}: pages are served only to this machine: use {' or '.join(LOOPBACK)}; "
            "from another machine: ssh -L 8000:127.0.0.1:PORT MACHINE"
        )
    return host


def refusal(token: str, path: str, headers: Mapping[str, str], socket: bool = False) -> str | None:
    """Return why a request is refused (403), or None if it is allowed.

    Args:
        token: token of the server.
        path: path as it was sent; it must begin with /TOKEN/.
        headers: headers, with names in upper or lower case.
        socket: whether the request opens a websocket. Browsers let any page open one, so such a
            request must have an origin.
    """
    sent = path.partition("?")[0]
    first = sent.removeprefix("/").partition("/")[0]
    if not hmac.compare_digest(first.encode("utf-8", "replace"), token.encode()):
        return "the token is missing or wrong: open the URL that the command printed"
    name = re.fullmatch(r"(.*?)(:\d{1,5})?", headers.get("Host", ""))
    if name is None or name.group(1).lower() not in HOSTS:
        return "the host is another machine's name"
    origin = headers.get("Origin")
    if (origin is not None or socket) and origin != f"http://{headers['Host']}":
        return "the request is from a page of another origin"
    if leads_out(sent):
        return "the path leads out of the folder"
    return None


def leads_out(path: str) -> bool:
    """Return whether a URL's path has a part that means another folder, however often encoded.

    >>> leads_out("/a/..%2fb"), leads_out("/a/%252e%252e/b"), leads_out("/a..b/c")
    (True, True, False)
    """
    for _ in range(4):
        if "\0" in path or "\\" in path or any(part in (".", "..") for part in path.split("/")):
            return True
        path, before = unquote(path), path
        if path == before:
            return False
    return True  # No legitimate path is encoded that often.
