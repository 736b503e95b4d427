# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure the score of a driver over the minutes of training, on scenes not used in training.

    python bench/score.py                               the default run: 7 minutes on two cores
    python bench/score.py --real DIR --seeds 3          also scenes of WOMD, three seeds

The clock starts before the trainer is made: starting workers and compiling scenes count, imports do
not. For each time the policy is copied, which takes milliseconds, after the last update that ends
before it. The copies are evaluated after the training. The learning rate decreases over all of
--minutes, so after 5 minutes a run of 5 minutes scores better than one of 30. Baselines are
evaluated on the same scenes. Runs in the learner.

Real scenes are those of the Waymo Open Motion Dataset, whose names contain that of their shard.
They are identified by number: their position in the sorted list of all file names, from 1. The
results of all seeds are joined as `pooled`: means over seeds, and 95 % intervals by bootstrap over
scenes, since cars of one scene succeed or fail together.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import functools
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from torch import nn

from bench import common, runs
from drive_env.config import EVALUATED_ON, DriveConfig, sets_of
from drive_env.evaluate import evaluate as drive
from drive_env.evaluate.envs import evaluation_config
from drive_env.generate.generate import DEFAULT_COUNT
from puffervec.commands.players import acting_rows
from puffervec.contract.evaluation import Actor
from puffervec.errors import ConfigError
from puffervec.train import TrainConfig, Trainer
from puffervec.train.act import evaluate as ev
from puffervec.train.config.target import trained_policy
from puffervec.train.device.device import choose_device
from puffervec.train.metrics.dashboard import Dashboard
from puffervec.train.metrics.keys import STEP
from puffervec.train.policies.mapping import policy_rows
from puffervec.train.policies.run_spec import RunSpec
from puffervec.train.run.find import read_newest

TRAINED, HELD_OUT, REAL = "training scenes", "held-out", "real"
# DEFAULT_COUNT scenes are enough for an evaluation; "generated:N" begins with the same ones.
GENERATED = "generated"
CURVE = "1,2,3,5,7"  # Minutes after which the policy is evaluated, unless --at is set.
# Targets by minutes, for runs that were trained on generated scenes.
WANTED = {
    7.0: {HELD_OUT: 0.94, REAL: 0.90},
    30.0: {HELD_OUT: 0.97, REAL: 0.95},
    180.0: {HELD_OUT: 0.98, REAL: 0.97},
}
BASELINES = "lane-follow,idm,log"
SEED = 0  # Seed of evaluations and of the bootstrap.
WOMD = re.compile(
    r"tfrecord-\d+-of-\d+_\w+\.json"
)  # Other scenes in a folder, such as CARLA's, are not real ones.
DRAWS = 10_000  # Samples of the bootstrap.
DRIVER = "driver"


@dataclasses.dataclass(frozen=True)
class Moment:
    """The state of a run at one of the times.

    Attributes:
        minutes: the nominal time.
        seconds: the actual time.
    """

    minutes: float
    seconds: float
    agent_steps: float
    policies: dict[str, nn.Module]


class Watch(Dashboard):
    """A stand-in for the dashboard that copies the policies at several times.

    It stops the run at the last time.
    """

    def __init__(
        self, minutes: Sequence[float], clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """Start the clock."""
        self.due, self.clock = sorted(minutes), clock
        self.trainer: Trainer | None = None
        self.moments: list[Moment] = []
        self.begin = clock()
        self.before_s: float | None = None  # The end of the previous update.

    def show(self, metrics: Mapping[str, float], progress: float) -> None:
        """Copy the policies after an update if the next one would end too late."""
        assert self.trainer is not None
        seconds = self.clock() - self.begin
        update_s = 0.0 if self.before_s is None else seconds - self.before_s
        self.before_s = seconds
        while self.due and seconds + update_s > 60 * self.due[0]:
            policies = {
                name: copy.deepcopy(policy).eval() for name, policy in self.trainer.policies.items()
            }
            self.moments.append(Moment(self.due.pop(0), seconds, metrics[STEP], policies))
        if not self.due:
            self.trainer.request_stop()


def train(
    config: TrainConfig, times: Sequence[float], keep: Path | None = None
) -> tuple[Watch, dict[str, Any], Callable[[Moment], Actor]]:
    """Train until the last of the times, in minutes.

    Args:
        keep: folder for the run; None to remove it at the end.

    Returns:
        The watch with the moments, facts about the run, and a function that returns the driver of
        a moment, which does not sample its actions.
    """
    with tempfile.TemporaryDirectory(prefix="puffervec-score-") as folder:
        watch = Watch(times)
        log = {"log": {"folder": str(keep or folder)}}
        with Trainer(config.merged(log), dashboard=watch) as trainer:
            watch.trainer = trainer
            facts = {"facts": runs.facts_of(trainer), "start_s": watch.clock() - watch.begin}
            trainer.train()
            device, rows = trainer.device, policy_rows(trainer.vec.spec, trainer.config)
    return watch, facts, lambda moment: ev.PolicyActor(moment.policies, device, True, SEED, rows)


def load_drivers(
    names: str, task: DriveConfig, device: Any, deterministic: bool
) -> dict[str, tuple[Actor, TrainConfig]]:
    """Load trained drivers, as `load_driver` does, by the last parts of their names.

    Args:
        names: names of drivers, separated by commas.
        task, device, deterministic: as for `load_driver`.

    Raises:
        CheckpointError, ConfigError: see `load_driver`; or two have the same name.
    """
    drivers: dict[str, tuple[Actor, TrainConfig]] = {}
    for name in filter(None, names.split(",")):
        label = Path(name).name
        if label in drivers or label in drive.BASELINES:
            raise ConfigError(f"{name}: another driver is called {label}: rename the folder")
        drivers[label] = load_driver(name, task, device, deterministic)
    return drivers


def load_driver(
    name: str, task: DriveConfig, device: Any, deterministic: bool
) -> tuple[Actor, TrainConfig]:
    """Load a trained driver for a task, with its own observations and actions.

    Args:
        name: a run folder, a checkpoint, or a policy that comes with drive ("driver").
        task: settings with the task, see `drive_env.evaluate.evaluate.same_task`. Its scenes are
            opened, those of the run are not.
        device: of the policies.
        deterministic: do not sample actions.

    Returns:
        The actor, and the config of the run with the task.

    Raises:
        CheckpointError: there is no such checkpoint, or it cannot be read.
        ConfigError: there is no such driver, or it is not one of drive.
    """
    if trained_policy(name) is None and not Path(name).exists():
        raise ConfigError(f"there is no driver {name!r}: name a run, a checkpoint, or driver")

    def with_task(config: TrainConfig) -> TrainConfig:
        if config.target != "drive":
            raise ConfigError(f"{name} is a run of {config.target}, not of drive")
        env = evaluation_config(drive.same_task(task, config.env), {})
        return dataclasses.replace(config, env=env)

    def load(path: Path) -> tuple[RunSpec, dict[str, nn.Module]]:
        return ev.load_policies(path, device, adapt=with_task)

    _, (run, policies) = read_newest(name, Path("runs"), load)
    rows = acting_rows(run)
    return ev.PolicyActor(policies, device, deterministic, SEED, rows), run.config


def score_sample(options: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Train for --minutes, then evaluate the policies of all times on all sets of scenes."""
    config = runs.config_of(runs.RUNS["drive"], options.device, 60 * options.minutes, seed)
    if options.scenes is not None:
        config = config.merged({"env": {"scenes": options.scenes}})
    watch, facts, driver = train(config, times_of(options), options.keep)
    sets = scene_sets(config, options.real)
    return {
        "seed": seed,
        "trained_on": without_paths(config.env.scenes),
        **facts,
        "moments": [
            moment_row(moment, driver(moment), config, sets, options.episodes)
            for moment in watch.moments
        ],
        "baselines": baseline_rows(options, config, sets),
    }


def times_of(options: argparse.Namespace) -> list[float]:
    """Return the minutes after which the policy is evaluated: those of --at, and the end.

    Raises: ConfigError: a bad time, or one after the end.
    """
    try:
        moments = {float(text) for text in options.at.split(",") if text}
    except ValueError:
        raise ConfigError(
            f"--at is {options.at!r}: give minutes, separated by commas, such as 5,30"
        ) from None
    if not options.minutes > 0 or not all(0 < minutes <= options.minutes for minutes in moments):
        raise ConfigError(
            f"--at is {options.at!r}: give minutes above 0, up to --minutes, which is "
            f"{options.minutes:g}"
        )
    return sorted(moments | {options.minutes})


def scene_sets(config: TrainConfig, real: str | Sequence[str] | None) -> dict[str, str]:
    """Return the sets of scenes to evaluate on, by name, as values of the env's setting `scenes`.

    Args:
        real: folders with real scenes, which form one set.

    Raises:
        ConfigError: they have no scene of WOMD, or two with the same name.
    """
    scenes = config.env.scenes
    sets = {TRAINED: ",".join(_fewer(name) for name, _ in sets_of(scenes)), HELD_OUT: "held-out"}
    if is_generated(scenes):
        sets[HELD_OUT] = drive.held_out(config.env).scenes
    folders = [real] if isinstance(real, str) else list(real or ())
    if folders and scenes not in folders:
        sets[REAL] = ",".join(map(str, real_scenes(folders)))
    return sets


def real_scenes(folders: Sequence[str]) -> list[Path]:
    """Return the scenes of WOMD in some folders, sorted by file name; the first is number 1.

    Raises: ConfigError: there are none, or two have the same name.
    """
    paths = [
        path
        for folder in folders
        for path in Path(folder).glob("*.json")
        if WOMD.fullmatch(path.name)
    ]
    names = [path.name for path in paths]
    if not paths:
        raise ConfigError(
            f"--real {' '.join(folders)}: no scene of WOMD there, such as "
            "tfrecord-00002-of-01000_407.json"
        )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(
            f"--real {' '.join(folders)}: {twice} is in two of them: name each folder once"
        )
    return sorted(paths, key=lambda path: path.name)


def _fewer(scenes: str) -> str:
    """Return a set of scenes; if it has many generated scenes, only the first ones."""
    name, _, count = scenes.partition(":")
    return name if name in EVALUATED_ON and int(count or 0) > DEFAULT_COUNT else scenes


def is_generated(scenes: str) -> bool:
    """Return whether `scenes` is "generated" or "streets", with or without ":N", or several."""
    return all(name.partition(":")[0] in EVALUATED_ON for name, _ in sets_of(scenes))


def without_paths(scenes: str) -> str:
    """Return `scenes` for tables and JSON, without paths."""
    return scenes if is_generated(scenes) or scenes == "held-out" else "a folder of scenes"


def moment_row(
    moment: Moment,
    actor: Actor,
    config: TrainConfig,
    sets: Mapping[str, str],
    episodes: int,
) -> dict[str, Any]:
    """Evaluate the policies of a moment, without sampling actions and without shaping rewards.

    Rates have 95 % intervals over scenes.
    """
    evaluations = {name: evaluate(actor, config, scenes, episodes) for name, scenes in sets.items()}
    return {
        "minutes": moment.minutes,
        "seconds": moment.seconds,
        "agent_steps": moment.agent_steps,
        "evaluations": evaluations,
        "gaps": gaps(evaluations),
    }


def evaluate(actor: Actor, config: TrainConfig, scenes: str, episodes: int) -> dict[str, Any]:
    """Evaluate an actor on a set of scenes.

    The result has the total of the report, and the agents' median peak lateral acceleration.
    """
    result = drive.evaluate(
        actor, dataclasses.replace(config.env, scenes=scenes), episodes=episodes, seed=SEED
    )
    return {
        "scenes": sum(scene.agents > 0 for scene in result.scenes),
        **result.report().to_json()["total"],
        "median_peak_lateral": float(np.median([row["peak_lateral"] for row in result.agents])),
        "by_scene": {
            "agents": [scene.agents for scene in result.scenes],
            **{name: [scene.counts[name] for scene in result.scenes] for name in drive.RATES},
        },
    }


def pool(samples: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the rates of all samples together, by driver and set of scenes, each with `NAME_95`.

    The driver is that of each sample's last moment; baselines are those of the first sample. Sets
    whose scenes differ between samples, such as training scenes, are excluded.
    """
    drivers = [sample["moments"][-1]["evaluations"] for sample in samples]
    groups = {DRIVER: drivers, **{who: [sets] for who, sets in samples[0]["baselines"].items()}}
    return {
        who: {
            where: _pool_tables([one[where]["by_scene"] for one in evaluations])
            for where in evaluations[0]
            if len(
                {str(one.get(where, {}).get("by_scene", {}).get("agents")) for one in evaluations}
            )
            == 1
        }
        for who, evaluations in groups.items()
    }


def _pool_tables(tables: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, Any]:
    """Return rates over the agents of all scenes, as means over tables.

    The 95 % intervals come from a bootstrap over scenes.

    Args:
        tables: one per seed, with the number of agents of each scene, and the number of agents that
            count for each rate.
    """
    agents = np.array(tables[0]["agents"], dtype=np.float64)
    draws = np.random.default_rng(SEED).integers(0, len(agents), (DRAWS, len(agents)))
    sums = agents[draws].sum(axis=1)
    result: dict[str, Any] = {
        "scenes": int((agents > 0).sum()),
        "agents": int(agents.sum()),
        "seeds": len(tables),
    }
    for name in drive.RATES:
        hits = np.mean([table[name] for table in tables], axis=0)
        result[name] = float(hits.sum() / agents.sum())
        rates = hits[draws].sum(axis=1)[sums > 0] / sums[sums > 0]
        result[f"{name}_95"] = [float(end) for end in np.percentile(rates, (2.5, 97.5))]
        result[f"{name}_by_seed"] = [float(np.sum(table[name]) / agents.sum()) for table in tables]
    return result


def show_pooled(rates_by_driver: Mapping[str, Mapping[str, Any]]) -> None:
    """Print the rates of all seeds together, and those of the baselines."""
    rows = [
        (
            who,
            f"{where} ({one['scenes']})",
            str(one["seeds"]),
            str(one["agents"]),
            *(_rate_95(one, name) for name in drive.RATES),
        )
        for who, sets in rates_by_driver.items()
        for where, one in sets.items()
    ]
    title = "all seeds: means over agents with 95 % intervals by bootstrap over scenes"
    common.print_table(title, ("who", "scenes", "seeds", "agents", *drive.RATES), rows)


def _rate_95(rates: Mapping[str, Any], key: str) -> str:
    low, high = rates[f"{key}_95"]
    return f"{rates[key]:.3f} [{low:.2f}, {high:.2f}]"


def baseline_rows(
    options: argparse.Namespace, config: TrainConfig, sets: Mapping[str, str]
) -> dict[str, Any]:
    """Evaluate the chosen baselines on all sets except the training scenes, by name and set."""
    names = [name for name in options.baselines.split(",") if name]
    others = {where: scenes for where, scenes in sets.items() if where != TRAINED}
    return {
        name: {
            where: evaluate(drive.baseline(name, SEED), config, scenes, 1)
            for where, scenes in others.items()
        }
        for name in names
    }


def gaps(evaluations: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return the difference between the score on the training scenes and that on each other set."""
    first = evaluations[TRAINED]["score"]
    return {name: first - rates["score"] for name, rates in evaluations.items() if name != TRAINED}


def measure_score(options: argparse.Namespace, note: Any) -> tuple[list[dict[str, Any]], float]:
    """Return a sample per seed, and the share of foreign load.

    Raises: ConfigError: a bad time.
    """
    times_of(options)
    worst = 0.0
    samples = []
    for seed in range(1, options.seeds + 1):
        note(f"drive: seed {seed}, {options.minutes:g} minutes and the evaluations")
        sample, foreign = common.foreign_load(functools.partial(score_sample, options, seed))
        samples.append(sample)
        worst = max(worst, foreign)
    return samples, worst


# ---- output --------------------------------------------------------------------------------------


def show_score(samples: Sequence[Mapping[str, Any]]) -> None:
    """Print a line per seed, time and set of scenes, then targets and gaps."""
    rows, notes = [], []
    for sample in samples:
        cells = zip(runs.FACT_COLUMNS, runs.fact_cells(sample["facts"]), strict=True)
        facts = ", ".join(f"{fact} {cell}" for fact, cell in cells)
        notes.append(f"seed {sample['seed']}, trained on {sample['trained_on']}: {facts}")
        for moment in sample["moments"]:
            head = (f"{moment['minutes']:g}", common.number(moment["agent_steps"]))
            rows += _lines(f"seed {sample['seed']}", head, moment["evaluations"])
            notes += verdicts(sample, moment)
        for who, evaluations in sample["baselines"].items():
            rows += _lines(who, ("-", "-"), evaluations)
    columns = (
        "run", "scenes", "min", "agent-steps", "score", "goal",
        "collision", "off-road", "comfort", "goal time", "lateral",
        "agents",
    )  # fmt: skip
    notes.append(
        "comfort: share of half-seconds; goal time: over the log's; lateral: median of the "
        "agents' largest, m/s2"
    )
    title = "score after minutes of training: rates of agents with 95 % intervals over scenes"
    common.print_table(title, columns, rows, notes)


def _lines(
    who: str, head: tuple[str, str], evaluations: Mapping[str, Any]
) -> list[tuple[str, ...]]:
    return [
        (who, f"{where} ({rates['scenes']})", *head, *_cells(rates))
        for where, rates in evaluations.items()
    ]


def _cells(rates_by_name: Mapping[str, Any]) -> tuple[str, ...]:
    rates = (_rate(rates_by_name, key) for key in ("score", "goal", "collision", "offroad"))
    more = (
        common.number(rates_by_name.get(key))
        for key in ("comfortable", "goal_time", "median_peak_lateral")
    )
    return (*rates, *more, str(rates_by_name["agents"]))


def _rate(rates: Mapping[str, Any], key: str) -> str:
    return _rate_95(rates, key) if key == "score" else f"{rates[key]:.3f}"


def verdicts(sample: Mapping[str, Any], moment: Mapping[str, Any]) -> list[str]:
    """Return lines about a moment.

    They contain targets, the baselines that are clearly behind, and gaps between sets.
    """
    at = f"seed {sample['seed']}, {moment['minutes']:g} min"
    lines = []
    for where, rates in moment["evaluations"].items():
        target = WANTED.get(moment["minutes"], {}).get(where)
        if target is not None and is_generated(sample["trained_on"]):
            word = "met" if rates["score"] >= target else "MISSED"
            lines.append(f"{at}: {where} {_rate(rates, 'score')}, wanted {target:.2f}: {word}")
        for who, results in sample["baselines"].items():
            if where in results and results[where]["score_95"][1] < rates["score_95"][0]:
                lines.append(
                    f"{at}: {where}: {who} {_rate(results[where], 'score')} is clearly behind"
                )
    shown_gaps = (f"{gap:+.3f} over {where}" for where, gap in moment["gaps"].items())
    return [*lines, f"{at}: score on the {TRAINED} {', '.join(shown_gaps)}"]


# ---- the command ---------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    flags = common.parser(__doc__)
    flags.add_argument(
        "--minutes", type=float, default=7.0, help="length of the training (default: %(default)s)"
    )
    flags.add_argument(
        "--at",
        help="minutes after which the policy is evaluated; the last one always is (default: "
        f"{CURVE})",
    )
    flags.add_argument(
        "--cores",
        type=int,
        default=2,
        help="cores for training and evaluations (default: %(default)s)",
    )
    flags.add_argument("--scenes", help="training scenes (default: the preset's)")
    flags.add_argument(
        "--real",
        action="append",
        help="also evaluate on the WOMD scenes of this folder; repeatable",
    )
    flags.add_argument(
        "--baselines",
        default=BASELINES,
        help='baselines on the same scenes; "" for none (default: %(default)s)',
    )
    flags.add_argument(
        "--episodes", type=int, default=1, help="episodes per scene (default: %(default)s)"
    )
    flags.add_argument(
        "--seeds", type=int, default=1, help="trainings, one after another (default: %(default)s)"
    )
    flags.add_argument("--keep", type=Path, help="folder to keep the runs in (default: none)")
    flags.add_argument("--device", default="cpu", help="cpu, cuda or auto (default: %(default)s)")
    common.add_json(flags, "score")
    return flags


@common.command
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = parser().parse_args(arguments)
    progress = common.Progress()
    if options.at is None:
        options.at = ",".join(text for text in CURVE.split(",") if float(text) <= options.minutes)
    use_cores(options.cores)
    choose_device(options.device)
    common.names("--baselines", options.baselines, drive.BASELINES)
    samples, foreign = measure_score(options, progress)
    show_score(samples)
    together = pool(samples)
    show_pooled(together)
    results = {"score": {"drive": samples}, "pooled": together}
    common.finish("score", options, common.machine(), foreign, results)


def use_cores(count: int) -> None:
    """Restrict this process and those that it starts to its first usable cores.

    Raises:
        ConfigError: `count` is below 1.
    """
    if count < 1:
        raise ConfigError(f"--cores is {count}: give 1 or more")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


if __name__ == "__main__":
    sys.exit(main())
