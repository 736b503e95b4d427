# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Training end to end: agent-steps/s, where the time goes, how long a score takes, and what each way of working gains.

    python bench/train.py                                speed of all presets, and the ladder from a naive loop for both envs
    python bench/train.py --parts score --runs drive     time to a score, and the score on scenes never trained on
    python bench/train.py --parts ladder --envs tag_grid --seconds 5
    python bench/train.py --device cuda --png train.png

Each line names what the figure depends on: floats per observation, the policy's parameters, and the replay ratio (samples
learned from per sample simulated). A sample is a fresh start of workers and policy; its first fifth is left out.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import math
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common, loops, modes
from bench.workloads import Workload, draw_actions
from puffervec.cores import usable_cores
from puffervec.errors import ConfigError, MissingExtraError, PuffervecError
from puffervec.train import TrainConfig, Trainer
from puffervec.train import evaluate as ev
from puffervec.train.dashboard import TIME_PARTS, Silent
from puffervec.train.log import METRICS_FILE, read_metrics

WARM_SHARE = 0.2
FEWEST_UPDATES = 4
PARTS = ("speed", "ladder", "score")
TRAINER = "the trainer"
ENDLESS = 10**15
HELD_OUT_SEED = 0


@dataclasses.dataclass(frozen=True)
class Run:
    """A preset with changes. metric, wanted: what counts as its score, and the score that time is taken to; "": it has none."""

    target: str
    tables: Mapping[str, Mapping[str, Any]]
    metric: str = ""
    wanted: float = 0.0


RUNS = {
    "drive": Run("drive", {}, "env/score", 0.70),
    # Half a million parameters, and each sample learned from once.
    "drive-500k": Run("drive", {"policy": {"hidden": (576, 464)}, "train": {"update_epochs": 1}}, "env/score", 0.70),
    "tag_grid": Run("tag_grid", {}),  # Agents of both sides learn, so neither side's return says how well they play.
}


def config_of(run: Run, device: str, limit_s: float = 0.0, seed: int = 1) -> TrainConfig:
    """Return the config of a run that is silent, and ends by itself after `limit_s` only."""
    quiet = {"dashboard": "off", "checkpoint_interval_s": 1e9}
    limits = {"time_limit_s": limit_s, "total_timesteps": ENDLESS, "device": device, "seed": seed}
    return TrainConfig.of(run.target, **run.tables).merged({"train": limits, "log": quiet})


def facts_of(trainer: Trainer) -> dict[str, Any]:
    """Return what an end-to-end figure depends on, besides the machine."""
    spec, config = trainer.vec.spec, trainer.config
    floats = {group.name: sum(math.prod(field.shape) for field in group.fields) for group in spec.groups}
    return {
        "observation_floats": sum(floats.values()) if len(floats) == 1 else floats,
        "parameters": sum(p.numel() for policy in trainer.policies.values() for p in policy.parameters()),
        "replay_ratio": config.train.update_epochs,
        "num_envs": config.vec.num_envs,
        "rows": trainer.vec.num_agents,
        "horizon": config.train.horizon,
        "buffers": trainer.vec.num_buffers,
        "description": trainer.describe(),
    }


# ---- speed -------------------------------------------------------------------------------------------------


class Watch(Silent):
    """Stops a run once `enough(metrics)`; goes where a dashboard goes."""

    def __init__(self, enough: Callable[[Mapping[str, float]], bool]) -> None:
        self.enough = enough
        self.trainer: Trainer | None = None
        self.updates = 0

    def show(self, metrics: Mapping[str, float], progress: float) -> None:
        """Look at the metrics of an update."""
        self.updates += 1
        if self.enough(metrics):
            assert self.trainer is not None
            self.trainer.request_stop()


def trained(config: TrainConfig, seconds: float, prepare: Callable[[Trainer], None] = lambda trainer: None) -> dict[str, Any]:
    """Train for `seconds`, but at least a few updates, and return rates and the split of time.

    Args: config: its files go into a folder that is removed; prepare: called before the first roll-out.
    """
    watch = Watch(lambda metrics: metrics["elapsed_s"] >= seconds and watch.updates >= FEWEST_UPDATES)
    with tempfile.TemporaryDirectory(prefix="puffervec-train-") as folder:
        with Trainer(config.merged({"log": {"folder": folder}}), dashboard=watch) as trainer:
            watch.trainer = trainer
            prepare(trainer)
            facts = facts_of(trainer)
            trainer.train()
        return {"facts": facts, **rates(list(read_metrics(trainer.folder / METRICS_FILE)), facts)}


def speed_sample(run: Run, seconds: float, device: str) -> dict[str, Any]:
    """Train a fresh run for about `seconds`; see `trained`."""
    return trained(config_of(run, device), seconds)


def rates(lines: Sequence[Mapping[str, float]], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the lines of a log say: agent-steps/s, env-steps/s, shares of time, seconds of one step of all envs in a
    roll-out and of the policy on one half. lines: two or more."""
    first = max(0, min(len(lines) - 2, int(WARM_SHARE * len(lines))))
    begin, kept = lines[first], lines[first + 1 :]
    spans = [line["elapsed_s"] - before["elapsed_s"] for before, line in zip(lines[first:], kept, strict=False)]
    span = sum(spans)
    shares = {
        part: sum(line[f"time/{part}"] * length for line, length in zip(kept, spans, strict=True)) / span for part in TIME_PARTS
    }
    steps = len(kept) * facts["horizon"]
    return {
        "agent_steps_per_s": (kept[-1]["step"] - begin["step"]) / span,
        "env_steps_per_s": steps * facts["num_envs"] / span,
        "shares": shares,
        "iteration_s": (shares["env"] + shares["copy"] + shares["forward"]) * span / steps,
        "policy_half_s": (shares["copy"] + shares["forward"]) * span / (steps * facts["buffers"]),
    }


def simulation_half_s(config: TrainConfig, turns: int = 200) -> float:
    """Return the seconds in which all cores simulate one half, by the workers' own time stamps, with nothing else running."""
    workload = Workload(config.target, config.target, config.tables()["env"], config.vec.num_envs)
    with workload.make("serial") as vec:
        drawn = draw_actions(vec.spec, workload.num_envs)
    return modes.measure_half(workload, drawn, usable_cores(), turns, warmup=turns // 4)


def overlap(sample: Mapping[str, Any], simulation_s: float) -> float | None:
    """Return time of an iteration / (2 x the longer of simulation and policy on one half); None without two buffers."""
    if sample["facts"]["buffers"] < 2:
        return None
    return float(sample["iteration_s"] / (2 * max(simulation_s, sample["policy_half_s"])))


def measure_speed(options: argparse.Namespace, note: Any) -> tuple[dict[str, Any], float]:
    """Return the results of all runs, and how much of the machine others took."""
    variants = {name: functools.partial(speed_sample, RUNS[name], options.seconds, options.device) for name in options.runs}
    found = common.interleave(variants, options.repeats, note, options.attempts)
    results = {}
    for name, samples in found.results.items():
        half_s = simulation_half_s(config_of(RUNS[name], options.device))
        overlaps = [value for sample in samples if (value := overlap(sample, half_s)) is not None]
        results[name] = {
            "facts": samples[0]["facts"],
            "agent_steps_per_s": common.figure(sample["agent_steps_per_s"] for sample in samples),
            "env_steps_per_s": common.figure(sample["env_steps_per_s"] for sample in samples),
            "shares": {part: common.figure(sample["shares"][part] for sample in samples) for part in TIME_PARTS},
            "simulation_half_s": half_s,
            "overlap": common.figure(overlaps) if overlaps else None,
        }
    return results, found.foreign


def show_speed(results: Mapping[str, Any]) -> None:
    """Print the table of speeds."""
    rows = []
    for name, found in results.items():
        facts, shares = found["facts"], found["shares"]
        split = ", ".join(f"{part} {100 * shares[part].median:.0f}%" for part in TIME_PARTS)
        rows.append((name, split, str(found["agent_steps_per_s"]), *(common.number(facts[key]) for key in FACTS),
                     "-" if found["overlap"] is None else f"{found['overlap'].median:.2f}"))  # fmt: skip
    columns = ("run", "time", "agent-steps/s", "obs floats", "parameters", "replay ratio", "overlap")
    notes = ["overlap: time of an iteration / (2 x the longer of: all cores simulating one half, policy on one half)"]
    common.print_table("training end to end", columns, rows, notes)


COLOURS = ("#009E73", "#56B4E9", "#0072B2", "#D55E00", "#CC79A7", "#999999")  # Of TIME_PARTS.
FACTS = ("observation_floats", "parameters", "replay_ratio")


# ---- the ladder --------------------------------------------------------------------------------------------


def ladder_sample(run: Run, ways: loops.Ways | None, seconds: float, device: str) -> float:
    """Return agent-steps/s of one rung; None is the trainer itself."""
    if ways is None:
        return float(speed_sample(run, seconds, device)["agent_steps_per_s"])
    return float(loops.measure(config_of(run, device), ways, seconds)["agent_steps_per_s"])


def measure_ladder(options: argparse.Namespace, note: Any) -> tuple[dict[str, Any], float]:
    """Return, by env, agent-steps/s of each rung and its ratios to the naive loop and to the rung before."""
    results, worst = {}, 0.0
    for env in options.envs:
        rungs = {**loops.ladder(), TRAINER: None}
        variants = {
            label: functools.partial(ladder_sample, RUNS[env], ways, options.seconds, options.device)
            for label, ways in rungs.items()
        }
        found = common.interleave(variants, options.repeats, lambda text, env=env: note(f"{env}: {text}"), options.attempts)
        worst = max(worst, found.foreign)
        results[env] = ladder_rows(found.results)
    return results, worst


def ladder_rows(samples: Mapping[str, Sequence[float]]) -> list[dict[str, Any]]:
    """Return a row per rung. samples: agent-steps/s, one per repeat, the naive loop first."""
    labels, rows = list(samples), []
    for before, label in zip([labels[0], *labels], labels, strict=False):
        rows.append(
            {
                "label": label,
                "agent_steps_per_s": common.figure(samples[label]),
                "over_naive": common.ratio(samples[label], samples[labels[0]]),
                "over_before": common.ratio(samples[label], samples[before]),
            }
        )
    return rows


def show_ladder(results: Mapping[str, Any]) -> None:
    """Print a table per env."""
    for env, rows in results.items():
        cells = [(row["label"], str(row["agent_steps_per_s"]), str(row["over_before"]), str(row["over_naive"])) for row in rows]
        common.print_table(
            f"{env}: from a naive loop to the trainer",
            ("each with those above it", "agent-steps/s", "x before", "x naive"),
            cells,
        )


# ---- the score ---------------------------------------------------------------------------------------------


def score_sample(run: Run, limit_s: float, device: str, seed: int) -> dict[str, Any]:
    """Train until the score is reached or `limit_s` are over; return the seconds (None: not reached) and scores."""
    watch = Watch(lambda metrics: metrics.get(run.metric, -math.inf) >= run.wanted)
    with tempfile.TemporaryDirectory(prefix="puffervec-train-") as folder:
        config = config_of(run, device, limit_s, seed).merged({"log": {"folder": folder}})
        with Trainer(config, dashboard=watch) as trainer:
            watch.trainer = trainer
            facts, metrics = facts_of(trainer), trainer.train()
            held_out = held_out_score(trainer)
    return {
        "facts": facts,
        "metric": run.metric,
        "wanted": run.wanted,
        "seconds": metrics["elapsed_s"] if trainer.stop_requested else None,
        "agent_steps": metrics["step"],
        "score": metrics.get(run.metric),
        "held_out_score": held_out,
    }


def held_out_score(trainer: Trainer) -> float | None:
    """Return the score on the scenes that are kept apart for this, where the env has an evaluation of its own."""
    evaluate = ev.evaluation_hook(trainer.config.target)
    if evaluate is None:
        return None
    env = dataclasses.replace(trainer.config.env, scenes="held-out")
    actor = ev.PolicyActor(trainer.policies, trainer.device, deterministic=True, seed=HELD_OUT_SEED)
    found = evaluate(actor, env, episodes=1, seed=HELD_OUT_SEED)
    return float(found.total.rate("score"))


def measure_score(options: argparse.Namespace, note: Any) -> tuple[dict[str, Any], float]:
    """Return a sample per run and seed, and how much of the machine others took."""
    worst = 0.0
    results: dict[str, Any] = {name: [] for name in options.runs if RUNS[name].metric}
    for name in results:
        for seed in range(1, options.repeats + 1):
            note(f"{name}: seed {seed}")
            one = functools.partial(score_sample, RUNS[name], options.score_limit_s, options.device, seed)
            found, foreign = common.foreign_load(one)
            results[name].append(found)
            worst = max(worst, foreign)
    return results, worst


def show_score(results: Mapping[str, Any]) -> None:
    """Print a line per run and seed."""
    rows = [
        (name, f"{found['metric']} >= {found['wanted']:g}",
         "not reached" if found["seconds"] is None else f"{found['seconds']:.0f} s", common.number(found["agent_steps"]),
         common.number(found["score"]), common.number(found["held_out_score"]),
         *(common.number(found["facts"][key]) for key in FACTS))
        for name, samples in results.items() for found in samples
    ]  # fmt: skip
    columns = ("run", "until", "time", "agent-steps", "score", "held-out", "obs floats", "parameters", "replay ratio")
    common.print_table("time to a score", columns, rows)


# ---- the command -------------------------------------------------------------------------------------------


def draw(results: Mapping[str, Any], path: Path) -> None:
    """Write a picture: bars of the ladder, and the split of time. Raises: MissingExtraError without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        raise MissingExtraError("--png needs matplotlib: pip install 'puffervec[plot]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    ladders, speeds = results.get("ladder", {}), results.get("speed", {})
    count = len(ladders) + bool(speeds)
    if not count:
        raise ConfigError("--png draws the parts speed and ladder: give one of them in --parts")
    figure, axes = pyplot.subplots(count, 1, figsize=(9, 3.6 * count), dpi=120, layout="constrained", squeeze=False)
    for axis, (env, rows) in zip(axes[:, 0], ladders.items(), strict=False):
        axis.barh([row["label"] for row in rows], [row["agent_steps_per_s"].median for row in rows], color="#0072B2")
        axis.invert_yaxis()
        axis.set(xlabel="agent-steps/s", title=f"{env}: from a naive loop to the trainer")
    if speeds:
        axis, left = axes[-1, 0], dict.fromkeys(speeds, 0.0)
        for part, colour in zip(TIME_PARTS, COLOURS, strict=True):
            widths = [100 * found["shares"][part].median for found in speeds.values()]
            axis.barh(list(speeds), widths, left=list(left.values()), label=part, color=colour)
            left = {name: left[name] + width for name, width in zip(speeds, widths, strict=True)}
        axis.set(xlabel="% of the time", title="where the time goes")
        axis.legend(ncols=len(TIME_PARTS), frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    pyplot.close(figure)


MEASURES = {
    "speed": (measure_speed, show_speed),
    "ladder": (measure_ladder, show_ladder),
    "score": (measure_score, show_score),
}


def _chosen(flag: str, text: str, known: Sequence[str]) -> list[str]:
    """Return the names in a comma-separated flag. Raises: ConfigError for an unknown one."""
    names = text.split(",")
    for name in names:
        if name not in known:
            raise ConfigError(f"{flag} has {name!r}: use some of {', '.join(known)}")
    return names


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0, or 2 for bad input."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    common.add_flags(flags, "train", 20.0)
    flags.add_argument("--parts", default="speed,ladder", help=f"of {','.join(PARTS)} (default: %(default)s)")
    flags.add_argument("--runs", default=",".join(RUNS), help="of speed and score (default: %(default)s)")
    flags.add_argument("--envs", default="tag_grid,drive", help="runs of the ladder (default: %(default)s)")
    flags.add_argument("--score-limit-s", type=float, default=300.0, help="give up on a score then (default: %(default)s)")
    flags.add_argument("--device", default="cpu", help="cpu, cuda or auto (default: %(default)s)")
    flags.add_argument("--png", type=Path, help="draw the ladder and the split of time")
    options = flags.parse_args(arguments)
    progress, results, worst = common.Progress(), {}, 0.0
    try:
        options.parts = _chosen("--parts", options.parts, PARTS)
        options.runs, options.envs = (_chosen("--runs", options.runs, [*RUNS]), _chosen("--envs", options.envs, [*RUNS]))
        for part in options.parts:
            measure, show = MEASURES[part]
            results[part], foreign = measure(options, progress)
            worst = max(worst, foreign)
            progress.clear()
            show(results[part])
        if options.png is not None:
            draw(results, options.png)
    except (PuffervecError, OSError) as error:
        progress.clear()
        print(f"error: {error}", file=sys.stderr)
        return 2
    common.finish("train", options, common.machine(), worst, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
