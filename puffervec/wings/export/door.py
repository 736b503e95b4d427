# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train export`: write the policies of a run as files for other programs.

exporting.py does the work.
"""

from __future__ import annotations

from pathlib import Path

from puffervec.commands.verb import StopSignals, Verb
from puffervec.errors import ConfigError
from puffervec.train.config import flags

ABOUT = """\
  Writes the policies of a run as graphs with a free number of rows, after comparing them with the
  run's policies on random rows.

  --format NAME         onnx (needs puffervec[onnx]) or pt2, the archive of torch.export [default:
                        onnx, or as FILE ends]
  --out FILE            [default: policy.onnx or policy.pt2 in the run folder; several policies:
                        policy-NAME.onnx]
  --env MODULE:FACTORY  the run's env where it is code of yours, which export imports only if you
                        name it
  --policy MODULE:CLASS the run's policy, likewise
"""


def run(args: list[str], signals: StopSignals) -> None:
    """Run `puffer-train export RUN`."""
    target = flags.take_target(args)
    kind, out, *code = (
        flags.take_option(args, flag) for flag in ("--format", "--out", "--env", "--policy")
    )
    flags.refuse_left(args, "export")
    if target is None:
        raise ConfigError(
            "which run? For example: puffer-train export latest (puffer-train export --help shows "
            "more)"
        )
    from puffervec.train.metrics.tables import note
    from puffervec.wings.export.exporting import export_run

    for file in export_run(target, kind, None if out is None else Path(out), note, code):
        print(file.text())


VERB = Verb(
    "export",
    "RUN|CHECKPOINT|latest [flags]",
    "a run's policies as ONNX or torch.export files",
    ABOUT,
    run,
    values={"--format": ("onnx", "pt2")},
)
