# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train play`: somebody plays one agent of a run's env in the browser, among trained ones."""

from __future__ import annotations

from puffervec.commands.players import PlayerRequest, find_player, is_env, take_player
from puffervec.commands.serving import announced, take_server
from puffervec.commands.verb import StopSignals, Verb
from puffervec.errors import ConfigError
from puffervec.train.config import flags
from puffervec.train.config.sections import TrainConfig
from puffervec.train.config.target import as_evaluated, env_spec, native_env

ABOUT = """\
  Serves a page on which you play one agent by keyboard or touch, at the pace of the env, while the policies of a run play the
  others; then the policy plays the same agent in the same episode, and both scores stand side by side. An ENV alone acts at
  random, or as --baseline says. The page is for this machine alone, as that of watch. Ctrl-C ends it.

  --port N              [default: any that is free]
  --host ADDRESS        127.0.0.1 or ::1 [default: 127.0.0.1]
  --env.NAME VALUE      settings of the env, over those of the run
  --scenes WHAT         short for --env.scenes
  --baseline NAME       random, or what the env brings, in place of a policy
  --policy MODULE:CLASS the run's policy where it is code of yours, which play imports only if you name it
  --opponent NAME=WHO   the policy NAME is played by a baseline (random), or by that of another run; any number of these
  --seed N              of the first episode and of drawn actions; in drive the number of the scene [default: 0]
  --device NAME         auto, cpu, cuda or cuda:N [default: cpu]
  --sample              draw actions instead of taking the likeliest one
"""


def run(args: list[str], signals: StopSignals) -> None:
    """`puffer-train play RUN`."""
    from puffervec.viewing.web.play import Game, play
    from puffervec.viewing.web.serve import Server

    target = flags.take_target(args)
    if target is None:
        raise ConfigError(
            "which run or env? For example: puffer-train play latest (puffer-train play --help "
            "shows more)"
        )
    host, port = take_server(args)
    asked = take_player(args)
    flags.refuse_left(args, "play")
    if is_env(target) and asked["baseline"] is None:
        asked["baseline"] = "random"
    request = PlayerRequest(target, **asked)
    server = Server(host, port)
    player = find_player(request, adapted)
    env_spec(player.config)
    env = native_env(player.config.target)
    assert env is not None
    game = Game(env, player.config.env, player.actor)
    try:
        signals.received = play(game, request.seed, server, announced)
    finally:
        game.close()


def adapted(config: TrainConfig) -> TrainConfig:
    """Return a run's config as it is evaluated. Raises: ConfigError: an env that nobody can play."""
    native = native_env(config.target)
    if native is None or native.drawing is None or native.keys is None:
        raise ConfigError(
            f"{config.target} does not say how it is drawn and played by keys (drawing and keys "
            "of NativeEnv)"
        )
    return as_evaluated(config)


VERB = Verb(
    "play", "RUN|latest|ENV [flags]", "play one agent by keyboard among trained ones", ABOUT, run,
    values={"--device": ("auto", "cpu", "cuda"), "--host": ("127.0.0.1", "::1")},
)  # fmt: skip
