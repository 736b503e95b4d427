# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train cache`: what envs keep on this machine between runs."""

from __future__ import annotations

from puffervec.commands.verb import StopSignals, Verb
from puffervec.system import cache
from puffervec.system.arguments import Parser

ABOUT = """\
Shows where what envs prepare (drive: compiled scenes) is kept between runs, and how much room it
takes. PUFFERVEC_CACHE names another folder."""


def options(parser: Parser) -> None:
    """Declare the flags of cache."""
    parser.flag("--clear", "remove it; the next run makes what it needs again")


def run(args: list[str], signals: StopSignals) -> None:
    """`puffer-train cache`."""
    asked = VERB.parse(args)
    found = cache.entries()
    size = sum(path.stat().st_size for path in found)
    print(f"{cache.cache_folder()}: {len(found)} files, {size / 2**20:,.1f} MiB")
    if asked.clear:
        print(f"removed {cache.clear() / 2**20:,.1f} MiB")


VERB = Verb(
    "cache",
    "[--clear]",
    "what envs keep between runs, and how much room it takes",
    ABOUT,
    run,
    options,
    trainer=False,
)
