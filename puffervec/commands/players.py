# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The actor and the env that `eval`, `render`, `play`, `watch` and `report` share.

It checks as much as possible before it imports torch.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import puffervec.envs
from puffervec.contract.evaluation import Actor, Evaluation, progress_to
from puffervec.errors import ConfigError
from puffervec.system.arguments import Parser
from puffervec.train.config import flags
from puffervec.train.config.sections import TrainConfig
from puffervec.train.config.target import env_spec, native_env, own_evaluation
from puffervec.train.metrics.tables import ProgressLines, note
from puffervec.workers.python.creators import Creator, load, run_user_code

if TYPE_CHECKING:
    from puffervec.train.policies.mapping import PolicyRows
    from puffervec.train.policies.run_spec import RunSpec


@dataclass(frozen=True)
class PlayerRequest:
    """The requested actor: a run's policies, or a baseline."""

    target: str  # A run, a checkpoint, latest, or an env.
    baseline: str | None = None
    seed: int = 0
    device: str = "cpu"
    deterministic: bool = True
    code: tuple[str | None, ...] = ()  # Env and policy that the user named, which may be imported.
    env_flags: tuple[str, ...] = ()  # --env.NAME VALUE ..., unparsed.
    opponents: tuple[str, ...] = ()  # NAME=WHO, unparsed.
    progress: bool = False  # Whether to print progress to standard error.
    of_env: str | None = None  # The env that the run must be of, if the user named one.


Request = TypeVar("Request", bound=PlayerRequest)


@dataclass(frozen=True)
class Player:
    """An actor and the env in which it acts.

    Attributes:
        config: config of the run or env, with the settings for playing.
        actor: the actor.
        label: name of the run, checkpoint or baseline.
        folder: folder of the run whose policies act; None for a baseline, and for a checkpoint
            outside a run folder.
        checkpoint: name of the checkpoint, "" for a baseline.
        trained: the config with which the actor was trained; None for a baseline.
    """

    config: TrainConfig
    actor: Actor
    label: str
    folder: Path | None = None
    checkpoint: str = ""
    trained: TrainConfig | None = None


def add_player(parser: Parser) -> None:
    """Declare the flags that choose the actor and the env; Verb.parse collects the env's flags."""
    # fmt: off
    flag = parser.flag
    flag("--env.NAME VALUE", "settings of the env, which override those of the run")
    flag("--scenes WHAT", "short for --env.scenes")
    flag("--baseline WHO", "baseline that acts or is compared: random, one of the env's baselines "
         "(drive: stop, lane-follow, constant-velocity, idm, log, expert), or module:Class for "
         "your own actor (puffervec.contract.evaluation.Actor)")
    flag("--opponent NAME=WHO", "let a baseline (random) or the policy of another run act in place "
         "of the policy NAME; repeatable", action="append", default=[])
    add_code(
        parser,
        "policy of the run, if it is your own code; with an ENV: the run whose policy acts, or the "
        "name of one that comes with the env (drive: driver)",
    )
    flag("--seed N", "seed of envs and of sampled actions [default: %(default)s]",
         type=flags.at_least(0), default=0)
    flag("--device NAME", "device: auto, cpu, cuda or cuda:N [default: %(default)s]", default="cpu")
    flag("--sample", "sample actions; otherwise a policy takes its most probable or mean action")
    flag("--progress", "print progress to standard error, for programs: lines such as "
         '"progress evaluating 0.250"')
    parser.set_defaults(env_flags=())
    # fmt: on


def add_code(parser: Parser, policy: str = "policy of the run, if it is your own code") -> None:
    """Declare --env and --policy, which name the user's code that may be imported.

    Args: policy: help text of --policy.
    """
    # fmt: off
    flag = parser.flag
    flag("--env MODULE:FACTORY", "env of the run, if it is your own code, which is imported only "
         "if you name it")
    flag("--policy MODULE:CLASS", policy)
    # fmt: on


def player_fields(parsed: argparse.Namespace) -> dict[str, Any]:
    """Return the values of a PlayerRequest, except the target, from parsed arguments."""
    return {
        "baseline": parsed.baseline,
        "seed": parsed.seed,
        "device": parsed.device,
        "deterministic": not parsed.sample,
        "code": (parsed.env, parsed.policy),
        "env_flags": parsed.env_flags,
        "opponents": tuple(parsed.opponent),
        "progress": parsed.progress,
    }


def with_named_policy(request: Request) -> Request:
    """Return the request for the run that acts: `ENV --policy RUN` stands for RUN in ENV.

    A value of --policy with a colon is the user's code instead.
    """
    env, policy = request.code or (None, None)
    if policy is None or ":" in policy or not is_env(request.target):
        return request
    return dataclasses.replace(request, target=policy, code=(env, None), of_env=request.target)


def player_words(parsed: argparse.Namespace) -> list[str]:
    """Return the flags that `player_fields` reads, as words for another command line."""
    words = [*parsed.env_flags, *(["--sample"] if parsed.sample else [])]
    for flag in ("baseline", "env", "policy", "seed", "device"):
        if getattr(parsed, flag) is not None:
            words += [f"--{flag}", str(getattr(parsed, flag))]
    return words + [word for who in parsed.opponent for word in ("--opponent", who)]


def progress_of(request: PlayerRequest) -> AbstractContextManager[None]:
    """Return a context that prints progress if the request asks for it."""
    return progress_to(ProgressLines() if request.progress else None)


def find_player(request: PlayerRequest, adapt: Callable[[TrainConfig], TrainConfig]) -> Player:
    """Return the requested player, with the requested opponents.

    Args: adapt: returns the config to act in, which the user's settings override; raises
            ConfigError for an unsuitable config of a run, before anything is loaded.
    Raises: ConfigError, CheckpointError, SceneError: bad input.
    """
    return with_opponents(_find_single(request, adapt), request)


def with_opponents(player: Player, request: PlayerRequest) -> Player:
    """Return the player with the requested opponents.

    Raises: ConfigError, CheckpointError: bad input.
    """
    if not request.opponents:
        return player
    actor = _replace_opponents(player.actor, player.config, request)
    return dataclasses.replace(
        player, actor=actor, label=f"{player.label}, {', '.join(request.opponents)}"
    )


def _find_single(request: PlayerRequest, adapt: Callable[[TrainConfig], TrainConfig]) -> Player:
    from puffervec.train.act import evaluate as ev
    from puffervec.train.device.device import choose_device
    from puffervec.train.run.find import read_newest, run_folder_of
    from puffervec.train.run.rundir import CHECKPOINTS

    device = choose_device(request.device)

    def configure(config: TrainConfig) -> TrainConfig:
        return flags.apply_flags(adapt(config), request.env_flags)

    if is_env(request.target):
        if request.baseline is None:
            raise ConfigError(
                f"{request.target} needs --baseline NAME; for a trained policy use its run folder"
            )
        config = configure(TrainConfig.of(request.target))
        if config.python:
            env_spec(config)  # Raises for an env that cannot be made.
    else:

        def load(checkpoint: Path) -> tuple[RunSpec, dict[str, Any]]:
            def configure_run(config: TrainConfig) -> TrainConfig:
                if request.of_env not in (None, config.target):
                    raise ConfigError(
                        f"--policy {request.target} acts in {config.target}, not in "
                        f"{request.of_env}: name a run of {request.of_env}"
                    )
                if request.target == "latest":
                    folder = run_folder_of(checkpoint) or checkpoint
                    note(f"latest is {folder}, a run of {config.target}")
                trained.append(config)
                return configure(config)

            return ev.load_policies(checkpoint, device, request.code, adapt=configure_run)

        trained: list[TrainConfig] = []
        path, (run, policies) = read_newest(request.target, Path("runs"), load, note)
        config = run.config
        if request.baseline is None:
            acting = ev.with_plans(config, policies)
            rows = acting_rows(run)
            actor = ev.PolicyActor(acting, device, request.deterministic, request.seed, rows)
            folder = path.parent.parent if path.parent.name == CHECKPOINTS else None
            # A policy that comes with an env is labelled by name, wherever its files are installed.
            own_name = path if Path(request.target).exists() else request.target
            label = str(folder or own_name)
            return Player(config, actor, label, folder, path.name, trained[-1])
    own = own_evaluation(config.target)
    return Player(
        config, baseline(config.target, own, request.baseline, request.seed), request.baseline
    )


def _replace_opponents(actor: Actor, config: TrainConfig, request: PlayerRequest) -> Actor:
    """Return the actor with other actors for the policies that `--opponent` names.

    Raises: ConfigError, CheckpointError: no such policy, baseline or run exists.
    """
    from puffervec.train.act.acting import Sides
    from puffervec.train.policies.run_spec import RunSpec

    own, rows = own_evaluation(config.target), RunSpec.of(config).rows
    others: dict[str, Actor] = {}
    for name, values in flags.group_by_policy(config, request.opponents).items():
        if name not in rows:
            raise ConfigError(
                f"--opponent {name}={values[-1]}: there is no policy {name!r}: the policies are "
                f"{', '.join(rows)}"
            )
        if rows[name].agents is not None and own is not None and own.other_rows:
            raise ConfigError(
                f"--opponent {name}={values[-1]}: an evaluation of {config.target} has other rows "
                "than the training: use a suite that takes --against"
            )
        others[name] = find_other_side(values[-1], config, request, "--opponent")
    return Sides(actor, others, rows)


def find_other_side(who: str, config: TrainConfig, request: PlayerRequest, flag: str) -> Actor:
    """Return the actor of a baseline or of another run, to act in the env of a config.

    Args: flag: the flag that names it, for messages.
    Raises: ConfigError, CheckpointError: no such baseline or run exists, or it does not fit.
    """
    from puffervec.train.act import evaluate as ev
    from puffervec.train.device.device import choose_device
    from puffervec.train.run.find import read_newest

    if who in known_baselines(config.target) or ":" in who:
        return baseline(config.target, own_evaluation(config.target), who, request.seed)
    device = choose_device(request.device)

    def same_env(theirs: TrainConfig) -> TrainConfig:
        if theirs.target != config.target:
            raise ConfigError(f"{flag} {who} is a run of {theirs.target}, not of {config.target}")
        return dataclasses.replace(theirs, env=config.env, creator=config.creator)

    def load(checkpoint: Path) -> tuple[RunSpec, dict[str, Any]]:
        return ev.load_policies(checkpoint, device, request.code, adapt=same_env)

    _, (run, policies) = read_newest(who, Path("runs"), load, note)
    rows = acting_rows(run)
    return ev.PolicyActor(policies, device, request.deterministic, request.seed, rows)


def acting_rows(run: RunSpec) -> Mapping[str, PolicyRows]:
    """Return, for each policy of a run, the rows for which it acts in an evaluation."""
    own = own_evaluation(run.config.target)
    if own is None or not own.other_rows:
        return run.rows
    chosen: dict[str, tuple[str, PolicyRows]] = {}  # by row group
    for name, rows in run.rows.items():
        before = chosen.get(rows.group.name)
        if before is None or (rows.settings.role.learns and not before[1].settings.role.learns):
            chosen[rows.group.name] = name, rows
    groups = {group.name: group for group in run.spec.groups}
    return {
        name: dataclasses.replace(rows, group=groups[group], agents=None)
        for group, (name, rows) in chosen.items()
    }


def _make_actor(name: str, seed: int) -> Actor:
    """Make an actor with the user's code. Raises: ConfigError: the code fails."""
    make = Creator(load(name))
    actor = run_user_code(name, "cannot be made", lambda: make.make(seed))
    if missing := [
        method for method in ("reset", "act") if not callable(getattr(actor, method, None))
    ]:
        raise ConfigError(
            f"--baseline {name} returned a {type(actor).__name__} without "
            f"{' and '.join(missing)}: use a class or function that makes an actor with reset(vec) "
            "and act(obs, vec), see puffervec.contract.evaluation.Actor"
        )
    return cast(Actor, actor)


def is_env(target: str) -> bool:
    """Return whether a target names an env.

    `latest` does not, and a path does only if a C env has its name.
    """
    if target in puffervec.envs.names():
        return True
    if target == "latest" or Path(target).exists():
        return False
    try:
        native_env(target)
    except ConfigError:
        return False
    return True


def known_baselines(target: str) -> list[str]:
    """Return the names of an env's baselines."""
    own = own_evaluation(target)
    return list(dict.fromkeys(("random", *(own.baselines if own is not None else ()))))


def baseline(target: str, own: Evaluation | None, name: str, seed: int) -> Actor:
    """Return the baseline of that name, or the actor that "module:Class" makes.

    Raises: ConfigError: it does not exist, or is not an actor.
    """
    from puffervec.train.act.evaluate import RandomActor

    if ":" in name:
        return _make_actor(name, seed)
    known = {"random": RandomActor, **(own.baselines if own is not None else {})}
    if name not in known:
        raise ConfigError(
            f"--baseline {name}: {target} has {', '.join(known)}; or use module:Class for your own "
            "actor"
        )
    return known[name](seed)
