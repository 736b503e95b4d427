# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What people read at the end: the table of a finished run, the tables of `puffer-train eval`, the commands to try next."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import puffervec.envs
from puffervec import extras
from puffervec.errors import ConfigError
from puffervec.train import evaluate as ev
from puffervec.train.commands import print_command
from puffervec.train.config import TrainConfig
from puffervec.train.dashboard import clock, time_split
from puffervec.train.device import choose_device
from puffervec.train.output import printable
from puffervec.train.rundir import CHECKPOINTS, read_newest
from puffervec.train.target import env_spec, native_env


@dataclasses.dataclass(frozen=True)
class EvalRequest:
    """What `puffer-train eval` was asked for."""

    target: str
    episodes: int | None
    scenes: str | None
    baseline: str | None
    png: Path | None
    seed: int
    device: str
    deterministic: bool
    code: tuple[str | None, ...] = ()  # env and policy as the user has named them, so that they may be imported


def print_scenes(config: TrainConfig) -> None:
    """Say what the env trains on, where it can tell: number of scenes, what was left out, how far agents see."""
    describe = ev.companion(config.target, "describe", "describe_scenes")
    if describe is not None:
        print(describe(config.env).text())


def print_summary(config: TrainConfig, folder: Path, metrics: Mapping[str, float], final_eval: bool) -> None:
    """Print the last rates of a run, evaluate it where the env has an evaluation of its own, and say what to try next."""
    if metrics:
        rows = [
            ("agent-steps", f"{metrics['step']:,.0f}"),
            ("time", clock(metrics["elapsed_s"])),
            ("agent-steps/s, whole run", f"{metrics['step'] / max(metrics['elapsed_s'], 1e-9):,.0f}"),
            *((key.removeprefix("episode/"), f"{metrics[key]:.3f}") for key in metrics if key.startswith("episode/")),
            *((key.removeprefix("env/"), f"{metrics[key]:.3f}") for key in metrics if key.startswith("env/")),
        ]
        print_table("Training, means over the latest episodes", ("", ""), rows)
        print(f"  time split of the last update: {time_split(metrics)}")
    if metrics and final_eval and ev.evaluation_hook(config.target) is not None:
        run_evaluation(EvalRequest(str(folder), None, None, None, None, 0, "cpu", True, _code(config)), per_scene=False)
    scenes = ["--png", "scene.png"] if hasattr(config.env, "scenes") else []
    print("\nTry next:")
    print_command("puffer-train", "eval", folder, *own_code(config), *scenes)
    print_command("puffer-train", config.target, "--resume", folder, *_longer(config, metrics))
    if hasattr(config.env, "scenes"):
        print_command("puffer-train", config.target, "--scenes", "FOLDER")


def _code(config: TrainConfig) -> tuple[str, ...]:
    return config.target, config.policy.kind


def own_code(config: TrainConfig) -> list[str]:
    """Return the flags with which eval and export may import what a run of this config uses."""
    named = zip(("--env", "--policy"), _code(config), strict=True)
    return [word for flag, name in named if ":" in name for word in (flag, name)]


def _longer(config: TrainConfig, metrics: Mapping[str, float]) -> list[str]:
    """Flags for a run twice as long, by the budget that ended this one."""
    section = config.train
    if section.time_limit_s > 0 and metrics.get("step", 0) < section.total_timesteps:
        return ["--time-limit-s", f"{2 * section.time_limit_s:g}"]
    return ["--total-timesteps", str(2 * section.total_timesteps)]


def print_table(title: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print left-aligned first, right-aligned other columns, as plain text."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    print(f"\n{title}")
    for row in [head, *rows] if any(head) else rows:
        cells = [row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print("  " + "  ".join(cells).rstrip())


def note(text: str) -> None:
    """Say something beside the results: on standard error."""
    print(f"puffer-train: note: {printable(text)}", file=sys.stderr)


def run_evaluation(request: EvalRequest, per_scene: bool = True) -> int:
    """Evaluate a run, a checkpoint or a baseline, print the table and return the exit code.

    Raises: ConfigError, CheckpointError, SceneError: bad input, before anything runs.
    """
    device = choose_device(request.device)
    if _is_env(request.target):
        if request.baseline is None:
            raise ConfigError(f"eval {request.target} needs --baseline NAME; for a trained policy give its run folder")
        config, actor, label = TrainConfig.of(request.target), None, request.baseline
        if config.python:
            env_spec(config)  # Refuses what cannot be made.
    else:

        def load(found: Path) -> tuple[TrainConfig, dict[str, Any]]:
            return ev.load_policies(found, device, request.code)

        path, (config, policies) = read_newest(request.target, Path("runs"), load, note)
        actor = ev.PolicyActor(policies, device, request.deterministic, request.seed)
        label = str(path.parent.parent if path.parent.name == CHECKPOINTS else path)
    if ev.evaluation_hook(config.target) is not None:
        return _own_evaluation(config, actor, label, request, per_scene)
    return _generic_evaluation(config, actor, label, request)


def _is_env(target: str) -> bool:
    """True where a target of eval names an env: not `latest`, and no folder unless it is a C env's name."""
    if target in puffervec.envs.names():
        return True
    if target == "latest" or Path(target).exists():
        return False
    try:
        native_env(target)
    except ConfigError:
        return False
    return True


def _own_evaluation(config: TrainConfig, actor: ev.Actor | None, label: str, request: EvalRequest, per_scene: bool) -> int:
    """Rates per scene, as the env's own evaluation counts them; optionally a picture of one scene."""
    from rich.console import Console

    evaluate, draw = ev.companion(config.target, "evaluate", "evaluate"), ev.companion(config.target, "evaluate", "draw")
    assert evaluate is not None and draw is not None
    if request.png is not None:
        _check_picture(request.png)
    env = config.env
    if hasattr(env, "scenes"):
        generated = env.scenes.partition(":")[0] == "generated"
        env = dataclasses.replace(env, scenes=request.scenes or ("held-out" if generated else env.scenes))
    if actor is None or request.baseline is not None:
        baseline = ev.companion(config.target, "baselines", "baseline")
        assert baseline is not None and request.baseline is not None
        actor, label = baseline(request.baseline), request.baseline
    found = evaluate(actor, env, episodes=request.episodes or 1, seed=request.seed)
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    title = f"{config.target}: {label} on {getattr(env, 'scenes', 'its scenes')}"
    shown = found if per_scene else dataclasses.replace(found, scenes=())
    console.print(shown.table(title))
    if request.png is not None:
        scene = draw(request.png, actor, env, seed=request.seed)
        print(f"{request.png}: {scene}, driven by {label}")
    return 0


def _check_picture(path: Path) -> None:
    """Refuse a picture that could not be written, before the time for the evaluation is spent."""
    if path.suffix.lower() != ".png":
        raise ConfigError(f"--png {path}: the name must end in .png")
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"--png {path}: there is no folder {path.absolute().parent}")
    extras.require("--png", "matplotlib")


def _generic_evaluation(config: TrainConfig, actor: ev.Actor | None, label: str, request: EvalRequest) -> int:
    if request.png is not None or request.scenes is not None:
        raise ConfigError(f"--png and --scenes are for envs with scenes, {config.target} has none")
    if request.baseline not in (None, "random"):
        raise ConfigError(f"--baseline {request.baseline}: {config.target} has only random")
    if request.baseline is not None or actor is None:
        actor, label = ev.RandomActor(request.seed), "random"
    episodes = request.episodes or 100
    if config.python:
        rates = ev.evaluate_python(config, actor, episodes, request.seed)
    else:
        rates = ev.evaluate_generic(config.target, config.env, actor, episodes, request.seed)
    rows = [
        (
            str(r.agent_type),
            str(r.episodes),
            f"{r.episode_return[0]:.3f} +- {r.episode_return[1]:.3f}",
            f"{r.length[0]:.1f} +- {r.length[1]:.1f}",
        )
        for r in rates
    ]
    head = ("agent" if config.python else "agent type", "episodes", "return", "length")
    print_table(f"{config.target}: {label}, means with 95 % intervals", head, rows)
    return 0
