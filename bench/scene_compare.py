# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Compare generated scenes with real ones, as `puffer-scenes compare` does, and write the result.

    python bench/scene_compare.py --real DIR --real OTHER

200 streets and 200 default scenes are compared with the WOMD scenes of these folders, as in
bench/score.py. Nothing is timed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common, score
from bench.foreign import foreign_load
from drive_env import compare
from puffervec.workers.process.parallel import each_on_all_cores

GENERATED = {"streets": "streets:200", "generated": "generated:200"}
FAR = r" \*"  # The mark of medians that are far from those of the real scenes.


def measure_set(name: str, scenes: str) -> compare.MeasuredSet:
    """Measure a set of scenes. Args: scenes: a value of env.scenes."""
    items = compare.items_of(scenes)
    return compare.collect_measures(name, [*each_on_all_cores(compare.measure_item, items, 1)])


def markdown(results: Mapping[str, Any]) -> str:
    """Return the table of docs/scenes.md. Args: results: the results of a JSON file."""
    names = [f"{at:.0%}" for at in compare.QUANTILES]
    rows = []
    for lines in zip(*(results["generated"][name]["rows"] for name in GENERATED), strict=True):
        cells = [lines[0]["measure"]]
        for line in lines:
            cells += [compare.short(line["a"][name]) for name in names]
            cells.append(compare.short(line["distance"]) + ("" if line["near"] else FAR))
        rows.append([*cells, *(compare.short(lines[0]["b"][name]) for name in names)])
    columns = ["measure"]
    for name in GENERATED:
        columns += [f">{name} 10 %", ">50 %", ">90 %", ">distance"]
    return common.markdown([*columns, ">real 10 %", ">50 %", ">90 %"], rows)


def sample(folders: Sequence[str]) -> dict[str, Any]:
    """Compare each generated set with the scenes of WOMD in some folders, and print the result."""
    real = measure_set("the scenes of WOMD", ",".join(map(str, score.real_scenes(folders))))
    results: dict[str, Any] = {"real": len(real.scenes), "generated": {}}
    for name, scenes in GENERATED.items():
        own = measure_set(name, scenes)
        rows = compare.rows_of(own, real)
        within = compare.chance(len(own.scenes), len(real.scenes))
        results["generated"][name] = {"scenes": len(own.scenes), "within": within, "rows": rows}
        print(f"{compare.table(own, real, rows)}\n")
    return results


@common.command
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    flags = common.parser(__doc__)
    folders = "folder with scenes of WOMD; may be given again"
    flags.add_argument("--real", action="append", required=True, help=folders)
    common.add_json(flags, "scene-compare")
    options = flags.parse_args(arguments)
    facts = common.machine()
    results, foreign = foreign_load(lambda: sample(options.real))
    common.finish("scene-compare", options, facts, foreign, results)


if __name__ == "__main__":
    sys.exit(main())
