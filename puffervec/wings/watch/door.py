# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train watch`: a page in the browser that follows runs as they train."""

from __future__ import annotations

from pathlib import Path

from puffervec.commands.players import add_player, player_words
from puffervec.commands.serving import add_server, announce, check_port
from puffervec.commands.verb import StopSignals, Verb
from puffervec.errors import ConfigError
from puffervec.system.arguments import Parser
from puffervec.train.config import flags
from puffervec.train.config.sections import LogSection
from puffervec.train.run.folders import RUN_FILE, newest_first

ABOUT = """\
Serves a page that follows runs while they train: curves, where the time goes, replays of the
newest checkpoint, and the evaluation with the scenes that fail. RUN is a run folder, a folder of
runs, which may be empty, or latest, the run in runs that was started or resumed last. Nothing is
written there. Ctrl-C ends it. Evaluations and replays take the flags of eval and render.

The page can only be opened on this machine, with the whole URL, which holds a secret. From another
machine: ssh -L 8000:127.0.0.1:8000 MACHINE puffer-train watch runs --port 8000"""
REPLAY_EVERY_S = 60


def options(parser: Parser) -> None:
    """Declare the flags of watch."""
    # fmt: off
    add_server(parser)
    parser.flag("--replay-every N", "seconds between replays of new checkpoints, which are "
                "recorded while the page is open; 0: only those that are asked for "
                "[default: %(default)s]",
                type=flags.at_least(0), default=REPLAY_EVERY_S)
    add_player(parser)
    # fmt: on


def resolve(target: str, runs: Path) -> Path:
    """Return the folder to follow; "latest" is the run in `runs` that was started or resumed last.

    Raises:
        ConfigError: there is no such run.
    """
    if target != "latest":
        return Path(target)
    for folder in newest_first(runs):
        if (folder / RUN_FILE).is_file():
            return folder
    raise ConfigError(f"no run was started in {runs.absolute()}: give run folders")


def run(args: list[str], signals: StopSignals) -> None:
    """Run `puffer-train watch RUN...`."""
    from puffervec.wings.watch.page import watch

    parsed = VERB.parse(args)
    check_port(parsed.port)
    signals.received = watch(
        [resolve(target, LogSection().folder) for target in parsed.target],
        parsed.host,
        parsed.port,
        player_words(parsed),
        announce,
        parsed.replay_every,
    )


VERB = Verb(
    "watch", "RUN|latest... [flags]",
    "a page that follows runs: curves, replays, failing scenes", ABOUT, run,
    options, trainer=False,
)  # fmt: skip
