# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Score submission files of the sim agents challenge that any program may have written.

The scenes and the code that computes the scores are ours. Everything else is as in the challenge:
rollouts contain the objects that are present at the current frame, and the self-driving car and the
tracks to predict are evaluated. Runs in the learner.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from drive_env.config import DriveConfig
from drive_env.evaluate.features import Boxes
from drive_env.evaluate.lights import lights_of
from drive_env.evaluate.likelihood import YEAR
from drive_env.evaluate.realism import (
    SceneRollouts,
    check_year,
    describe_score,
    log_of,
    road_edges,
    row_of,
    total_of,
)
from drive_env.evaluate.sent import scenario_id_of
from drive_env.evaluate.submission import (
    CHALLENGE_ROLLOUTS,
    HISTORY,
    ScenarioRollouts,
    read_submission,
)
from drive_env.prepare import prepare_scenes, remarks_on
from drive_env.scenes import packed
from drive_env.scenes.schema import VEHICLE
from drive_env.scenes.stored import StoredScene
from puffervec.contract.evaluation import Report, Row
from puffervec.errors import SceneError

SHOWN = 5  # names in a remark
# Which scenes are scored does not depend on the choice of agents, if any object can be driven.
SETTINGS: dict[str, Any] = {
    "control": "all", "control_ids": (), "init_step": HISTORY, "max_steps": 0, "num_agents": 4096,
}  # fmt: skip
LEAST_FRAMES = HISTORY + 5  # a logged acceleration needs five frames


@dataclass
class Missing:
    """The items that the files lack, and those that they have in excess.

    Attributes:
        scenes: scenes that are not in the files.
        objects: rows of objects that are not in all rollouts of their scene.
        unscored: scenes without a score, and why.
        unknown: ids of scenarios that are not among the scenes.
        strangers: for each scene, the number of objects that the scene does not have at that frame.
        counts: for each scene, the number of rollouts, if it differs from the challenge's.
    """

    scenes: list[str] = field(default_factory=list)
    objects: list[Row] = field(default_factory=list)
    unscored: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    strangers: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def remarks(self, scenes: int) -> list[str]:
        """Return lines that name and count all items. Args: scenes: number of scenes."""
        few = {str(row["scene"]): 0 for row in self.objects}
        for row in self.objects:
            few[str(row["scene"])] += 1
        of = {
            f"MISSING: {len(self.scenes)} of the {scenes} scenes are not in the files": self.scenes,
            f"MISSING: {len(self.objects)} objects, in {len(few)} scenes, are not in all of their "
            "rollouts": [f"{name} ({count})" for name, count in few.items()],
            f"NOT SCORED: {len(self.unscored)} scenes": self.unscored,
            f"left out {len(self.unknown)} scenarios that are not among the scenes": self.unknown,
            f"left out {sum(self.strangers.values())} objects that are not in the scenes at frame "
            f"{HISTORY}": [f"{name} ({count})" for name, count in self.strangers.items()],
            f"{len(self.counts)} scenes do not have {CHALLENGE_ROLLOUTS} rollouts": [
                f"{name} ({count})" for name, count in self.counts.items()
            ],
        }
        return [
            f"{text}: {', '.join(names[:SHOWN])}{', ...' if len(names) > SHOWN else ''}"
            for text, names in of.items()
            if names
        ]


def score_submission(
    files: Sequence[Path], config: DriveConfig, wosac: str = YEAR
) -> tuple[Report, Missing]:
    """Score the rollouts of some files, which together are one submission.

    Args:
        files: submission files.
        config: names the scenes; SETTINGS replace some of it.
        wosac: year of the challenge whose weights are used.

    Returns:
        The report, in which a scene that is not scored has no row, and what is missing.

    Raises:
        ConfigError: there is no such year.
        SceneError: a file cannot be read or is damaged, two have the same scenario, or no scene can
            be scored.
        MissingExtraError: protobuf is not installed.
    """
    check_year(wosac)
    prepared = prepare_scenes(dataclasses.replace(config, **SETTINGS))
    scenes, missing = prepared.scenes, Missing()
    places: dict[str, int] = {}
    for index in range(len(scenes)):
        places.setdefault(scenario_id_of(scenes[index]), index)
    rows: dict[int, Row] = {}
    files_of: dict[str, Path] = {}
    remarks: list[str] = []
    for path in files:
        for rollouts in read_submission(path):
            own_id = rollouts.scenario_id
            if own_id in files_of:
                raise SceneError(f"{path}: scenario {own_id} is in {files_of[own_id]} too")
            files_of[own_id] = path
            if own_id not in places:
                missing.unknown.append(own_id)
                continue
            scene = scenes[places[own_id]]
            rolled = rollouts_in(scene, rollouts, missing)
            if rolled is not None:
                rows[places[own_id]], more = row_of(scene.name, rolled, wosac)
                remarks += more
    missing.scenes = [scenes.names[index] for own, index in places.items() if own not in files_of]
    if not rows:
        raise SceneError(
            f"{', '.join(map(str, files))}: no scene of {config.scenes} can be scored: "
            f"{'; '.join(missing.remarks(len(scenes)))}"
        )
    listed = [rows[index] for index in sorted(rows)]
    lost: list[Row] = [{"scene": name, "object": None} for name in missing.scenes]
    lost += missing.objects
    counts = {int(str(row["rollouts"])) for row in listed}
    notes = [describe_score(max(counts), wosac), *missing.remarks(len(scenes))]
    return Report(
        rows=listed,
        total=total_of([listed]),
        remarks=[*notes, *remarks_on(prepared.left_out), *dict.fromkeys(remarks)],
        score="realism",
        tables={"missing": lost} if lost else {},
    ), missing


def rollouts_in(
    scene: StoredScene, rollouts: ScenarioRollouts, missing: Missing
) -> SceneRollouts | None:
    """Return the rollouts of a scene's objects after their logged history.

    Args:
        scene: the scene.
        rollouts: those of its scenario, with ascending ids.
        missing: receives what does not fit; then the result may be None.
    """
    head, arrays = scene.head, scene.sections
    whole, frames = log_of(head, arrays), scene.frame_count
    there = np.flatnonzero(whole.valid[:, HISTORY]) if frames >= LEAST_FRAMES else np.zeros(0, int)
    objects = arrays["objects"][there]
    ids = objects["id"].astype(np.int64)
    known = np.isin(ids, rollouts.ids)
    missing.objects += [{"scene": scene.name, "object": own} for own in ids[~known].tolist()]
    extra = len(np.setdiff1d([*rollouts.ids, *rollouts.partly], ids))
    if extra:
        missing.strangers[scene.name] = extra
    if len(rollouts.poses) != CHALLENGE_ROLLOUTS:
        missing.counts[scene.name] = len(rollouts.poses)
    there, objects, ids = there[known], objects[known], ids[known]
    judged = np.flatnonzero(objects["flags"] & (packed.SDC | packed.TO_PREDICT))
    if not len(judged):
        why = (
            f"fewer than {LEAST_FRAMES} frames"
            if frames < LEAST_FRAMES
            else "none of its objects to evaluate"
        )
        missing.unscored.append(f"{scene.name} ({why})")
        return None
    names = ("x", "y", "heading", "length", "width", "valid")
    log = Boxes(*(getattr(whole, name)[there] for name in names))
    at = np.searchsorted(rollouts.ids, ids)
    count, times = len(rollouts.poses), log.x.shape[1]
    shift = np.array([*scene.origin_m, 0.0])[:, None]
    future = rollouts.poses[:, at, :, : times - HISTORY - 1] - shift
    x, y, heading = (
        np.concatenate(
            [np.repeat(logged[None, :, : HISTORY + 1], count, axis=0), future[:, :, row]], axis=-1
        )
        for logged, row in ((log.x, 0), (log.y, 1), (log.heading, 3))
    )
    valid = np.repeat(log.valid[None], count, axis=0)
    valid[..., HISTORY + 1 :] = True
    return SceneRollouts(
        log,
        Boxes(x, y, heading, log.length, log.width, valid),
        judged,
        objects["type"][judged] == VEHICLE,
        road_edges(head, arrays),
        float(head["dt_s"]),
        lights_of(head, arrays, times),
    )
