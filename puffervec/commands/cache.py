# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train cache`: show or remove the files that envs keep on this machine between runs."""

from __future__ import annotations

from pathlib import Path

from puffervec.commands.verb import StopSignals, Verb
from puffervec.system import cache
from puffervec.system.arguments import Parser

ABOUT = """\
Shows the folder in which envs keep what they have compiled (drive: scenes; ocean:PATH: libraries)
between runs, and its size. The environment variable PUFFERVEC_CACHE sets another folder."""


def options(parser: Parser) -> None:
    """Declare the flags of cache."""
    parser.flag("--clear", "remove these files; runs prepare what they need again")


def run(args: list[str], signals: StopSignals) -> None:
    """Run `puffer-train cache`."""
    parsed = VERB.parse(args)
    files = cache.entries()
    print(f"{cache.cache_folder()}: {_count(files)}")
    for name in (cache.SCENES, cache.LIBRARIES):
        if found := [path for path in files if path.parent.name == name]:
            print(f"  {name}: {_count(found)}")
    if parsed.clear:
        print(f"removed {cache.clear() / 2**20:,.1f} MiB")


def _count(files: list[Path]) -> str:
    """Return the number of files and their size in words."""
    size = sum(path.stat().st_size for path in files)
    return f"{len(files)} files, {size / 2**20:,.1f} MiB"


VERB = Verb(
    "cache",
    "[--clear]",
    "files that envs keep between runs, and their size",
    ABOUT,
    run,
    options,
    trainer=False,
)
