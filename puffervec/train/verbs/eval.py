# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train eval`: its flags. Checks what it can without torch; evaluation_run.py does the work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from puffervec.errors import ConfigError
from puffervec.train.config import flags
from puffervec.train.verbs.signals import StopSignals
from puffervec.train.verbs.verb import Verb

ABOUT = """\
  Evaluates a run, or with --baseline what needs no training.

  --baseline NAME       of an ENV: random, or what the env brings (drive: stop, lane-follow, log)
  --episodes N          episodes, as the env's evaluation counts them (drive: of each scene) [default: 100, or the env's own]
  --env.NAME VALUE      settings of the env, over those of the run
  --scenes WHAT         short for --env.scenes
  --env MODULE:FACTORY  the run's env where it is code of yours, which eval imports only if you name it
  --policy MODULE:CLASS the run's policy, likewise
  --json FILE           also write the results as JSON
  --csv FILE            ... as CSV, one line per part (agent type; drive: scene)
  --png FILE|FOLDER     draw episodes, where the env can
  --draw WHICH          which parts: part:NAME, worst:N (by score) or all [default: worst:10 into a folder]
  --seed N              of envs and of drawn actions [default: 0]
  --device NAME         auto, cpu, cuda or cuda:N [default: cpu]
  --sample              draw actions instead of taking the likeliest one

  Pictures show episodes of their own, with the same seeds: the same ones, unless actions are drawn.
"""
_VALUES = ("episodes", "baseline", "png", "draw", "json", "csv", "seed", "device", "env", "policy")


@dataclass(frozen=True)
class EvalRequest:
    """What `puffer-train eval` was asked for."""

    target: str
    episodes: int | None = None
    baseline: str | None = None
    png: Path | None = None
    draw: str | None = None
    json: Path | None = None
    csv: Path | None = None
    seed: int = 0
    device: str = "cpu"
    deterministic: bool = True
    code: tuple[str | None, ...] = ()  # env and policy as the user has named them, so that they may be imported
    env_flags: tuple[str, ...] = ()  # --env.NAME VALUE ..., as given


def parse(args: list[str]) -> EvalRequest:
    """Return the request that the arguments make.

    Raises: ConfigError: an unknown flag, or a value that does not fit; one line.
    """
    target = flags.take_target(args)
    if target is None:
        raise ConfigError("which run? For example: puffer-train eval latest (puffer-train eval --help shows more)")
    values = {name: flags.take_option(args, f"--{name}") for name in _VALUES}
    env_flags = _take_env_flags(args)
    flags.refuse_left([arg for arg in args if arg != "--sample"], "eval")
    if values["draw"] is not None and values["png"] is None:
        raise ConfigError(f"--draw {values['draw']} needs --png FILE or --png FOLDER")
    return EvalRequest(
        target=target,
        episodes=flags.whole("--episodes", values["episodes"], 1),
        baseline=values["baseline"],
        png=_path(values["png"]),
        draw=values["draw"],
        json=_path(values["json"]),
        csv=_path(values["csv"]),
        seed=flags.whole("--seed", values["seed"], 0) or 0,
        device=values["device"] or "cpu",
        deterministic="--sample" not in args,
        code=(values["env"], values["policy"]),
        env_flags=tuple(env_flags),
    )


def _take_env_flags(args: list[str]) -> list[str]:
    """Remove `--env.NAME [VALUE]` and their short forms from args and return them."""
    taken = []
    at = 0
    while at < len(args):
        if not args[at].startswith("--env.") and args[at].partition("=")[0] not in flags.ENV_ALIASES:
            at += 1
            continue
        has_value = "=" not in args[at] and at + 1 < len(args) and not args[at + 1].startswith("--")
        taken += args[at : at + 1 + has_value]
        del args[at : at + 1 + has_value]
    return taken


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def run(args: list[str], signals: StopSignals) -> None:
    """Evaluate."""
    request = parse(args)
    from puffervec.train.verbs.evaluation_run import run_evaluation

    run_evaluation(request)


VERB = Verb(
    "eval", "RUN|CHECKPOINT|latest|ENV [flags]", "rates of a trained policy, or of a baseline", ABOUT, run,
    values={"--device": ("auto", "cpu", "cuda")},
)  # fmt: skip
