# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Score the realism of drivers on scenes of WOMD, as the sim agents challenge does.

    python bench/realism.py --real DIR                    log, random, constant velocity and IDM
    python bench/realism.py runs/NAME --real DIR          also a run, whose actions are drawn

All vehicles, pedestrians and cyclists are driven that do not start at their goal, 32 times in each
scene (docs/drive.md). Scenes are those of bench/score.py. Nothing is timed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common, score
from bench.foreign import foreign_load
from drive_env.config import DriveConfig
from drive_env.evaluate.baselines import BASELINES
from drive_env.evaluate.evaluate import baseline, same_task
from drive_env.evaluate.likelihood import ESTIMATORS, GROUPS, YEAR, YEARS
from drive_env.evaluate.realism import ROLLOUTS, evaluate_realism
from puffervec.contract.evaluation import Actor
from puffervec.errors import ConfigError, PuffervecError
from puffervec.train.act import evaluate as ev
from puffervec.train.device.device import choose_device

DRIVERS = "log,random,constant-velocity,idm"
SEED = 0
COLUMNS = ("realism", *GROUPS, *ESTIMATORS, "min_ade_m")


def drivers_of(options: argparse.Namespace, config: DriveConfig) -> dict[str, tuple[Actor, Any]]:
    """Return an actor and its config by name.

    Raises: ConfigError: there is no such baseline, or the run is not one of drive.
    """
    drivers: dict[str, tuple[Actor, Any]] = {}
    for name in options.drivers.split(","):
        if name not in BASELINES:
            raise ConfigError(f"--drivers has {name!r}: use some of {', '.join(BASELINES)}")
        drivers[name] = baseline(name, SEED), config
    if options.run is not None:
        device = choose_device(options.device)
        run, policies = ev.load_policies(options.run, device)
        if run.config.target != "drive":
            raise ConfigError(f"{options.run} is a run of {run.config.target}, not of drive")
        actor = ev.PolicyActor(
            dict(policies), device, deterministic=False, seed=SEED, rows=run.rows
        )
        drivers[score.DRIVER] = actor, same_task(config, run.config.env)
    return drivers


def sample(options: argparse.Namespace) -> dict[str, Any]:
    """Score each driver, and print the table."""
    scenes = score.real_scenes(options.real)
    config = DriveConfig(scenes=",".join(map(str, scenes)), control="all")
    drivers = {
        name: evaluate_realism(
            actor, env, episodes=options.episodes, seed=SEED, wosac=options.wosac
        ).to_json()
        for name, (actor, env) in drivers_of(options, config).items()
    }
    totals = {name: report["total"] for name, report in drivers.items()}
    common.print_table(
        f"likelihoods of the log, mean of {len(scenes)} scenes, weights of {options.wosac}",
        ("driver", *COLUMNS),
        [(name, *(_cell(total, column) for column in COLUMNS)) for name, total in totals.items()],
    )
    return {
        "scenes": len(scenes),
        "rollouts": options.episodes,
        "drivers": {
            name: {"total": report["total"], "rows": report["rows"]}
            for name, report in drivers.items()
        },
    }


def _cell(total: Mapping[str, Any], column: str) -> str:
    value = total[column]
    return "-" if value is None else f"{value:.3f}"


def markdown(results: Mapping[str, Any]) -> str:
    """Return the table for a page. Args: results: the results of a JSON file."""
    columns = ("realism", *GROUPS, "traffic_light_violation", "min_ade_m")
    rows = []
    for name, report in results["drivers"].items():
        total = report["total"]
        interval = " [{:.3f}, {:.3f}]".format(*total["realism_95"])
        cells = [_cell(total, column) for column in columns]
        rows.append([name, cells[0] + interval, *cells[1:]])
    return common.markdown(["driver", *(f">{name}" for name in columns)], rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and return the exit status."""
    raw = argparse.RawDescriptionHelpFormatter
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    flags.add_argument("run", nargs="?", type=Path, help="run folder or checkpoint")
    folders = "folder with scenes of WOMD; may be given again"
    flags.add_argument("--real", action="append", required=True, help=folders)
    some = "baselines, separated by commas (default: %(default)s)"
    flags.add_argument("--drivers", default=DRIVERS, help=some)
    rollouts = "rollouts of each scene (default: %(default)s)"
    flags.add_argument("--episodes", type=int, default=ROLLOUTS, help=rollouts)
    year = "year of the challenge whose weights are used (default: %(default)s)"
    flags.add_argument("--wosac", choices=YEARS, default=YEAR, help=year)
    flags.add_argument("--device", default="cpu", help="device of the run's policies")
    where = "where the result goes (default: in bench/results)"
    flags.add_argument("--json", type=Path, help=where)
    options = flags.parse_args(arguments)
    facts = common.machine()
    try:
        results, foreign = foreign_load(lambda: sample(options))
    except (PuffervecError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    common.finish("realism", options, facts, foreign, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
