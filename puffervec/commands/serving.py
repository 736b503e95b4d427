# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Flags and output shared by the verbs that serve a page. Imports no torch."""

from __future__ import annotations

from puffervec.errors import ConfigError
from puffervec.train.config import flags

LARGEST_PORT = 65535


def take_server(args: list[str]) -> tuple[str, int]:
    """Remove --host and --port from args; return the address and the port, 0 for any. Raises:
    ConfigError.
    """
    host = flags.take_option(args, "--host") or "127.0.0.1"
    port = flags.whole("--port", flags.take_option(args, "--port"), 0) or 0
    if port > LARGEST_PORT:
        raise ConfigError(f"--port {port}: use at most {LARGEST_PORT}")
    return host, port


def announced(url: str) -> None:
    """Print where the page is."""
    print(f"{url}\n  open it in a browser of this machine; Ctrl-C ends it", flush=True)
