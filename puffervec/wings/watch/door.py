# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train watch`: a page in the browser that follows runs as they train."""

from __future__ import annotations

from pathlib import Path

from puffervec.commands.players import take_player
from puffervec.commands.serving import announced, take_server
from puffervec.commands.verb import StopSignals, Verb
from puffervec.errors import ConfigError
from puffervec.train.config import flags

ABOUT = """\
  Serves a page that follows runs while they train: curves, where the time goes, replays of the
  newest checkpoint, and the evaluation with the scenes that fail. RUN is a run folder, or a folder
  of runs, which may be empty. Nothing is written there. Ctrl-C ends it.

  The page can only be opened on this machine, with the whole URL, which holds a secret. From
  another machine: ssh -L 8000:127.0.0.1:8000 MACHINE puffer-train watch runs --port 8000

  --port N              [default: any that is free]
  --host ADDRESS        127.0.0.1 or ::1 [default: 127.0.0.1]
  --replay-every N      seconds between the replays that are recorded of new checkpoints while the
                        page is open; 0: only replays that you ask for [default: 60]

  Evaluations and replays take the flags of eval and render:
  --env MODULE:FACTORY  the run's env where it is code of yours, which is imported only if you name
                        it
  --policy MODULE:CLASS the run's policy, likewise
  --env.NAME VALUE      settings of the env, over those of the run
  --scenes WHAT         short for --env.scenes
  --opponent NAME=WHO   the policy NAME is played by a baseline (random), or by that of another run
  --seed N              of envs and of drawn actions [default: 0]
  --device NAME         auto, cpu, cuda or cuda:N [default: cpu]
  --sample              draw actions instead of taking the likeliest one
"""
REPLAY_EVERY_S = 60


def run(args: list[str], signals: StopSignals) -> None:
    """Run `puffer-train watch RUN...`."""
    from puffervec.wings.watch.page import watch

    where = []
    while (path := flags.take_target(args)) is not None:
        where.append(Path(path))
    if not where:
        raise ConfigError(
            "which runs? For example: puffer-train watch runs (puffer-train watch --help shows "
            "more)"
        )
    host, port = take_server(args)
    every_s = flags.whole("--replay-every", flags.take_option(args, "--replay-every"), 0)
    player_flags = list(args)
    take_player(args)
    flags.refuse_left(args, "watch")
    signals.received = watch(
        where, host, port, player_flags, announced, REPLAY_EVERY_S if every_s is None else every_s
    )


VERB = Verb(
    "watch",
    "RUN... [flags]",
    "a page that follows runs: curves, replays, failing scenes",
    ABOUT,
    run,
    trainer=False,
    values={"--device": ("auto", "cpu", "cuda"), "--host": ("127.0.0.1", "::1")},
)
