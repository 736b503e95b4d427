# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Score the realism of drivers on scenes of WOMD, as the sim agents challenge does.

    python bench/realism.py --real DIR --real DIR     log, random, constant velocity, IDM, and the
                                                      driver that comes with the package
    python bench/realism.py --real DIR --drivers log,runs/A,runs/B/checkpoints/000001000000

All vehicles, pedestrians and cyclists that do not start at their goal are driven, 32 times in each
scene (docs/drive.md). Policies sample their actions. Scenes are those of bench/score.py. Nothing is
timed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common, score
from bench.foreign import foreign_load
from drive_env.config import DriveConfig
from drive_env.evaluate.baselines import BASELINES
from drive_env.evaluate.evaluate import baseline
from drive_env.evaluate.likelihood import ESTIMATORS, GROUPS, YEAR, YEARS
from drive_env.evaluate.realism import ROLLOUTS, evaluate_realism
from puffervec.contract.evaluation import Actor
from puffervec.train.device.device import choose_device

DRIVERS = f"log,random,constant-velocity,idm,{score.DRIVER}"
SEED = 0
COLUMNS = ("realism", *GROUPS, *ESTIMATORS, "min_ade_m")


def drivers_of(
    options: argparse.Namespace, config: DriveConfig
) -> dict[str, tuple[Actor, DriveConfig]]:
    """Return an actor and its config by name: first the baselines, then trained drivers.

    Raises:
        CheckpointError, ConfigError: there is no such driver; see `score.load_drivers`.
    """
    names = options.drivers.split(",")
    drivers = {name: (baseline(name, SEED), config) for name in names if name in BASELINES}
    trained = ",".join(name for name in names if name not in BASELINES)
    loaded = score.load_drivers(trained, config, choose_device(options.device), False)
    return drivers | {name: (actor, run.env) for name, (actor, run) in loaded.items()}


def sample(options: argparse.Namespace, note: Callable[[str], None]) -> dict[str, Any]:
    """Score each driver."""
    scenes = score.real_scenes(options.real)
    config = DriveConfig(scenes=",".join(map(str, scenes)), control="all")
    drivers = {}
    for name, (actor, env) in drivers_of(options, config).items():
        note(name)
        report = evaluate_realism(
            actor, env, episodes=options.episodes, seed=SEED, wosac=options.wosac
        ).to_json()
        drivers[name] = {"total": report["total"], "rows": numbered(report["rows"], scenes)}
    return {"scenes": len(scenes), "rollouts": options.episodes, "drivers": drivers}


def numbered(rows: Sequence[Mapping[str, Any]], scenes: Sequence[Path]) -> list[dict[str, Any]]:
    """Return rows of a report with the numbers of their scenes in place of the names."""
    numbers = {path.name: number for number, path in enumerate(scenes, 1)}
    return [{**row, "scene": numbers[Path(row["scene"]).name]} for row in rows]


def show(results: Mapping[str, Any], wosac: str) -> None:
    """Print a line per driver."""
    totals = {name: report["total"] for name, report in results["drivers"].items()}
    common.print_table(
        f"likelihoods of the log, mean of {results['scenes']} scenes, weights of {wosac}",
        ("driver", *COLUMNS),
        [(name, *(_cell(total, column) for column in COLUMNS)) for name, total in totals.items()],
    )


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
        rows.append([f"`{name}`", cells[0] + interval, *cells[1:]])
    return common.markdown(["driver", *(f">`{name}`" for name in columns)], rows)


@common.command
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    flags = common.parser(__doc__)
    folders = "folder with scenes of WOMD; may be given again"
    flags.add_argument("--real", action="append", required=True, help=folders)
    some = (
        "baselines, run folders, checkpoints, or policies that come with drive, separated by "
        "commas (default: %(default)s)"
    )
    flags.add_argument("--drivers", default=DRIVERS, help=some)
    rollouts = "rollouts of each scene (default: %(default)s)"
    flags.add_argument("--episodes", type=int, default=ROLLOUTS, help=rollouts)
    year = "year of the challenge whose weights are used (default: %(default)s)"
    flags.add_argument("--wosac", choices=YEARS, default=YEAR, help=year)
    flags.add_argument("--device", default="cpu", help="device of the policies")
    common.add_json(flags, "realism")
    options = flags.parse_args(arguments)
    facts, progress = common.machine(), common.Progress()
    results, foreign = foreign_load(lambda: sample(options, progress))
    show(results, options.wosac)
    common.finish("realism", options, facts, foreign, results)


if __name__ == "__main__":
    sys.exit(main())
