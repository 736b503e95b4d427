# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train play`: play one agent of a run's env in the browser, among trained ones."""

from __future__ import annotations

import dataclasses

from puffervec.commands.players import PlayerRequest, add_player, find_player, is_env, player_fields
from puffervec.commands.serving import add_server, announce, check_port
from puffervec.commands.verb import StopSignals, Verb
from puffervec.errors import ConfigError
from puffervec.system.arguments import Parser
from puffervec.train.config.sections import TrainConfig
from puffervec.train.config.target import env_spec, evaluation_config, native_env

ABOUT = """\
Serves a page on which you play one agent by keyboard or touch, at the pace of the env, while the
policies of a run play the others; then the policy plays the same agent in the same episode, and
both scores are shown. An ENV alone acts at random, or as --baseline says. The page is for this
machine alone, as that of watch. Ctrl-C ends it. In drive --seed is the number of the scene."""


def options(parser: Parser) -> None:
    """Declare the flags of play."""
    add_server(parser)
    add_player(parser)


def run(args: list[str], signals: StopSignals) -> None:
    """`puffer-train play RUN`."""
    from puffervec.viewing.web.play import Game, play
    from puffervec.viewing.web.serve import Server

    asked = VERB.parse(args)
    check_port(asked.port)
    request = PlayerRequest(asked.target, **player_fields(asked))
    if is_env(request.target) and request.baseline is None:
        request = dataclasses.replace(request, baseline="random")
    server = Server(asked.host, asked.port)
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
    """Return a run's config as it is evaluated.

    Raises: ConfigError: an env that cannot be played.
    """
    native = native_env(config.target)
    if native is None or native.drawing is None or native.keys is None:
        raise ConfigError(
            f"{config.target} does not say how it is drawn and played by keys (drawing and keys "
            "of NativeEnv)"
        )
    return evaluation_config(config)


VERB = Verb(
    "play", "RUN|latest|ENV [flags]", "play one agent by keyboard among trained ones", ABOUT, run,
    options,
)  # fmt: skip
