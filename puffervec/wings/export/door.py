# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train export`: write the policies of a run as files for other programs.

exporting.py does the work.
"""

from __future__ import annotations

from pathlib import Path

from puffervec.commands.players import add_code
from puffervec.commands.verb import StopSignals, Verb
from puffervec.system.arguments import Parser

ABOUT = """\
Writes the policies of a run as graphs with a free number of rows, after comparing them with the
run's policies on random rows."""


def options(parser: Parser) -> None:
    """Declare the flags of export."""
    # fmt: off
    flag = parser.flag
    flag("--format NAME", "onnx (needs puffervec[onnx]) or pt2, the archive of torch.export "
         "[default: onnx, or as FILE ends]", choices=("onnx", "pt2"))
    flag("--out FILE", "[default: policy.onnx or policy.pt2 in the run folder; several policies: "
         "policy-NAME.onnx]", type=Path)
    add_code(parser)
    # fmt: on


def run(args: list[str], signals: StopSignals) -> None:
    """Run `puffer-train export RUN`."""
    parsed = VERB.parse(args)
    from puffervec.train.metrics.tables import note
    from puffervec.wings.export.exporting import export_run

    code = [parsed.env, parsed.policy]
    for file in export_run(parsed.target, parsed.format, parsed.out, note, code):
        print(file.text())


VERB = Verb(
    "export", "RUN|CHECKPOINT|latest [flags]",
    "a run's policies as ONNX or torch.export files", ABOUT,
    run, options,
)  # fmt: skip
