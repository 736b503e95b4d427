# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure both Tag games, next to WarpDrive's published figures.

    python bench/tag.py                                          everything, about ten minutes
    python bench/tag.py --parts rates --cases "grid, 5 agents, full"
    python bench/tag.py --parts chase --chase-seconds 60

Rollouts, training, growth, sampling, and reward against the clock are measured. rates: each case in
every way of stepping (bench/tag_rates.py); growth: the cost of a step from 1 to 10,000 envs and
from 5 to 5,000 agents; training, sampling, chase: bench/tag_training.py. A picture of growth and
chase is written next to the JSON.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common, runs, tag_rates, tag_training
from puffervec.errors import ConfigError, PuffervecError
from puffervec.system.cores import usable_cores

MEASURES = {
    "rates": (tag_rates.measure_rates, tag_rates.show_rates),
    "growth": (tag_rates.measure_growth, tag_rates.show_growth),
    "training": (tag_training.measure_training, tag_training.show_training),
    "sampling": (tag_training.measure_sampling, tag_training.show_sampling),
    "chase": (tag_training.measure_chase, tag_training.show_chase),
}
PICTURES = {"growth": tag_rates.growth_panels, "chase": tag_training.chase_panels}


def parser() -> argparse.ArgumentParser:
    """Return the flags of the command."""
    flags = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = flags.add_argument
    common.add_flags(flags, "tag", 0.3)
    add("--parts", default=",".join(MEASURES), help="comma-separated, of: %(default)s")
    add(
        "--cases",
        default="",
        help="of rates and training, separated by semicolons (default: "
        f"{'; '.join(tag_rates.CASES)})",
    )
    add(
        "--num-envs",
        type=int,
        default=2000,
        help="of a case (default: %(default)s); training takes fewer of many agents",
    )
    add(
        "--workers",
        type=int,
        default=min(2, usable_cores()),
        help="threads or processes (default: %(default)s)",
    )
    add("--most-envs", type=int, default=tag_rates.MOST_ENVS, help="growth: (default: %(default)s)")
    add(
        "--most-agents",
        type=int,
        default=tag_rates.MOST_AGENTS,
        help="growth: (default: %(default)s)",
    )
    add(
        "--train-seconds",
        type=float,
        default=3.0,
        help="training: length of a sample (default: %(default)s)",
    )
    add("--train-repeats", type=int, default=3, help="training: samples (default: %(default)s)")
    add(
        "--chase-seconds",
        type=float,
        default=30.0,
        help="chase: length of a training (default: %(default)s)",
    )
    add("--seeds", type=int, default=5, help="chase: trainings (default: %(default)s)")
    add("--png", type=Path, help="where the picture goes (default: beside the JSON)")
    return flags


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0, or 2 for bad input."""
    options = parser().parse_args(arguments)
    facts, progress, results, worst = common.machine(), common.Progress(), {}, 0.0
    panels: list[runs.Panel] = []
    try:
        parts = options.parts.split(",")
        if unknown := [part for part in parts if part not in MEASURES]:
            raise ConfigError(f"--parts has {unknown[0]!r}: use some of {', '.join(MEASURES)}")
        options.cases = tag_rates.chosen_cases(options.cases)
        for part in parts:
            measure, show = MEASURES[part]
            results[part], foreign = measure(options, progress)
            worst = max(worst, foreign)
            progress.clear()
            show(results[part])
            panels += PICTURES[part](results[part]) if part in PICTURES else []
        if panels:
            runs.draw_beside(panels, options, "tag")
    except (PuffervecError, OSError) as error:
        progress.clear()
        print(f"error: {error}", file=sys.stderr)
        return 2
    common.finish("tag", options, facts, worst, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
