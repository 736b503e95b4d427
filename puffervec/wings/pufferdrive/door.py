# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train import`: turn weights of PufferDrive into a run; weights.py does the work."""

from __future__ import annotations

import argparse
from pathlib import Path

from puffervec.commands.verb import StopSignals, Verb
from puffervec.system.arguments import Parser
from puffervec.train.config.sections import LogSection

ABOUT = """\
Reads the weights that PufferDrive's policies are exported to (puffer export: FILE.bin) and writes
a run folder with one checkpoint, which eval, render, play, watch, export and --opponent take like
that of any run. The size of the file says which dynamics and actions it was trained with."""


def options(parser: Parser) -> None:
    """Declare the file, and the flags of import."""
    parser.add_argument("target", nargs="?", type=Path, help=argparse.SUPPRESS)
    parser.flag("--out FOLDER", "run folder, which must not exist [default: runs/FILE]", type=Path)


def run(args: list[str], signals: StopSignals) -> None:
    """Run `puffer-train import FILE`."""
    parsed = VERB.parse(args)
    from puffervec.wings.pufferdrive.weights import import_weights

    folder = parsed.out or LogSection().folder / parsed.target.stem
    print(import_weights(parsed.target, folder))


VERB = Verb(
    "import", "FILE [flags]", "weights of PufferDrive as a run", ABOUT, run, options,
)  # fmt: skip
