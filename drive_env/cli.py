# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The command `puffer-scenes`: inspect, convert, generate, fetch, draw and score scenes.

docs/scenes.md describes it. To add a verb, write a function that takes the parsed arguments and
returns an exit code, and declare its parser in `parser`.

Exit codes are those of `puffer-train`: 0 done, 1 some scenes failed, 2 bad input (one line on
standard error), 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import puffervec
from drive_env import compare as comparison
from drive_env.completion import candidates
from drive_env.config import LOT_SCENES, DriveConfig
from drive_env.convert import (
    FORMATS,
    Conversion,
    Rules,
    convert_one,
    files_of,
    is_done,
    load,
    scenes_in,
    tasks_of,
)
from drive_env.evaluate.likelihood import YEAR, YEARS
from drive_env.generate import generate, lots, streets
from drive_env.generate.families import FAMILIES
from drive_env.prepare import settings_of
from drive_env.progress import progress
from drive_env.scenes.bin_scene import BY_NAME
from drive_env.scenes.compile import compile_scene
from drive_env.scenes.controls import controls_of
from drive_env.scenes.goals import remarks_on_goals
from drive_env.scenes.json_scene import json_bytes
from drive_env.scenes.reader import check_drivable
from drive_env.scenes.schema import CONTROL_KINDS, OBJECT_TYPES, Scene
from drive_env.scenes.windows import frames_in
from drive_env.sources import id_of, split_of
from puffervec.contract.evaluation import as_text
from puffervec.errors import ConfigError, SceneError
from puffervec.system import extras
from puffervec.system.arguments import Parser
from puffervec.system.command import EXIT_FAILED, print_message, run_command
from puffervec.system.folder import describe_error, replace_file
from puffervec.system.output import one_line
from puffervec.system.shells import scripts
from puffervec.workers.process.parallel import each_on_all_cores

NAME = "puffer-scenes"
SHOWN = 10  # Files named in a summary; --json names all.
ALL = "all"
LEAST = 8  # Fewest scenes per process; with fewer, its start costs more than it saves.
COLUMNS = (
    "frames",
    *OBJECT_TYPES,
    "at start",
    "agents",
    "roads",
    "points",
    "lights",
    "signs",
    "height",
    "split",
)


def parser() -> Parser:
    """Return the parser of the command line."""
    top = Parser(
        prog=NAME,
        description="Driving scenes: files of GPUDrive, PufferDrive, Waymo, ScenarioNet, 123D, "
        "OpenDRIVE and CommonRoad, and .pvs, our own.",
    )
    top.add_argument("--version", action="version", version=f"puffervec {puffervec.__version__}")
    verbs = top.add_subparsers(dest="verb", metavar="VERB")

    def verb(name: str, run: Any, summary: str, paths: bool = True) -> Parser:
        new: Parser = verbs.add_parser(name, help=summary, description=summary)
        new.set_defaults(run=run)
        if paths:
            what = "a scene file, or a folder with subfolders"
            new.add_argument("paths", nargs="+", type=Path, metavar="PATH", help=what)
        return new

    # fmt: off
    verb("info", info, "show the contents of scenes").flag("--json", "print JSON with all files")
    flag = verb("check", check, "check whether scenes can be read and driven").flag
    flag("--json", "print JSON with all files")
    sub = verb("compare", compare, "measure how similar two sets of scenes are", paths=False)
    for name in ("A", "B"):
        sub.add_argument(name, help="a set, as for env.scenes: generated, generated:N, held-out, a "
                         "folder, a file, or several separated by commas")
    sub.flag("--json", "print JSON with the measures of each scene")
    flag = verb("convert", convert, "convert scenes to another format; files that are up to date "
                "are skipped").flag
    flag("--out FOLDER", "folder for the files; made if missing", type=Path, required=True)
    flag("--to FORMAT", "json, bin or pvs [default: %(default)s]", choices=FORMATS, default="pvs")
    flag("--layout LAYOUT", "layout of .bin: v1 for PufferDrive of 2025, v2 for 2.0 [default: "
         "%(default)s]", choices=tuple(BY_NAME), default="v2")
    flag("--simplify-m METRES", ".pvs: largest change of a road; ignored if the source is .pvs "
         "[default: %(default)s]", type=float, default=DriveConfig.simplify_m)
    flag("--range-m METRES", ".pvs: range of the index, as in the env's settings [default: "
         "%(default)s]", type=float, default=DriveConfig.range_m)
    flag("--window-s SECONDS", "cut longer scenes into windows of this length; 9.1 is that of the "
         "Waymo Open Motion Dataset; 0: scenes stay whole [default: %(default)s]", type=float,
         default=DriveConfig.window_s)
    flag("--jobs N", "number of processes [default: the number of cores]", type=int)
    flag("--force", "also convert scenes whose files are up to date")
    flag("--json", "print JSON with every file that failed")
    flag = verb("generate", generate_scenes, "generate scenes", paths=False).flag
    flag("--out FOLDER", "folder for the files; made if missing", type=Path, required=True)
    flag("--count N", "number of scenes [default: %(default)s]",
         type=int, default=generate.DEFAULT_COUNT)
    flag("--seed N", "seed, 0 or more; the same seed gives the same scenes [default: %(default)s]",
         type=int, default=generate.DEFAULT_SEED)
    flag("--wide", "draw from the wider ranges of the held-out scenes")
    flag("--family NAME", f"streets as large as real ones: {', '.join(FAMILIES)}; or {ALL}; or "
         f"{LOT_SCENES}, parking lots with trips off the lanes",
         choices=(ALL, *FAMILIES, LOT_SCENES))
    sub = verb("download", download, "download a public set of scenes; without arguments, list the "
               "sets", paths=False)
    sub.add_argument("set", nargs="?", help="name of a set, or owner/name of a dataset on the "
                     "Hugging Face Hub")
    flag = sub.flag
    flag("--out FOLDER", "folder for the files; made if missing", type=Path)
    flag("--match PATTERN", "only files whose names match this pattern, such as 'validation/*'")
    flag("--limit N", "largest number of files", type=int)
    flag("--endpoint URL", "server to use instead of huggingface.co")
    flag = verb("draw", draw, "draw pictures of the logs of scenes").flag
    flag("--out FILE|FOLDER", "a .png file, or a folder", type=Path, required=True)
    flag("--json", "print JSON with every file that failed")
    sub = verb("score", score, "score the rollouts in submissions to the Waymo Open Sim Agents "
               "Challenge", paths=False)
    sub.add_argument("files", nargs="+", type=Path, metavar="FILE",
                     help="a submission; several files are parts of one")
    sub.flag("--scenes WHAT", "the scenes of the rollouts, as for env.scenes", required=True)
    sub.flag("--wosac YEAR", "weights of the challenge of that year [default: %(default)s]",
             choices=YEARS, default=YEAR)
    sub.flag("--json", "print JSON with every scene, and all that is missing")
    sub = verb("completion", completion, "print a completion script for a shell", paths=False)
    sub.add_argument("shell", choices=tuple(scripts(NAME)),
                     help='as in: eval "$(puffer-scenes completion bash)"')
    # fmt: on
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    return run_command(NAME, lambda: _run(args))


def _run(args: list[str]) -> int:
    top = parser()
    if args[:2] == ["completion", "--"]:
        print(*candidates(args[2:], top), sep="\n")
        return 0
    try:
        options = top.parse_args(args)
    except SystemExit as end:  # --help, --version
        return int(end.code or 0)
    if options.verb is None:
        top.print_help()
        return 0
    return int(options.run(options))


def _say(text: str) -> None:
    print_message(NAME, text)


# ---- info, check ---------------------------------------------------------------------------------


def info(options: argparse.Namespace) -> int:
    """Print the contents of each scene, and totals."""
    results = _map_scenes(options.paths, describe)
    rows = [row for _, row in results if isinstance(row, dict)]
    failed = [(str(path), reason) for path, reason in results if isinstance(reason, str)]
    if options.json:
        print(json.dumps({"scenes": rows, "failed": dict(failed)}, indent=2))
    else:
        if rows:
            total = {
                "scene": f"total of {len(rows)}",
                **{name: _sum([row[name] for row in rows]) for name in COLUMNS},
            }
            print(_table([*rows, *([total] if len(rows) > 1 else [])]))
        _say_failed(failed)
    return EXIT_FAILED if failed else 0


def _sum(values: list[Any]) -> Any:
    return sum(values) if all(type(value) is int for value in values) else ""


def describe(scene: Scene) -> dict[str, Any]:
    """Return the row of a scene in the table of `info`, by column."""
    controls = Counter(CONTROL_KINDS[item.kind] for item in controls_of(scene))
    kinds = Counter(OBJECT_TYPES[item.type] for item in scene.objects)
    return {
        "scene": scene.name,
        "frames": scene.frame_count,
        **{name: kinds[name] for name in OBJECT_TYPES},
        "at start": sum(item.valid_at_start for item in scene.objects),
        "agents": scene.agent_counts[0],
        "roads": len(scene.roads),
        "points": sum(len(road.points_m) for road in scene.roads),
        "lights": controls["traffic_light"],
        "signs": controls["stop_sign"] + controls["yield_sign"],
        "height": "yes" if scene.has_height else "no",
        "split": split_of(id_of(scene.name)),
    }


def check(options: argparse.Namespace) -> int:
    """Read and compile each scene; print why scenes cannot be driven, and unreachable goals."""
    results = _map_scenes(options.paths, _find_warnings)
    failed = [(str(path), reason) for path, reason in results if isinstance(reason, str)]
    warnings = {str(path): lines for path, lines in results if isinstance(lines, list) and lines}
    if options.json:
        print(
            json.dumps(
                {"scenes": len(results), "failed": dict(failed), "warnings": warnings}, indent=2
            )
        )
    else:
        _say_failed(failed)
        for path, lines in list(warnings.items())[:SHOWN]:
            more = f", and {len(lines) - 1} more like it" if len(lines) > 1 else ""
            _say(one_line(f"warning: {path}: {lines[0]}{more}"))
        if len(warnings) > SHOWN:
            _say(f"and warnings for {len(warnings) - SHOWN} more; --json has all")
        print(f"{len(results) - len(failed)} of {len(results)} scenes can be driven")
    return EXIT_FAILED if failed else 0


def _find_warnings(scene: Scene) -> list[str]:
    """Return warnings about a scene. Raises: SceneError: nothing in it can be driven."""
    check_drivable(scene, scene.name)
    compile_scene(scene, settings_of(DriveConfig()))
    return remarks_on_goals(scene)


def _map_scenes(paths: Sequence[Path], function: Any) -> list[tuple[Path, Any]]:
    """Call `function` for each scene; return (file, result or error text) of each."""
    files = [file.path for file in files_of(paths)]
    outcomes = each_on_all_cores(functools.partial(_map_file, function=function), files, LEAST)
    results = []
    with progress("reading scenes", len(files)) as advance:
        for path, items in zip(files, outcomes, strict=True):
            results += [(path, item) for item in items]
            advance()
    return results


def _map_file(path: Path, function: Any) -> list[Any]:
    """Call `function` for each scene of a file; return results, and error texts for bad scenes."""
    try:
        return [_map_scene(path, index, function) for _, index in scenes_in(path)]
    except SceneError as error:
        return [_reason(path, error)]


def _map_scene(path: Path, index: int | None, function: Any) -> Any:
    try:
        return function(load(path, index))
    except SceneError as error:
        return _reason(path, error)


def _reason(path: Path, error: SceneError) -> str:
    return str(error).removeprefix(f"{path}: ").removeprefix(f"{path.name}: ")


def _table(rows: Sequence[dict[str, Any]]) -> str:
    names = ("scene", *COLUMNS)
    cells = [list(names), *([one_line(str(row[name])) for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    widths[0] = -widths[0]  # Names are aligned to the left, numbers to the right.
    lines = [
        [text.ljust(-w) if w < 0 else text.rjust(w) for text, w in zip(line, widths, strict=True)]
        for line in cells
    ]
    return "\n".join("  ".join(line).rstrip() for line in lines)


def _say_failed(failed: Sequence[tuple[str, str]]) -> None:
    for path, reason in failed[:SHOWN]:
        _say(one_line(f"{path}: {reason}"))
    if len(failed) > SHOWN:
        _say(f"and {len(failed) - SHOWN} more; --json names all")


def _join_reasons(failed: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the reasons by file; those of a file with several scenes are joined."""
    reasons: dict[str, str] = {}
    for path, reason in failed:
        reasons[path] = f"{reasons[path]}; {reason}" if path in reasons else reason
    return reasons


# ---- compare -------------------------------------------------------------------------------------


def compare(options: argparse.Namespace) -> int:
    """Measure two sets of scenes and print a row per measure."""
    sets = [(name, comparison.items_of(name)) for name in (options.A, options.B)]
    every = [item for _, items in sets for item in items]
    outcomes: list[Any] = []
    with progress("measuring scenes", len(every)) as advance:
        for outcome in each_on_all_cores(comparison.measure_item, every, LEAST):
            outcomes.append(outcome)
            advance()
    cut = len(sets[0][1])
    a, b = (
        comparison.collect_measures(sets[0][0], outcomes[:cut]),
        comparison.collect_measures(sets[1][0], outcomes[cut:]),
    )
    rows = comparison.rows_of(a, b)
    if options.json:
        sides = {
            key: {
                "name": side.name,
                "scenes": side.scenes,
                "left_out": {str(item.path): item.reason for item in side.left_out},
            }
            for key, side in (("a", a), ("b", b))
        }
        print(json.dumps({"rows": rows, **sides}, indent=2))
    else:
        print(comparison.table(a, b, rows))
        _say_failed([(str(item.path), item.reason) for side in (a, b) for item in side.left_out])
    return 0


# ---- convert, generate, download, draw -----------------------------------------------------------


def convert(options: argparse.Namespace) -> int:
    """Convert scenes, several at a time, and print a summary."""
    if options.jobs is not None and options.jobs < 1:
        raise ConfigError(f"--jobs is {options.jobs}; it must be at least 1")
    config = DriveConfig(
        simplify_m=options.simplify_m, range_m=options.range_m, window_s=options.window_s
    )
    frames = frames_in(config.window_s)
    rules = Rules(options.to, options.layout, settings_of(config), frames)
    tasks, refused = tasks_of(files_of(options.paths), options.out, options.to)
    pending = tasks if options.force else [task for task in tasks if not is_done(task, rules)]
    done: list[Conversion] = list(refused)
    with progress("converting scenes", len(tasks), done=len(tasks) - len(pending)) as advance:
        for item in each_on_all_cores(
            functools.partial(convert_one, rules=rules), pending, LEAST, options.jobs
        ):
            done.append(item)
            advance()
    failed = [(str(item.task.path), item.error) for item in done if item.error]
    skipped = len(tasks) - len(pending)
    cut = [item.windows for item in done if item.windows > 1]
    sums = {
        "dropped": _sum_counts(item.dropped for item in done),
        "simplified": _sum_counts(item.simplified for item in done),
    }
    if options.json:
        result = {
            "converted": len(done) - len(failed),
            "there": skipped,
            "failed": _join_reasons(failed),
            "windows": sum(cut),
            **{what: {n: c for n, (c, _) in counts.items()} for what, counts in sums.items()},
        }
        print(json.dumps(result, indent=2))
        return EXIT_FAILED if failed else 0
    _say_failed(failed)
    print(
        f"{len(done) - len(failed)} scenes converted to {options.out}, {skipped} were there "
        f"already, {len(failed)} failed"
    )
    if cut:
        print(f"  windows: {len(cut)} scenes were cut into {sum(cut)}")
    for what, counts in sums.items():
        for name, (count, scenes) in counts.items():
            print(f"  {what}: {count:,} {name}, in {scenes} scenes")
    return EXIT_FAILED if failed else 0


def _sum_counts(counters: Iterable[Counter[str]]) -> dict[str, tuple[int, int]]:
    """Return, for each name, the sum of its counts and the number of counters that contain it."""
    sums: dict[str, tuple[int, int]] = {}
    for counter in counters:
        for name, count in counter.items():
            total, scenes = sums.get(name, (0, 0))
            sums[name] = total + count, scenes + 1
    return sums


def generate_scenes(options: argparse.Namespace) -> int:
    """Write generated scenes as JSON."""
    if options.count < 1:
        raise ConfigError(f"--count is {options.count}; it must be at least 1")
    write = functools.partial(
        _generate_one, seed=options.seed, wide=options.wide, family=options.family, out=options.out
    )
    with progress("generating scenes", options.count) as advance:
        for _ in each_on_all_cores(write, range(options.count), LEAST):
            advance()
    print(f"{options.count} scenes written to {options.out}")
    return 0


def _generate_one(index: int, seed: int, wide: bool, family: str | None, out: Path) -> None:
    if family is not None:
        scene = (
            lots.lot_scene(seed, index, wide)
            if family == LOT_SCENES
            else streets.street_scene(seed, index, wide, None if family == ALL else family)
        )
        _write(out / scene.name, json_bytes(scene))
        return
    tree = generate.generate_tree(seed, index, wide)
    _write(out / tree["name"], json.dumps(tree, separators=(",", ":")).encode())


def _write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data)
    except OSError as error:
        raise SceneError(f"{path}: cannot be written: {describe_error(error)}") from error


def download(options: argparse.Namespace) -> int:
    """Download a set and unpack its archives, or list the sets."""
    from drive_env.download import SETS, fetch, unpack

    if options.set is None:
        for name, (repository, what) in SETS.items():
            print(f"{name:<18} {what} ({repository})")
        print(
            "All but the CARLA towns derive from the Waymo Open Motion Dataset, whose licence "
            "allows no commercial use."
        )
        return 0
    if options.out is None:
        raise ConfigError("--out is missing: name the folder that the scenes should go to")
    if options.limit is not None and options.limit < 1:
        raise ConfigError(f"--limit is {options.limit}; it must be at least 1")
    for archive in fetch(options.set, options.out, options.match, options.limit, options.endpoint):
        result = unpack(archive, archive.parent)
        rest = f"{result.there} were there already, {result.passed_over} other files passed over"
        print(f"{archive}: {result.written} scenes unpacked, {rest}")
        for name in result.refused[:SHOWN]:
            _say(
                f"{archive}: {name}: left in the archive: it points outside, is not a plain file, "
                "or is too large"
            )
    print(f"{len(files_of([options.out]))} scene files in {options.out}")
    return 0


def draw(options: argparse.Namespace) -> int:
    """Draw scenes: one into a file, several into a folder."""
    extras.require("drawing", "PIL")
    from drive_env.render.picture import png_of
    from drive_env.render.still import middle_of, roads_of, tracks_of

    tasks, refused = tasks_of(files_of(options.paths), options.out, "png")
    single = options.out.suffix == ".png"
    if single and len(tasks) != 1:
        raise ConfigError(
            f"--out is {options.out}, but there are {len(tasks)} scenes: give a folder"
        )
    failed = [(str(item.task.path), item.error) for item in refused]
    drawn: list[str] = []
    for task in tasks:
        try:
            target = options.out if single else task.out
            scene = load(task.path, task.index)
            origin = middle_of(scene)
            _write(target, png_of(scene.name, roads_of(scene, origin), tracks_of(scene, origin)))
            drawn.append(str(target))
            if not options.json:
                print(one_line(str(target)))
        except SceneError as error:
            failed.append((str(task.path), str(error).removeprefix(f"{task.path}: ")))
    if options.json:
        print(json.dumps({"drawn": drawn, "failed": _join_reasons(failed)}, indent=2))
    else:
        _say_failed(failed)
    return EXIT_FAILED if failed else 0


# ---- score, completion ---------------------------------------------------------------------------


def score(options: argparse.Namespace) -> int:
    """Score submissions and print the means over the scenes."""
    from drive_env.evaluate.imported import score_submission

    config = DriveConfig(scenes=options.scenes)
    report, missing = score_submission(options.files, config, options.wosac)
    if options.json:
        print(json.dumps(report.to_json(), indent=2))
    else:
        for column, cell in (report.total or {}).items():
            print(f"{column:<26}  {as_text(cell)}")
        for line in report.remarks:
            _say(one_line(line))
    return EXIT_FAILED if missing.scenes or missing.objects or missing.unscored else 0


def completion(options: argparse.Namespace) -> int:
    """Print a completion script for a shell."""
    print(scripts(NAME)[options.shell], end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
