# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Flags and output shared by the verbs that serve a page. Imports no torch."""

from __future__ import annotations

from puffervec.errors import ConfigError
from puffervec.system.arguments import Parser
from puffervec.train.config import flags

LARGEST_PORT = 65535


def add_server(parser: Parser) -> None:
    """Declare --host and --port."""
    flag = parser.flag
    flag("--port N", "port of the page [default: any free port]", type=flags.at_least(0), default=0)
    flag(
        "--host ADDRESS",
        "address of the page, 127.0.0.1 or ::1 [default: %(default)s]",
        default="127.0.0.1",
    )


def check_port(port: int) -> None:
    """Raise ConfigError for a port that does not exist."""
    if port > LARGEST_PORT:
        raise ConfigError(f"--port {port}: use at most {LARGEST_PORT}")


def announce(url: str) -> None:
    """Print the URL of the page."""
    print(f"{url}\n  open it in a browser of this machine; Ctrl-C ends it", flush=True)
