# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure the score of a driver against the minutes of training, on scenes it was not trained on.

    python bench/score.py                               the default run: 7 minutes on two cores
    python bench/score.py --real DIR --seeds 3          also scenes of WOMD, three seeds
    python bench/score.py runs/NAME --real DIR          the checkpoints of a run, without training

The clock starts before the trainer is made: starting workers and compiling scenes count, imports do
not. At each time the policy is copied, which takes milliseconds, after the last update that ends
before it. The copies are evaluated when the training is over. The step size falls over all of
--minutes, so after 5 minutes a run of 5 minutes scores better than one of 30. Baselines are
evaluated on the same scenes. Runs in the learner.

Real scenes are those of the Waymo Open Motion Dataset, which have their shard's name. They are
identified by number: their place in the sorted list of all file names, from 1. The results have all
seeds together as `pooled`: means over seeds, and 95 % intervals by bootstrap over scenes, since
cars of one scene succeed or fail together.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import functools
import math
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from torch import nn

from bench import common, runs
from drive_env.config import EVALUATED_ON, sets_of
from drive_env.evaluate import evaluate as drive
from drive_env.generate.generate import DEFAULT_COUNT
from puffervec.contract.evaluation import Actor
from puffervec.errors import CheckpointError, ConfigError, PuffervecError
from puffervec.train import TrainConfig, Trainer
from puffervec.train.act import evaluate as ev
from puffervec.train.device.device import choose_device
from puffervec.train.metrics.dashboard import Dashboard
from puffervec.train.metrics.keys import ELAPSED_S, STEP
from puffervec.train.metrics.log import METRICS_FILE, read_metrics
from puffervec.train.policies.mapping import PolicyRows, policy_rows
from puffervec.train.run.rundir import CHECKPOINTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TRAINED, HELD_OUT, REAL = "training scenes", "held-out", "real"
# DEFAULT_COUNT scenes, enough for an evaluation; "generated:N" begins with the same ones.
GENERATED = "generated"
CURVE = "1,2,3,5,7"  # Minutes after which the policy is evaluated, unless --at is given.
# Scores by minutes, of runs that were trained on generated scenes.
WANTED = {7.0: {HELD_OUT: 0.85, REAL: 0.80}, 30.0: {HELD_OUT: 0.93, REAL: 0.88}}
BASELINES = "lane-follow,idm,log"
LINES = {"lane-follow": ":", "idm": "-.", "log": "--"}  # How baselines are drawn.
SEED = 0  # Of evaluations, and of the bootstrap.
WOMD = re.compile(
    r"tfrecord-\d+-of-\d+_\w+\.json"
)  # Other scenes in a folder, such as CARLA's, are no real ones.
DRAWS = 10_000  # Of the bootstrap.
DRIVER = "driver"
CURVE_POINTS = 300
COLOURS = {TRAINED: "#009E73", HELD_OUT: "#0072B2", REAL: "#D55E00"}


@dataclasses.dataclass(frozen=True)
class Moment:
    """A run at one of the times. minutes: the given time; seconds: on the clock; score: in
    training, with drawn actions.
    """

    minutes: float
    seconds: float
    agent_steps: float
    score: float | None
    policies: dict[str, nn.Module]


class Watch(Dashboard):
    """Copies the policies at the given times and stops the run at the last one. Takes the place of
    a dashboard.
    """

    def __init__(
        self, minutes: Sequence[float], metric: str, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """Start the clock."""
        self.due, self.metric, self.clock = sorted(minutes), metric, clock
        self.trainer: Trainer | None = None
        self.moments: list[Moment] = []
        self.curve: list[dict[str, float | None]] = []
        self.begin = clock()
        self.before_s: float | None = None  # When the update before this one ended.

    def show(self, metrics: Mapping[str, float], progress: float) -> None:
        """After an update, copy the policies if another update would end too late."""
        assert self.trainer is not None
        seconds, score = self.clock() - self.begin, metrics.get(self.metric)
        update_s = 0.0 if self.before_s is None else seconds - self.before_s
        self.before_s = seconds
        self.curve.append({"minutes": seconds / 60, "agent_steps": metrics[STEP], "score": score})
        while self.due and seconds + update_s > 60 * self.due[0]:
            policies = {
                name: copy.deepcopy(policy).eval() for name, policy in self.trainer.policies.items()
            }
            self.moments.append(Moment(self.due.pop(0), seconds, metrics[STEP], score, policies))
        if not self.due:
            self.trainer.request_stop()


def score_sample(run: runs.Run, options: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Train for --minutes, then evaluate the policy of each time on all sets of scenes."""
    with tempfile.TemporaryDirectory(prefix="puffervec-score-") as folder:
        config = runs.config_of(run, options.device, 60 * options.minutes, seed).merged(
            {"log": {"folder": folder}}
        )
        if options.scenes is not None:
            config = config.merged({"env": {"scenes": options.scenes}})
        watch = Watch(times_of(options), run.metric)
        with Trainer(config, dashboard=watch) as trainer:
            watch.trainer = trainer
            facts = runs.facts_of(trainer)
            start_s = watch.clock() - watch.begin
            trainer.train()
            device, rows = trainer.device, policy_rows(trainer.vec.spec, trainer.config)
    sets = scene_sets(config, options.real)
    return {
        "facts": facts,
        "seed": seed,
        "trained_on": shown(config.env.scenes),
        "start_s": start_s,
        "moments": [
            moment_row(moment, config, sets, device, rows, options.episodes)
            for moment in watch.moments
        ],
        "baselines": baseline_rows(options, config, sets),
        "curve": watch.curve[:: max(1, math.ceil(len(watch.curve) / CURVE_POINTS))],
    }


def times_of(options: argparse.Namespace) -> list[float]:
    """Return the minutes after which the policy is evaluated: those of --at, and the end.

    Raises: ConfigError for bad times and for times after the end.
    """
    try:
        found = {float(text) for text in options.at.split(",") if text}
    except ValueError:
        raise ConfigError(
            f"--at is {options.at!r}: give minutes, separated by commas, such as 5,30"
        ) from None
    if not options.minutes > 0 or not all(0 < minutes <= options.minutes for minutes in found):
        raise ConfigError(
            f"--at is {options.at!r}: give minutes above 0, up to --minutes, which is "
            f"{options.minutes:g}"
        )
    return sorted(found | {options.minutes})


def scene_sets(config: TrainConfig, real: str | Sequence[str] | None) -> dict[str, str]:
    """Return the sets of scenes to evaluate on, by name, as values of the env's setting `scenes`.

    Args: real: folders with real scenes, which count as one set.
    Raises: ConfigError: these have no scene of WOMD, or two of the same name.
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
    """Return the scenes of WOMD in some folders, sorted by file name: the first is number 1.

    Raises: ConfigError: there are none, or two have the same name.
    """
    found = [
        path
        for folder in folders
        for path in Path(folder).glob("*.json")
        if WOMD.fullmatch(path.name)
    ]
    names = [path.name for path in found]
    if not found:
        raise ConfigError(
            f"--real {' '.join(folders)}: no scene of WOMD there, such as "
            "tfrecord-00002-of-01000_407.json"
        )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(
            f"--real {' '.join(folders)}: {twice} is in two of them: name each folder once"
        )
    return sorted(found, key=lambda path: path.name)


def _fewer(scenes: str) -> str:
    """Return a set of scenes, or of many generated ones the first ones."""
    name, _, count = scenes.partition(":")
    return name if name in EVALUATED_ON and int(count or 0) > DEFAULT_COUNT else scenes


def is_generated(scenes: str) -> bool:
    """True for "generated", "streets", with ":N" or without, and several of these."""
    return all(name.partition(":")[0] in EVALUATED_ON for name, _ in sets_of(scenes))


def shown(scenes: str) -> str:
    """Return `scenes` for tables and JSON, without paths."""
    return scenes if is_generated(scenes) or scenes == "held-out" else "a folder of scenes"


def moment_row(
    moment: Moment,
    config: TrainConfig,
    sets: Mapping[str, str],
    device: Any,
    rows: Mapping[str, PolicyRows],
    episodes: int,
) -> dict[str, Any]:
    """Evaluate a moment: the likeliest actions, shaping rewards off. Rates come with 95 % intervals
    over scenes.
    """
    actor = ev.PolicyActor(moment.policies, device, deterministic=True, seed=SEED, rows=rows)
    found = {name: evaluated(actor, config, scenes, episodes) for name, scenes in sets.items()}
    return {
        "minutes": moment.minutes,
        "seconds": moment.seconds,
        "agent_steps": moment.agent_steps,
        "score_in_training": moment.score,
        "evaluations": found,
        "gaps": gaps(found),
    }


def evaluated(actor: Actor, config: TrainConfig, scenes: str, episodes: int) -> dict[str, Any]:
    """Evaluate an actor on a set of scenes: the total of the report, and the agents' median peak
    lateral acceleration.
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


def pooled(samples: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return rates of all samples together, by who drove and by set of scenes, each with `NAME_95`.

    The driver is that of each sample's last moment; baselines are those of the first sample. Sets
    of which samples have different scenes, as training scenes may be, are left out.
    """
    drivers = [sample["moments"][-1]["evaluations"] for sample in samples]
    found = {DRIVER: drivers, **{who: [sets] for who, sets in samples[0]["baselines"].items()}}
    return {
        who: {
            where: _pooled([one[where]["by_scene"] for one in evaluations])
            for where in evaluations[0]
            if len(
                {str(one.get(where, {}).get("by_scene", {}).get("agents")) for one in evaluations}
            )
            == 1
        }
        for who, evaluations in found.items()
    }


def _pooled(tables: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, Any]:
    """Return rates over the agents of all scenes, means over tables, with 95 % intervals by
    bootstrap over scenes.

    Args: tables: one per seed: of each scene the agents, and how many of them count for each rate.
    """
    agents = np.array(tables[0]["agents"], dtype=np.float64)
    drawn = np.random.default_rng(SEED).integers(0, len(agents), (DRAWS, len(agents)))
    sums = agents[drawn].sum(axis=1)
    found: dict[str, Any] = {
        "scenes": int((agents > 0).sum()),
        "agents": int(agents.sum()),
        "seeds": len(tables),
    }
    for name in drive.RATES:
        hits = np.mean([table[name] for table in tables], axis=0)
        found[name] = float(hits.sum() / agents.sum())
        rates = hits[drawn].sum(axis=1)[sums > 0] / sums[sums > 0]
        found[f"{name}_95"] = [float(end) for end in np.percentile(rates, (2.5, 97.5))]
        found[f"{name}_by_seed"] = [float(np.sum(table[name]) / agents.sum()) for table in tables]
    return found


def show_pooled(found: Mapping[str, Mapping[str, Any]]) -> None:
    """Print what all seeds come to, beside the baselines."""
    rows = [
        (
            who,
            f"{where} ({one['scenes']})",
            str(one["seeds"]),
            str(one["agents"]),
            *(_rate_95(one, name) for name in drive.RATES),
        )
        for who, sets in found.items()
        for where, one in sets.items()
    ]
    title = "all seeds: means over agents with 95 % intervals by bootstrap over scenes"
    common.print_table(title, ("who", "scenes", "seeds", "agents", *drive.RATES), rows)


def _rate_95(found: Mapping[str, Any], key: str) -> str:
    low, high = found[f"{key}_95"]
    return f"{found[key]:.3f} [{low:.2f}, {high:.2f}]"


def baseline_rows(
    options: argparse.Namespace, config: TrainConfig, sets: Mapping[str, str]
) -> dict[str, Any]:
    """Evaluate the baselines that were asked for on all sets but those of the training, by name and
    set.
    """
    names = [name for name in (getattr(options, "baselines", None) or "").split(",") if name]
    others = {where: scenes for where, scenes in sets.items() if where != TRAINED}
    return {
        name: {
            where: evaluated(drive.baseline(name, SEED), config, scenes, 1)
            for where, scenes in others.items()
        }
        for name in names
    }


def gaps(evaluations: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return how much higher the score is on the training scenes than on each of the other sets."""
    first = evaluations[TRAINED]["score"]
    return {name: first - found["score"] for name, found in evaluations.items() if name != TRAINED}


def kept_sample(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Evaluate all checkpoints that a run has kept.

    Raises: CheckpointError: there are none. ConfigError: it is no run of drive.
    """
    lines = list(read_metrics(folder / METRICS_FILE)) if (folder / METRICS_FILE).exists() else []
    checkpoints = sorted(path for path in folder.glob(f"{CHECKPOINTS}/*") if path.name.isdigit())
    if not lines or not checkpoints:
        raise CheckpointError(
            f"{folder}: no run with checkpoints: give a run folder, such as runs/NAME"
        )
    device, moments, found = choose_device(options.device), [], None
    for path in checkpoints:
        run, policies = ev.load_policies(path, device)
        config, spec, rows = run.config, run.spec, run.rows
        if config.target != "drive":
            raise ConfigError(f"{folder} is a run of {config.target}, not of drive")
        sets = scene_sets(config, options.real)
        line = min(lines, key=lambda line: abs(line[STEP] - int(path.name)))
        moment = Moment(
            round(line[ELAPSED_S] / 60, 2),
            line[ELAPSED_S],
            int(path.name),
            line.get("env/score"),
            dict(policies),
        )
        moments.append(moment_row(moment, config, sets, device, rows, options.episodes))
        facts = (
            runs.floats_of(spec),
            sum(p.numel() for policy in policies.values() for p in policy.parameters()),
        )
        found = (
            config,
            sets,
            dict(zip(runs.FACTS, (*facts, config.train.update_epochs), strict=True)),
        )
    assert found is not None
    config, sets, named = found
    curve = [
        {"minutes": line[ELAPSED_S] / 60, "agent_steps": line[STEP], "score": line.get("env/score")}
        for line in lines
    ]
    return {
        "facts": named,
        "seed": config.train.seed,
        "trained_on": shown(config.env.scenes),
        "moments": moments,
        "baselines": baseline_rows(options, config, sets),
        "curve": curve[:: max(1, math.ceil(len(curve) / CURVE_POINTS))],
    }


def measure_score(options: argparse.Namespace, note: Any) -> tuple[dict[str, Any], float]:
    """Return a sample per seed, and how much of the machine others took.

    Raises: ConfigError for bad times.
    """
    times_of(options)
    worst = 0.0
    samples = []
    for seed in range(1, options.seeds + 1):
        note(f"drive: seed {seed}, {options.minutes:g} minutes and the evaluations")
        found, foreign = common.foreign_load(
            functools.partial(score_sample, runs.RUNS["drive"], options, seed)
        )
        samples.append(found)
        worst = max(worst, foreign)
    return {"drive": samples}, worst


# ---- output --------------------------------------------------------------------------------------


def show_score(results: Mapping[str, Any]) -> None:
    """Print a line per run, time and set of scenes, then the targets and the gaps."""
    rows, notes = [], []
    for name, samples in results.items():
        for sample in samples:
            facts = ", ".join(
                f"{fact} {cell}"
                for fact, cell in zip(
                    runs.FACT_COLUMNS, runs.fact_cells(sample["facts"]), strict=True
                )
            )
            notes.append(
                f"{name}, seed {sample['seed']}, trained on {sample['trained_on']}: {facts}"
            )
            for moment in sample["moments"]:
                rows += _lines(name, sample, moment)
                notes += verdicts(name, sample, moment)
            rows += [
                line
                for who, found in sample.get("baselines", {}).items()
                for line in _baseline_lines(who, found)
            ]
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
    name: str, sample: Mapping[str, Any], moment: Mapping[str, Any]
) -> list[tuple[str, ...]]:
    run, head = (
        f"{name}, seed {sample['seed']}",
        (f"{moment['minutes']:g}", common.number(moment["agent_steps"])),
    )
    lines = [
        (
            run,
            "while training, drawn actions",
            *head,
            common.number(moment["score_in_training"]),
            *["-"] * 7,
        )
    ]
    for where, found in moment["evaluations"].items():
        lines.append((run, f"{where} ({found['scenes']})", *head, *_cells(found)))
    return lines


def _cells(found: Mapping[str, Any]) -> tuple[str, ...]:
    rates = (_rate(found, key) for key in ("score", "goal", "collision", "offroad"))
    more = (
        common.number(found.get(key)) for key in ("comfortable", "goal_time", "median_peak_lateral")
    )
    return (*rates, *more, str(found["agents"]))


def _baseline_lines(who: str, found: Mapping[str, Any]) -> list[tuple[str, ...]]:
    return [
        (who, f"{where} ({one['scenes']})", "-", "-", *_cells(one)) for where, one in found.items()
    ]


def _rate(found: Mapping[str, Any], key: str) -> str:
    return _rate_95(found, key) if key == "score" else f"{found[key]:.3f}"


def verdicts(name: str, sample: Mapping[str, Any], moment: Mapping[str, Any]) -> list[str]:
    """Return lines for a moment: whether targets were met, which baselines are clearly behind, gaps
    between sets.
    """
    at = f"{name}, seed {sample['seed']}, {moment['minutes']:g} min"
    lines = []
    for where, found in moment["evaluations"].items():
        wanted = WANTED.get(moment["minutes"], {}).get(where)
        if wanted is not None and is_generated(sample["trained_on"]):
            word = "met" if found["score"] >= wanted else "MISSED"
            lines.append(f"{at}: {where} {_rate(found, 'score')}, wanted {wanted:.2f}: {word}")
        for who, results in sample.get("baselines", {}).items():
            if where in results and results[where]["score_95"][1] < found["score_95"][0]:
                lines.append(
                    f"{at}: {where}: {who} {_rate(results[where], 'score')} is clearly behind"
                )
    shown_gaps = (f"{gap:+.3f} over {where}" for where, gap in moment["gaps"].items())
    return [*lines, f"{at}: score on the {TRAINED} {', '.join(shown_gaps)}"]


def panels(results: Mapping[str, Any]) -> list[runs.Panel]:
    """Return a panel per run and seed."""
    return [
        functools.partial(
            draw_score, f"{name}, seed {sample['seed']}, trained on {sample['trained_on']}", sample
        )
        for name, samples in results.items()
        for sample in samples
    ]


def draw_score(title: str, sample: Mapping[str, Any], axis: Axes) -> None:
    """Draw the score while training as a curve, and evaluations as points with intervals."""
    curve = [point for point in sample["curve"] if point["score"] is not None]
    axis.plot(
        [p["minutes"] for p in curve],
        [p["score"] for p in curve],
        color="#999999",
        label="while training, drawn actions",
    )
    spread = 0.006 * max(
        moment["minutes"] for moment in sample["moments"]
    )  # Side by side: none hides another.
    for place, where in enumerate(sample["moments"][0]["evaluations"]):
        found = [moment["evaluations"][where] for moment in sample["moments"]]
        x = [moment["minutes"] + place * spread for moment in sample["moments"]]
        middle = [one["score"] for one in found]
        ends = [[m - one["score_95"][0] for m, one in zip(middle, found, strict=True)],
                [one["score_95"][1] - m for m, one in zip(middle, found, strict=True)]]  # fmt: skip
        label = f"{where} ({found[0]['scenes']} scenes), 95 %"
        colour = COLOURS[where]
        axis.errorbar(
            x, middle, yerr=ends, fmt="o-", linewidth=0.8, capsize=3, color=colour, label=label
        )
        for who, results in sample.get("baselines", {}).items():
            if where in results:
                style = LINES.get(who, ":")
                axis.axhline(
                    results[where]["score"],
                    color=colour,
                    linewidth=0.8,
                    linestyle=style,
                    label=f"{who}, {where}",
                )
    axis.set(xlabel="minutes", ylabel="score", ylim=(0, 1), title=title)
    axis.grid(alpha=0.3)
    axis.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2, fontsize=8)


# ---- the command ---------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    """Return the flags of the command."""
    flags = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    flags.add_argument(
        "run",
        nargs="*",
        type=Path,
        help="run folders whose checkpoints are evaluated, in place of a training",
    )
    flags.add_argument(
        "--minutes", type=float, default=7.0, help="length of the training (default: %(default)s)"
    )
    flags.add_argument(
        "--at",
        help="minutes after which the policy is evaluated; the last one always is (default: "
        f"{CURVE})",
    )
    flags.add_argument(
        "--cores", type=int, default=2, help="of training and evaluations (default: %(default)s)"
    )
    flags.add_argument("--scenes", help="what to train on (default: the preset's)")
    flags.add_argument(
        "--real",
        action="append",
        help="also evaluate on the WOMD scenes of this folder; may be given again",
    )
    flags.add_argument(
        "--baselines",
        default=BASELINES,
        help='on the same scenes; "" for none (default: %(default)s)',
    )
    flags.add_argument(
        "--episodes", type=int, default=1, help="of an evaluation, per scene (default: %(default)s)"
    )
    flags.add_argument(
        "--seeds", type=int, default=1, help="trainings, one after another (default: %(default)s)"
    )
    flags.add_argument("--device", default="cpu", help="cpu, cuda or auto (default: %(default)s)")
    flags.add_argument("--png", type=Path, help="where the plot goes (default: beside the JSON)")
    flags.add_argument(
        "--json",
        type=Path,
        help="where the results go (default: bench/results/<CPU>/<day>-score.json)",
    )
    return flags


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0, or 2 for bad input."""
    options = parser().parse_args(arguments)
    progress = common.Progress()
    if options.at is None:
        options.at = ",".join(text for text in CURVE.split(",") if float(text) <= options.minutes)
    try:
        use_cores(options.cores)
        choose_device(options.device)
        unknown = [
            name for name in options.baselines.split(",") if name and name not in drive.BASELINES
        ]
        if unknown:
            raise ConfigError(
                f"--baselines has {unknown[0]!r}: use some of {', '.join(drive.BASELINES)}"
            )
        if options.run:
            results: Any = {path.name: [kept_sample(path, options)] for path in options.run}
            foreign: float | None = None  # nobody knows what the training of a run had beside it
        else:
            results, foreign = measure_score(options, progress)
        progress.clear()
        show_score(results)
        together = pooled([sample for samples in results.values() for sample in samples])
        show_pooled(together)
        runs.draw_beside(panels(results), options, "score")
    except (PuffervecError, OSError) as error:
        progress.clear()
        print(f"error: {error}", file=sys.stderr)
        return 2
    common.finish(
        "score", options, common.machine(), foreign, {"score": results, "pooled": together}
    )
    return 0


def use_cores(count: int) -> None:
    """Keep this process, and those that it starts, to the first cores that it may use. Raises:
    ConfigError: none.
    """
    if count < 1:
        raise ConfigError(f"--cores is {count}: give 1 or more")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


if __name__ == "__main__":
    sys.exit(main())
