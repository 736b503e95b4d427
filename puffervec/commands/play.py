# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train play`: play one agent of a run's env in the browser, among trained agents."""

from __future__ import annotations

import dataclasses

from puffervec.commands.players import (
    PlayerRequest,
    add_player,
    find_player,
    is_env,
    player_fields,
    with_named_policy,
)
from puffervec.commands.serving import add_server, announce, check_port
from puffervec.commands.verb import StopSignals, Verb
from puffervec.errors import ConfigError
from puffervec.system.arguments import Parser
from puffervec.train.config.sections import TrainConfig
from puffervec.train.config.target import env_spec, evaluation_config, native_env

ABOUT = """\
Serves a page on which you play one agent by keyboard or touch, at the pace of the env, while the
policies of a run play the others; then the policy plays the same agent in the same episode, and
both scores are shown. With an ENV instead of a run, the others act randomly or by --baseline. Like
that of watch, the page can be opened only on this machine. Ctrl-C ends it. In drive, --seed is the
number of the scene."""


def options(parser: Parser) -> None:
    """Declare the flags of play."""
    add_server(parser)
    add_player(parser)


def run(args: list[str], signals: StopSignals) -> None:
    """Run `puffer-train play RUN`."""
    from puffervec.viewing.web.play import Game, play
    from puffervec.viewing.web.serve import Server

    parsed = VERB.parse(args)
    check_port(parsed.port)
    request = with_named_policy(PlayerRequest(parsed.target, **player_fields(parsed)))
    if is_env(request.target) and request.baseline is None:
        request = dataclasses.replace(request, baseline="random")
    server = Server(parsed.host, parsed.port)
    player = find_player(request, adapt_config)
    env_spec(player.config)
    env = native_env(player.config.target)
    assert env is not None
    game = Game(env, player.config.env, player.actor)
    try:
        signals.received = play(game, request.seed, server, announce)
    finally:
        game.close()


def adapt_config(config: TrainConfig) -> TrainConfig:
    """Return the evaluation config of a run.

    Raises: ConfigError: the env cannot be played.
    """
    native = native_env(config.target)
    if native is None or native.drawing is None or native.keys is None:
        raise ConfigError(
            f"{config.target} cannot be played: it must define drawing and keys of NativeEnv"
        )
    return evaluation_config(config)


VERB = Verb(
    "play", "RUN|latest|ENV [flags]", "play one agent by keyboard among trained ones", ABOUT, run,
    options,
)  # fmt: skip
